"""The chat loop that runs inside the agent's sandbox: standard library alone.

These files are copied there as the package `scripts`; they import nothing else of EvoPolicy.
"""
