"""Measures training speed beside a bare PyTorch loop."""
