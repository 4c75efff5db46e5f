"""Runs on disk as tidy frames, and what of them may be counted together."""
