"""The command `evopolicy`: from its words to what is run and what is printed."""
