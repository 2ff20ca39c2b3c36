"""Data: from the name of a data set to batches on the device."""
