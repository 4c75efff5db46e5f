"""Hydra finds launchers and sweepers only under `hydra_plugins`; everything they do is in `evopolicy.cli`."""
