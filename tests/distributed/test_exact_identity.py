"""`--exact` resumes only where nothing that changes the last bits differs, and otherwise prints what does."""

import json
import re
import shutil
from pathlib import Path

import pytest
from helpers.cli import assert_refused
from helpers.marks import chaos, slow
from helpers.runner import Runner, rank_environments

WORDS = ("train", "--data", "digits", "--limit", "128", "--model", "cnn", "--batch-size", "32", "--device", "cpu")
EXACT = (*WORDS, "--global-batch-size", "64", "--exact")
AGAIN = ("--epochs", "2", "--output", "run")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an exact run of one epoch and another run."""
    at_top = Runner(tmp_path_factory.mktemp("identity"))
    for words in ((*EXACT, "--output", "run"), (*WORDS, "--output", "other")):
        ended = at_top(*words, "--epochs", "1")
        assert ended.code == 0, ended.err
    return at_top.folder


@pytest.fixture
def place(run: Runner, made: Path) -> Runner:
    shutil.copytree(made, run.folder, dirs_exist_ok=True)
    return run


def identity(place: Runner) -> dict[str, str]:
    (state,) = (place.folder / "run/checkpoints").glob("*/state.json")
    found: dict[str, str] = json.loads(state.read_text())["identity"]
    return found


@pytest.mark.parametrize(
    ("processes", "name", "value"),
    [
        (1, "ONEDNN_MAX_CPU_ISA", "AVX2"),
        (2, "ONEDNN_MAX_CPU_ISA", "AVX2"),
        (1, "MKL_CBWR", "COMPATIBLE"),
        slow(2, "MKL_CBWR", "COMPATIBLE"),
        chaos(1, "DNNL_MAX_CPU_ISA", "SSE41"),
        slow(1, "MKL_ENABLE_INSTRUCTIONS", "SSE4_2"),
        chaos(1, "ONEDNN_CPU_ISA_HINTS", "PREFER_YMM"),
        (1, "GLIBC_TUNABLES", "glibc.cpu.hwcaps=-FMA"),
    ],
)
def test_another_environment_is_refused_at_resume(place: Runner, processes: int, name: str, value: str) -> None:
    before = identity(place)
    ended = place(*EXACT, *AGAIN, processes=processes, **{name: value})
    was = ", ".join(f"{key} {text}" for key, text in before.items())
    assert ended.code == 2
    assert_refused(
        ended,
        f"--exact: run/checkpoints/update_000002 was computed on {was}; this is {was}, environment {name}={value}\n",
        f"hint: resume where nothing differs: environment none → {name}={value}\n",
    )


@pytest.mark.parametrize(
    ("processes", "capability"), [(1, "avx2"), chaos(2, "avx2"), chaos(1, "default"), slow(2, "default")]
)
def test_other_instructions_are_refused_at_resume(place: Runner, processes: int, capability: str) -> None:
    has, emulated = identity(place)["instructions"], capability.upper()
    ended = place(*EXACT, *AGAIN, processes=processes, forked=False, ATEN_CPU_CAPABILITY=capability)
    if emulated == has:
        assert ended.code == 0
    else:
        assert_refused(ended, f"hint: resume where nothing differs: instructions {has} → {emulated}\n")


def test_other_threads_are_refused_at_resume(place: Runner) -> None:
    refused = place(*EXACT, *AGAIN, "--threads", "2")
    assert_refused(refused, "threads 1, ", "threads 2, ", "hint: resume where nothing differs: threads 1 → 2")


@pytest.mark.parametrize(("key", "other"), [("CPU", "Another CPU"), ("libraries", "torch 2.0.0"), ("device", "H200")])
def test_other_machine_is_refused_at_resume(place: Runner, key: str, other: str) -> None:
    now = identity(place)
    (checkpoint,) = (place.folder / "run/checkpoints").glob("update_*")
    state = checkpoint / "state.json"
    record = json.loads(state.read_text())
    record["identity"][key] = other
    text = json.dumps(record).encode()
    rewrite(checkpoint, text)
    assert_refused(place(*EXACT, *AGAIN), f"hint: resume where nothing differs: {key} {other} → {now[key]}")


def rewrite(checkpoint: Path, state: bytes) -> None:
    """Replace the state of a checkpoint, and its checksum."""
    from hashlib import sha256

    manifest = checkpoint / "MANIFEST.json"
    before = sha256((checkpoint / "state.json").read_bytes()).hexdigest()
    text = manifest.read_text()
    assert before in text
    size = (checkpoint / "state.json").stat().st_size
    text = text.replace(before, sha256(state).hexdigest()).replace(f": {size}", f": {len(state)}")
    manifest.write_text(text)
    (checkpoint / "state.json").write_bytes(state)


def test_same_identity_resumes_and_is_printed(place: Runner) -> None:
    ended = place(*EXACT, *AGAIN, "--verbose")
    assert ended.code == 0, ended.err
    found = identity_row(ended.out)
    now = json.loads(max((place.folder / "run/checkpoints").glob("*/state.json")).read_text())["identity"]
    assert found == " ".join(", ".join(f"{key} {text}" for key, text in now.items()).split())
    assert list(now) == ["device", "CPU", "instructions", "threads", "libraries"]
    assert re.match(r"torch \S+ MKL \S+ oneDNN \S+ torchvision \S+ pillow \S+ simplejpeg \S+$", now["libraries"])
    assert "last bits" not in ended.out


def identity_row(out: str) -> str:
    """Return the row `identity` of the banner, which may be wrapped, in one line."""
    found = re.search(r"^identity +(.*(?:\n {8,}.*)*)", out, re.MULTILINE)
    assert found, out
    return " ".join(found[1].split())


def test_run_that_is_not_exact_resumes_with_a_note(place: Runner) -> None:
    ended = place(*WORDS, "--epochs", "2", "--output", "other", MKL_CBWR="COMPATIBLE")
    assert ended.code == 0, ended.err
    note = "the last bits may differ from those of an uninterrupted run: environment none → MKL_CBWR=COMPATIBLE"
    assert note in " ".join(ended.out.split())


def test_ranks_of_different_identity_are_refused(run: Runner) -> None:
    places = rank_environments(2)
    environments = [places[0], places[1] | {"MKL_CBWR": "COMPATIBLE"}]
    ended = run.tasks(*EXACT, "--output", "run", environments=environments)
    assert_refused(ended, "--exact: rank 1 computes on device cpu, CPU ", "environment MKL_CBWR=COMPATIBLE, but rank 0")
    assert not (run.folder / "run").exists()
    inexact = run.tasks(
        *WORDS, "--global-batch-size", "64", "--epochs", "1", "--output", "run", environments=environments
    )
    assert inexact.code == 0, inexact.err


def test_kernels_that_are_chosen_by_time_are_refused(run: Runner) -> None:
    refused = run(*WORDS, "--output", "run", PYTORCH_TUNABLEOP_ENABLED="1")
    assert_refused(refused, "PYTORCH_TUNABLEOP_ENABLED=1 asks for kernels chosen by their time")
