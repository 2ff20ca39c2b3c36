"""A full file system, a limit of the system, or a folder that is gone is one error that names it, and one hint."""

import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.faults import ENDLESS, TINY, loader_workers, started
from helpers.marks import chaos, slow
from helpers.processes import wait_for_end
from helpers.runner import Ended, Runner, read_metrics

BRIEF = ("train", *TINY, "--epochs", "2")
ENLARGE = "enlarge shared memory (docker run --shm-size 1g, or mount -o remount,size=1g /dev/shm), or use --workers 0"
RESUME = "start the same command again: a run resumes from its last checkpoint"
FULL = "{0}={1} && mkdir -p ${0} && mount -t tmpfs -o size={2}k tmpfs ${0} && echo full > ${0}/file"


def under(run: Runner, setup: str, *words: str | Path, processes: int = 1, forked: bool = True) -> Ended:
    """Run accel_train after the commands of a shell that has its own mounts; only unforked, imports obey its limits."""
    command = [*words, *["--processes", "2"] * (processes - 1)]
    if forked:
        return run.after(setup, *command)
    started = [sys.executable, "-m", "accel_train", *map(str, command)]
    return run.program(["unshare", "--mount", "sh", "-c", f'{setup} && exec "$@"', "sh", *started])


def assert_one_error(ended: Ended, error: str, hint: str) -> None:
    assert [line for line in ended.err.splitlines() if line.startswith(("error:", "hint:"))] == [
        f"error: {error}",
        f"hint: {hint}",
    ], ended.err
    assert "Traceback" not in ended.err
    assert ended.code == 2


@pytest.mark.parametrize("processes", [1, slow(2)])
def test_full_shared_memory_is_named(run: Runner, processes: int) -> None:
    """Queues of loader workers need a little of it."""
    full = FULL.format("SHARED", "/dev/shm", 4)
    ended = under(run, full, *BRIEF, "--workers", "2", "--output", "run", processes=processes)
    assert_one_error(ended, "No space left on device: the file system /dev/shm has 0.0 KiB of 4.0 KiB free", ENLARGE)
    if processes == 1:
        again = under(run, full, *BRIEF, "--workers", "0", "--output", "run")
        assert again.code == 0, again.err


TEMPORARY = """
import tempfile, torch
def build(classes):
    file = tempfile.NamedTemporaryFile(buffering=0, delete=False)
    while file.write(bytes(5000)):
        pass
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, classes))
"""


def test_full_temporary_folder_is_named(run: Runner) -> None:
    (run.folder / "needy.py").write_text(TEMPORARY)
    place = run.folder / "tmp"
    ended = under(run, f"export {FULL.format('TMPDIR', place, 8)}", *BRIEF, "--model", "needy:build")
    assert_one_error(
        ended,
        f"No space left on device: the file system {place} has 0.0 KiB of 8.0 KiB free",
        "free some space there, or set TMPDIR to a folder with more",
    )


@pytest.mark.slow
def test_missing_temporary_folder_is_named(run: Runner) -> None:
    (run.folder / "needy.py").write_text(TEMPORARY)
    folders = "for place in /tmp /var/tmp /dev/shm; do mount -t tmpfs -o ro tmpfs $place; done"
    setup = f"mount --bind . /mnt && {folders} && cd /mnt && mount -o remount,bind,ro /mnt && export TMPDIR=/missing"
    ended = under(run, setup, *BRIEF, "--model", "needy:build", "--dry-run", forked=False)  # torch misses it first
    assert_one_error(ended, "there is no folder for temporary files", "set TMPDIR to a folder that you can write to")


@pytest.mark.slow
def test_run_needs_no_temporary_folder(run: Runner) -> None:
    ended = under(run, "export TMPDIR=/missing", *BRIEF, "--output", "run", "--workers", "1")
    assert ended.code == 0, ended.err


@pytest.mark.parametrize(("size", "name"), [(8, "config.yaml"), slow(4, "config.json")])
def test_full_disk_of_the_run_is_named(run: Runner, size: int, name: str) -> None:
    place = run.folder / "disk"
    setup = f"mkdir {place} && mount -t tmpfs -o size={size}k tmpfs {place}"
    ended = under(run, setup, *BRIEF, "--output", place / "run")
    first = f"cannot use {place}/run/{name}: No space left on device: the file system {place} has "
    assert_one_error(ended, f"{first}0.0 KiB of {size}.0 KiB free", f"free some space and {RESUME}")


