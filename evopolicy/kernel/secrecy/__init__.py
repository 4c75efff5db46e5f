"""Secrets, and keeping them out of what is written."""
