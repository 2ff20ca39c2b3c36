"""The processes of a run, and how they share the work."""
