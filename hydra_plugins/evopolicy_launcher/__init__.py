"""Hydra finds launchers and sweepers only under `hydra_plugins`; what they do is in `evopolicy.cli`
and `.sweeps`."""
