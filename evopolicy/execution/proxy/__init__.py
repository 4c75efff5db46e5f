"""The Host's reverse proxy to an agent's provider: rules, usage, log."""
