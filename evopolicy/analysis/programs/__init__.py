"""What the Programs of a Run are made of, and how one becomes the next."""
