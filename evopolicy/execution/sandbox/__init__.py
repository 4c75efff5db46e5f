"""What confines a process: Landlock, seccomp, bubblewrap, limits."""