@pytest.mark.parametrize("size", ["4k", slow("8k,nr_inodes=1")])
def test_full_disk_of_the_log_ends_only_the_log(run: Runner, size: str) -> None:
    log = run.folder / "run" / "log"
    setup = f"mkdir -p {log} && mount -t tmpfs -o size={size} tmpfs {log}"
    ended = under(run, setup, "train", *TINY, "--epochs", "20", "--log-every", "1", "--output", "run")
    assert ended.code == 0, ended.err
    assert ended.err == "warning: run/log/rank_0.log is closed, the run continues: No space left on device\n"
    assert "epoch 20/20" in ended.out


LINEAR = """
import torch
def build(classes):
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, classes))
"""


@pytest.mark.slow
def test_history_that_cannot_be_written_ends_the_run(run: Runner) -> None:
    """It is the run's own, not a log: a resumed run appends to it."""
    (run.folder / "linear.py").write_text(LINEAR)
    words = ("train", *TINY, "--model", "linear:build", "--epochs", "60", "--log-every", "1", "--output", "run")
    ended = under(run, "ulimit -f 100", *words)
    assert_one_error(
        ended,
        "cannot use run/metrics.jsonl: File too large: this process may write files of 50.0 KiB (ulimit -f)",
        f"run ulimit -f unlimited and {RESUME}",
    )
    assert ended.out.count("saved checkpoint") > 10
    again = run(*words)
    assert again.code == 0, again.err
    assert [record["epoch"] for record in read_metrics(run.folder / "run", "epoch")] == list(range(1, 61))


@pytest.mark.parametrize(
    ("setup", "words", "code"),
    [
        ("exec 2> /dev/full", ("train", "--model", "none"), 2),
        ("mkfifo p; exec 3<> p 1> p 3<&-", ("train", "--help"), 141),
        ("mkfifo p; exec 3<> p 1> p 3<&-", ("train", *TINY, "--print-config"), 141),
    ],
)
def test_exit_code_tells_what_no_stream_can(run: Runner, setup: str, words: tuple[str, ...], code: int) -> None:
    ended = under(run, setup, *words, forked="mkfifo" not in setup)
    assert (ended.code, ended.err) == (code, "")


@pytest.mark.parametrize(
    "words", [("evaluate", "run"), ("train", *TINY, "--epochs", "2", "--output", "again", "--json")]
)
def test_full_device_of_stdout(run: Runner, words: tuple[str, ...]) -> None:
    assert run(*BRIEF, "--output", "run").code == 0
    ended = under(run, "exec > /dev/full", *words)
    if words[0] == "train":
        assert ended.code == 0
        assert "warning: stdout is closed, the run continues: No space left on device\n" in ended.err
    else:
        (explained,) = [line for line in ended.err.splitlines() if line.startswith("hint:")]
        assert explained.startswith("hint: free some space on that of /")
        assert_one_error(ended, "No space left on device", explained.removeprefix("hint: "))


def test_limit_of_file_sizes_is_named_and_the_run_resumes(run: Runner) -> None:
    words = ("train", *TINY, "--epochs", "3", "--save-every", "1epoch", "--output", "run")
    ended = under(run, "ulimit -f 200", *words)  # blocks of 512 bytes; a checkpoint has 800 kB
    assert_one_error(
        ended,
        "cannot save in run: File too large: this process may write files of 100.0 KiB (ulimit -f)",
        f"run ulimit -f unlimited and {RESUME}",
    )
    again = run(*words)
    assert again.code == 0, again.err


@pytest.mark.parametrize("limit", [20, *map(slow, (8, 24)), *map(chaos, (12, 16, 22, 26))])
def test_limit_of_open_files_is_named(run: Runner, limit: int) -> None:
    ended = under(run, f"ulimit -n {limit}", *BRIEF, "--workers", "2", "--output", "run", forked=False)
    first, *_ = ended.err.splitlines()
    assert_one_error(
        ended,
        first.removeprefix("error: "),
        "raise the limit with ulimit -n 1024, or use fewer --workers",
    )
    assert first.endswith(f"Too many open files: this process may open {limit} (ulimit -n)")


@pytest.mark.parametrize("limit", [20, slow(71), *map(chaos, (24, 48))])
def test_too_few_open_files_for_several_processes_are_named(run: Runner, limit: int) -> None:
    ended = under(run, f"ulimit -n {limit}", *BRIEF, "--output", "run", processes=2)
    assert_one_error(
        ended,
        f"this process may open {limit} files (ulimit -n), a run of 2 processes needs 72",
        "raise the limit with ulimit -n 1024",
    )


@pytest.mark.parametrize("processes", [2, chaos(4)])
def test_needed_open_files_suffice(run: Runner, processes: int) -> None:
    words = (*BRIEF, "--workers", "1", "--output", "run", "--processes", str(processes))
    ended = under(run, f"ulimit -n {64 + 4 * processes}", *words)
    assert ended.code == 0, ended.err


