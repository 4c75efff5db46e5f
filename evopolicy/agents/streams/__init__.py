"""What parsers of streams share: steps and calls, kinds of errors, what an attempt left behind,
reasoning."""
