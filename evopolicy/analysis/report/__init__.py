"""One self-contained HTML file of a Run or of several: `gather` reads it, `run` and `sweep` write
it.

Everything an agent, a Program or a provider wrote goes through `markup`, which escapes it.
"""