@pytest.mark.parametrize("limit", [1_000_000, slow(200_000), *map(chaos, (600_000, 1_500_000, 2_500_000))])
def test_limit_of_memory_is_named(run: Runner, limit: int) -> None:
    ended = under(run, f"ulimit -v {limit}", *BRIEF, "--output", "run", forked=False)
    size = f"{limit / 2**20:.1f} GiB" if limit >= 2**20 else f"{limit / 2**10:.1f} MiB"
    assert_one_error(
        ended,
        f"Cannot allocate memory: this process may use {size} (ulimit -v)",
        "run ulimit -v unlimited, or use fewer --workers, a smaller --batch-size or a smaller --model",
    )


COMMANDS: list[tuple[str, ...]] = [
    BRIEF,
    (*BRIEF, "--processes", "2"),
    ("evaluate", "/run"),
    ("pack", "a", "b"),
    ("bench",),
]


@pytest.mark.parametrize(("words", "forked"), [(COMMANDS[1], False), *((words, True) for words in COMMANDS)])
def test_removed_current_folder_is_named(run: Runner, words: tuple[str, ...], forked: bool) -> None:
    ended = under(run, "mkdir gone && cd gone && rmdir ../gone", *words, forked=forked)
    assert_one_error(ended, "the current folder has been removed", "change to a folder that exists")


def remove(folder: Path) -> None:
    rename(folder)  # first: the run is writing there
    shutil.rmtree(folder.with_name("renamed"))


def rename(folder: Path) -> None:
    folder.rename(folder.with_name("renamed"))


@pytest.mark.parametrize(("take_away", "processes"), [slow(remove, 1), (rename, 2)])
def test_run_folder_that_is_taken_away_is_one_error(
    tmp_path: Path, take_away: Callable[[Path], None], processes: int
) -> None:
    output = tmp_path / "run"
    with started(tmp_path, *ENDLESS[:-1], "2s", "--output", output, processes=processes) as program:
        program.wait_for_epoch()
        take_away(output)
        assert program.wait(20) == 2
        explained = [line for line in program.err.splitlines() if line.startswith(("error:", "hint:"))]
        assert explained == [
            f"error: cannot save in {output}: {output} is missing: it has been removed or renamed",
            f"hint: put it back, or {RESUME}",
        ]
        assert "Traceback" not in program.err
    assert not output.exists()


VANISHING = """
import shutil
from pathlib import Path

import torch

class Images:
    classes = ("a", "b")

    def __len__(self):
        return 64

    def __getitem__(self, i):
        if list(Path("run").glob("checkpoints/update_*")):
            shutil.rmtree("run")
        return torch.full((1, 8, 8), i, dtype=torch.uint8), i % 2

def data():
    return Images(), Images()
"""
"""The code of a module: data that remove the run folder after its first save."""


def test_run_folder_that_vanishes_between_two_saves_is_one_error(run: Runner) -> None:
    (run.folder / "vanishing.py").write_text(VANISHING)
    options = ("--model", "mlp", "--batch-size", "32", "--epochs", "1000", "--workers", "0", "--device", "cpu")
    ended = run("train", "--data", "vanishing:data", *options, "--save-every", "20updates", "--output", "run")
    reason = f"cannot save in run: {run.folder / 'run'} is missing: it has been removed or renamed"
    assert_one_error(ended, reason, f"put it back, or {RESUME}")


@pytest.mark.parametrize(
    ("number", "error"),
    [
        (9, "a loader worker (was killed|exited), perhaps because .*memory is full"),
        (11, "a loader worker (crashed: Segmentation fault|exited, perhaps because a file has become shorter, .*)"),
        (7, "a loader worker (ended by a bus error: a file of the data has become shorter.*|exited, .*)"),
    ],
)
def test_killed_loader_worker_is_named(tmp_path: Path, number: int, error: str) -> None:
    """Torch sometimes notices only that it has exited."""
    with started(tmp_path, *ENDLESS, "--workers", "2", "--output", tmp_path / "run") as program:
        program.wait_for_epoch()
        workers = loader_workers(program.ranks()[0])
        workers[0].send_signal(number)
        assert program.wait(60) == 2  # torch waits 5 s for each worker at times
        lines = [line.removeprefix("\0") for line in program.err.splitlines()]  # torch's worker wrote before
        errors = [line for line in lines if line.startswith("error:")]
        assert len(errors) == 1
        assert re.fullmatch(f"error: {error}", errors[0])
        assert "Traceback" not in program.err
        for worker in workers:
            wait_for_end(worker, 5)
