"""An agent's process: its launcher, supervisor, home, mounts and network."""
