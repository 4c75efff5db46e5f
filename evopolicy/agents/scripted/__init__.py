"""What agents without a provider share: a script laid into the sandbox, its session and its budget."""
