"""One file a verb: what it reads, what it does and what it prints."""
