"""The sections of `evopolicy doctor`: this machine, and what is installed on it."""
