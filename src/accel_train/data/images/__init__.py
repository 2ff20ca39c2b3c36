"""Picture files as pixels."""
