"""Trackers hold what metrics.jsonl holds, each value once, also after the run has been resumed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers import tracker_stores as stores
from helpers.faults import TINY
from helpers.runner import Ended, Runner, read_metrics
from helpers.tracker_stores import Points, expected

pytestmark = pytest.mark.xdist_group("trackers")  # the tests share runs

OPTIONS = (*TINY, "--log-every", "1", "--save-every", "2updates", "--keep", "9", "--schedule", "constant")


class Tracked:
    """A run of two processes, which one process continues from a checkpoint in its second epoch: 4 updates each."""

    def __init__(self, folder: Path, *trackers: str, **environment: str) -> None:
        self.folder, self.environment = folder, environment
        chosen = [word for name in trackers for word in ("--tracker", name)]
        words = (
            "train",
            *OPTIONS,
            "--epochs",
            "2",
            "--output",
            "run",
            "--report",
            "--tracker-project",
            "tests",
            *chosen,
        )
        self.ended = self._run(*words, processes=2)
        self.before = expected(folder / "run")

    def resume(self) -> Ended:
        return self._run("train", "--resume", "run/checkpoints/update_000006", "--output", "run", "--epochs", "3")

    def _run(self, *words: str, processes: int = 1) -> Ended:
        ended = Runner(self.folder)(*words, processes=processes, **self.environment)
        assert ended.code == 0, ended.err
        assert "failed" not in ended.err
        return ended


def service_environment(folder: Path) -> dict[str, str]:
    return {
        "TRACKIO_DIR": str(folder / "trackio"),
        "WANDB_MODE": "offline",
        "MLFLOW_TRACKING_URI": f"file:{folder / 'mlruns'}",
        "MLFLOW_ALLOW_FILE_STORE": "true",
    }


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Set what names the stores of services, for the runs and for this process, which reads them."""
    variables = service_environment(tmp_path_factory.mktemp("services"))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        yield variables


