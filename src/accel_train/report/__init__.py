"""One HTML page about a run: what it reached, where it errs, how it was trained; no torch."""
