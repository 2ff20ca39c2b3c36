"""Train an image classifier with one command: the same run on one CPU or on many GPUs."""

__version__ = "0.1.0"
