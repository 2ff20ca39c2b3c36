"""Measures training speed, optionally against a bare PyTorch loop."""
