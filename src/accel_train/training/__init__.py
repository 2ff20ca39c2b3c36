"""The training loop and its parts; they know no files and no config."""
