"""What agents without a provider share: a script copied into the sandbox, its session and its
budget."""
