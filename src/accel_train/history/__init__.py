"""What a run has stored, read without torch: its config with origins, its metrics, its state."""
