"""Sinks: each takes the events of a run and shows or writes them; none knows torch or other processes."""
