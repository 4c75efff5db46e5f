"""What the paper says, as data: its scores, its protocol, its published facts."""
