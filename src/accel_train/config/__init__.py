"""What a user may ask for, and the numbers that follow; imports no torch."""
