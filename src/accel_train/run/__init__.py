"""One run, from its config to its last event."""
