"""What coding CLIs share: options, the search for a program and its Node, versions, settings laid into a home."""
