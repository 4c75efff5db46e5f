"""Cells of one command: planned, run several at once in processes of their own, watched, logged. No
Hydra."""
