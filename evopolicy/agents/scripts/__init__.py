"""What runs inside the sandbox of an agent that needs no provider: standard library, and `cma` for one of them.

These files are laid there as the package `scripts`; they import nothing else of EvoPolicy.
"""
