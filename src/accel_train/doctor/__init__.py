"""Finds out why a run does not start, or is slow, on the machines that it is started on."""
