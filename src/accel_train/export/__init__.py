"""Hands the model of a run on: files that other programs use without accel_train."""
