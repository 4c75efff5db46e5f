"""What the others implement, and the values that cross."""
