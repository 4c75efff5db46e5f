"""Frames in, matplotlib Figure out: one function a figure, all in one style. matplotlib loads when
one is drawn."""
