"""A compiled run computes what a plain one does and exports plain weights."""

import pytest
from helpers.comparing import greatest_difference
from helpers.runner import Runner

WORDS = ("--data", "synthetic:64,1,8,8,2", "--model", "mlp", "--batch-size", "8", "--epochs", "1", "--device", "cpu")


@pytest.mark.parametrize("processes", [1, 2])
def test_compiled_run_equals_plain_run(run: Runner, processes: int) -> None:
    for name, more in (("plain", ()), ("compiled", ("--compile",))):
        ended = run("train", *WORDS, "--output", name, *more, processes=processes, timeout=280)
        assert ended.code == 0, ended.err
    assert greatest_difference(run.folder / "plain", run.folder / "compiled") < 1e-5
    assert "compile: true" in (run.folder / "compiled" / "config.yaml").read_text()
