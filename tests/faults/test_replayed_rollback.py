"""Updates around a rollback are replayed as they were: those that it skipped, and those after them."""

import pytest
from helpers.fragile import FRAGILE
from helpers.runner import Ended, Runner

from accel_train.data.sampler import ImageOrder

CODE = ("--data", "fragile:data", "--model", "fragile:net", "--workers", "0")


def replay(run: Runner, update: int) -> Ended:
    return run("replay", "run", "--update", str(update), *CODE)


@pytest.mark.slow
def test_updates_around_a_rollback_are_reproduced(run: Runner) -> None:
    image = ImageOrder(0, 64).sample_indices(0)[4 * 8]  # of update 5
    (run.folder / "fragile.py").write_text(f"POISON = {image}\n{FRAGILE}")
    words = ("--batch-size", "8", "--epochs", "1", "--log-every", "2", "--save-every", "2updates", "--keep", "9")
    trained = run("train", *CODE, *words, "--augment", "none", "--on-nan", "rollback", "--output", "run")
    assert trained.code == 0, trained.err
    assert "rolled back to update_000004, skipping the updates 5 to 6" in trained.out
    skipped = replay(run, 5)
    assert skipped.code == 0, skipped.err
    lines = skipped.out.splitlines()
    assert lines[0] == "run: computed updates 5 to 6 from checkpoint update_000004"
    assert lines[1].endswith("loss nan, gradient norm nan")
    assert "  loss           equal at update 6" in lines
    after = replay(run, 7)
    assert after.code == 0, after.out + after.err
    assert after.out.splitlines()[0] == "run: computed updates 5 to 8 from checkpoint update_000004"
    assert "  weights        equal at update 8" in after.out.splitlines()
