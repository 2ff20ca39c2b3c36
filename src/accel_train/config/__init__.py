"""What a user may ask for, and the numbers that follow from it; imports no torch."""
