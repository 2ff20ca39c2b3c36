"""Every process of a run calls `accel_train.train`, and all get its events; rank 0 writes the metrics."""

from helpers.runner import Runner, read_metrics

PROGRAM = """
import sys
import accel_train
config = accel_train.TrainConfig(
    data="digits", model="mlp", epochs=1, limit=256, batch_size=32, processes=2, device="cpu", output="run"
)
(ended,) = [event for event in accel_train.train(config) if event.kind == "end"]
sys.stdout.write(f"{ended.updates} {ended.val_accuracy}\\n")  # at once: print() writes the end of the line by itself
"""


def test_all_processes_get_the_result_of_one_run(run: Runner) -> None:
    ended = run.script("-c", PROGRAM, processes=2)
    assert ended.code == 0, ended.err
    (epoch,) = read_metrics(run.folder / "run", "epoch")
    (started,) = read_metrics(run.folder / "run", "run")
    assert (started["world_size"], started["strategy"]) == (2, "DDP")
    assert ended.out.splitlines() == [f"4 {epoch['val_accuracy']}"] * 2
