"""A Policy's process: the fork server that makes it, and the process of one Episode."""
