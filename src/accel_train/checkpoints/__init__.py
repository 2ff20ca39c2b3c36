"""The files of a run: checkpoints and the run folder."""
