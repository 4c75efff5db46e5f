"""What coding CLIs share: options, the search for a program and its Node, versions, settings
written into a home."""
