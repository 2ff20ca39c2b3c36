"""Loggers: each takes the events of a run and prints or writes them; none imports torch."""