@pytest.fixture(scope="module")
def tracked(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Tracked:
    return Tracked(tmp_path_factory.mktemp("tracked"), "csv", "tensorboard", "trackio", **environment)


@pytest.fixture(scope="module")
def first(tracked: Tracked) -> dict[str, Any]:
    """Return what the stores hold after the first run."""
    shown = stores.shown_by_tensorboard(tracked.folder / "run")
    return {
        "csv": stores.in_csv(tracked.folder / "run"),
        "tensorboard": stores.in_tensorboard(tracked.folder / "run"),
        "trackio": in_trackio(tracked),
        "pictures": shown.Tags()["images"],
        "parameters": shown.summary_metadata["_hparams_/session_start_info"].plugin_data.content.decode("latin-1"),
    }


@pytest.fixture(scope="module")
def resumed(tracked: Tracked, first: dict[str, Any]) -> Tracked:
    tracked.resume()
    return tracked


def in_trackio(tracked: Tracked) -> dict[str, Points]:
    return stores.in_trackio(Path(tracked.environment["TRACKIO_DIR"]), "tests")


def rounded(points: Points) -> Points:
    """Return points as TensorBoard holds them: as 32-bit floats."""
    import numpy as np

    return sorted((key, update, float(np.float32(value))) for key, update, value in points)


def places(points: Points) -> list[tuple[str, int]]:
    return [(key, update) for key, update, _ in points]


def assert_continued(points: Points, before: Points, after: Points) -> None:
    """Check that a service has got what is new, has kept what it had, and holds nothing twice."""
    held = {(key, update): value for key, update, value in before}
    expected_now = sorted((key, update, held.get((key, update), value)) for key, update, value in after)
    ends = [point for point in before if point[0].startswith("end/")]
    assert points == sorted(expected_now + ends)
    assert len(set(places(points))) == len(points)


def test_stores_hold_the_metrics_of_a_run(tracked: Tracked, first: dict[str, Any]) -> None:
    assert len(tracked.before) > 50
    assert first["csv"] == tracked.before
    assert first["tensorboard"] == rounded(tracked.before)
    ((name, points),) = first["trackio"].items()
    assert name.startswith("run-")
    assert points == tracked.before


def test_config_and_confusion_matrix_are_stored(first: dict[str, Any]) -> None:
    assert first["pictures"] == ["confusion_matrix"]
    assert "batch_size" in first["parameters"]


def test_files_of_a_resumed_run_equal_its_metrics(resumed: Tracked) -> None:
    folder = resumed.folder / "run"
    after = expected(folder)
    assert {record["update"] for record in read_metrics(folder, "progress")} == set(range(1, 13))
    assert stores.in_csv(folder) == after
    assert stores.in_tensorboard(folder) == rounded(after)
    scalars = stores.shown_by_tensorboard(folder).Scalars("progress/lr")
    assert [event.step for event in scalars] == list(range(1, 13))


def test_trackio_continues_the_same_run(resumed: Tracked, first: dict[str, Any]) -> None:
    found = in_trackio(resumed)
    assert found.keys() == first["trackio"].keys()
    assert_continued(*found.values(), resumed.before, expected(resumed.folder / "run"))


@pytest.mark.slow
def test_wandb_and_mlflow_hold_each_value_once(tmp_path: Path, environment: dict[str, str]) -> None:
    tracked = Tracked(tmp_path, "wandb", "mlflow", **environment)
    folder = tmp_path / "run"
    ((identity, points),) = stores.in_wandb(folder).items()
    assert points == tracked.before
    ((run, held),) = stores.in_mlflow("tests").items()
    assert held == tracked.before
    assert stores.mlflow_run(run) == {"batch_size": "8", "model": "mlp", "status": "FINISHED"}
    assert sorted(path.name for path in Path(environment["MLFLOW_TRACKING_URI"][5:]).rglob("artifacts/*")) == [
        "confusion_matrix.png",
        "report.html",
    ]
    tracked.resume()
    assert stores.in_wandb(folder) == {identity: expected(folder)}
    ((same_run, continued),) = stores.in_mlflow("tests").items()
    assert same_run == run
    assert_continued(continued, tracked.before, expected(folder))


def test_run_with_another_output_is_another_tracked_run(resumed: Tracked, environment: dict[str, str]) -> None:
    words = ("train", "--resume", "run/checkpoints/update_000008", "--output", "copy", "--tracker", "trackio")
    ended = Runner(resumed.folder)(*words, **environment)
    assert ended.code == 0, ended.err
    found = in_trackio(resumed)
    (copy,) = (points for name, points in found.items() if name.startswith("copy-"))
    assert copy == expected(resumed.folder / "copy")
    assert not (resumed.folder / "copy/metrics.csv").exists()


def test_tracker_that_fails_costs_one_warning(run: Runner) -> None:
    (run.folder / "file").touch()
    words = ("train", *TINY, "--epochs", "2", "--output", "run", "--tracker", "trackio", "--tracker", "csv")
    ended = run(*words, TRACKIO_DIR=str(run.folder / "file/folder"))
    assert ended.code == 0
    (warning,) = [line for line in ended.err.splitlines() if "waiting for it" not in line]
    assert warning.startswith("warning: --tracker trackio has failed, the run continues: OSError: ")
    assert warning.endswith("/run --tracker trackio` sends it what is missing")
    assert stores.in_csv(run.folder / "run") == expected(run.folder / "run")
    assert "Not a directory" in (run.folder / "run/log/tracker_trackio.log").read_text()


def test_no_tracker_of_a_resumed_run_is_used(run: Runner) -> None:
    words = (*OPTIONS, "--epochs", "1", "--output", "run")
    assert run("train", *words, "--tracker", "csv").code == 0
    before = (run.folder / "run/metrics.csv").read_bytes()
    assert run("train", *words, "--tracker", "none", "--epochs", "2").code == 0
    assert (run.folder / "run/metrics.csv").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--tracker", "tensorbord"), "--tracker tensorbord: must be one of "),
        (("--tracker", "csv,none"), "--tracker none excludes all others"),
    ],
)
def test_unknown_trackers_are_refused(run: Runner, words: tuple[str, ...], message: str) -> None:
    ended = run("train", *words)
    assert ended.code == 2
    assert ended.err.splitlines()[0].startswith(f"error: {message}")
    assert list(run.folder.iterdir()) == []
