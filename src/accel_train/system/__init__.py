"""The operating system: signals, files, locks, shared memory."""
