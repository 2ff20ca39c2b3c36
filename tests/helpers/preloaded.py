"""Imported by the parent of all forks, last: makes what each forked program would make again."""

import gc

from accel_train.config.options import EvaluateConfig, TrainConfig

for config in (TrainConfig, EvaluateConfig):
    config.model_rebuild()
gc.freeze()  # collections in forks neither visit nor copy what they share
