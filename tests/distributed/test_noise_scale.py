"""The gradient noise scale is the same on any number of processes, under every strategy and after resuming."""

import shutil
from typing import Any

import pytest
from helpers.marks import chaos
from helpers.runner import Runner, read_metrics

pytestmark = pytest.mark.xdist_group("noise_scale")  # the tests share runs

# Six micro-batches, which four processes cannot share equally; the rate is low so that the weights hardly part.
OPTIONS = ("--limit", "384", "--global-batch-size", "96", "--batch-size", "16", "--epochs", "2", "--lr", "0.02")
LOGGED = ("--log-every", "1", "--save-every", "3updates", "--keep", "9", "--device", "cpu", "--quiet")
MEASURED = ("gradient_variance", "gradient_square")
NOISE = ("noise_scale", "noise_scale_low", "noise_scale_high")
Records = list[dict[str, Any]]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    return Runner(tmp_path_factory.mktemp("noise_scale"))


def train(place: Runner, name: str, *words: str, processes: int = 1) -> tuple[Records, Records]:
    """Train, and return the records of updates and of epochs."""
    ended = place("train", *OPTIONS, *LOGGED, "--output", name, *words, processes=processes)
    assert ended.code == 0, ended.err
    return read_metrics(place.folder / name, "progress"), read_metrics(place.folder / name, "epoch")


@pytest.fixture(scope="module")
def alone(place: Runner) -> tuple[Records, Records]:
    return train(place, "alone")


def assert_same(found: tuple[Records, Records], expected: tuple[Records, Records], rel: float) -> None:
    for records, others, names in zip(found, expected, (MEASURED, NOISE), strict=True):
        assert len(records) == len(others)
        for record, other in zip(records, others, strict=True):
            for name in names:
                # The square is a small difference of two large numbers.
                scale = abs(other["gradient_variance"]) * rel if name == "gradient_square" else 0.0
                expected_value = other[name] and pytest.approx(other[name], rel=rel, abs=scale)
                assert record[name] == expected_value, name


def test_noise_scale_is_measured_after_five_updates(alone: tuple[Records, Records]) -> None:
    updates, (first, second) = alone
    assert len(updates) == 8
    assert all(record["gradient_variance"] > 0 for record in updates)
    assert [first[name] for name in NOISE] == [None] * 3  # four updates
    assert 0 < second["noise_scale_low"] < second["noise_scale"]


@pytest.mark.parametrize(
    ("processes", "words"),
    [
        (2, ()),
        (3, ()),
        chaos(4, ("--strategy", "fsdp2")),
        (2, ("--strategy", "fsdp2")),
        (2, ("--strategy", "pipeline", "--pipeline-stages", "2")),
    ],
    ids=["2", "3", "4 FSDP2", "2 FSDP2", "2 pipeline"],
)
def test_noise_scale_does_not_depend_on_processes_and_strategy(
    place: Runner, alone: tuple[Records, Records], processes: int, words: tuple[str, ...]
) -> None:
    name = f"{processes}_{'_'.join(words).replace('-', '')}"
    assert_same(train(place, name, *words, processes=processes), alone, rel=1e-5)


def test_noise_scale_is_bit_identical_with_exact(place: Runner) -> None:
    one, two = (train(place, f"exact_{count}", "--exact", processes=count) for count in (1, 2))
    for records, others, names in zip(one, two, (MEASURED, NOISE), strict=True):
        assert [[each[name] for name in names] for each in records] == [[o[name] for name in names] for o in others]


def test_resumed_run_has_the_noise_scale_of_an_uninterrupted_one(place: Runner, alone: tuple[Records, Records]) -> None:
    shutil.copytree(place.folder / "alone", place.folder / "resumed")
    for later in ("update_000006", "update_000008"):
        shutil.rmtree(place.folder / "resumed" / "checkpoints" / later)
    ended = place("train", *OPTIONS, *LOGGED[:-1], "--output", "resumed")
    assert ended.code == 0, ended.err
    assert "resumed at epoch 1 of 2, update 3" in ended.out
    epochs = read_metrics(place.folder / "resumed", "epoch")
    assert [epochs[-1][name] for name in NOISE] == [alone[1][-1][name] for name in NOISE]


def test_update_of_one_micro_batch_has_no_noise_scale(place: Runner) -> None:
    words = ("train", "--limit", "96", "--batch-size", "48", "--epochs", "1", "--log-every", "1", "--quiet")
    ended = place(*words, "--output", "one")
    assert ended.code == 0, ended.err
    (first, _) = read_metrics(place.folder / "one", "progress")
    assert [first[name] for name in MEASURED] == [None, None]
