"""Packed folders: images decoded once, mapped into memory in training."""
