"""How processes share the work, one file a strategy."""
