"""The launcher forwards signals to the ranks, and its exit code is that of the first rank that failed."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from signal import SIGINT, SIGTERM, SIGUSR1, Signals

import psutil
import pytest
from helpers.processes import wait_for_end

START = """
import os, sys
from accel_train.system.signals import StopSignals
from accel_train.distributed import launcher
StopSignals().listen()  # as every command does
os.environ["PYTHONPATH"] = os.getcwd()  # where the ranks find the script as accel_train
launcher._SECONDS_AFTER_FAILURE = 1
sys.exit(launcher.start_processes(2, []))
"""
BE_STARTED = """
import subprocess, sys
subprocess.run([sys.executable, *sys.argv[1:]])
"""
RANK = """
import os, signal, sys, time
rank, heard = int(os.environ["RANK"]), []
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, lambda number, frame: heard.append(number))
def wait(count=1):
    while len(heard) < count:
        time.sleep(0.01)
    return 128 + heard[-1]
def say(*words):
    sys.stdout.write(" ".join(map(str, words)) + "\\n")
    sys.stdout.flush()
"""


class Job(subprocess.Popen[str]):
    """A launcher with two ranks."""

    def ends(self, seconds: float = 10) -> tuple[int, str, str]:
        """Return exit code, stdout of the ranks, and stderr."""
        out, err = self.communicate(timeout=seconds)
        return self.returncode, out, err


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Job]]:
    """Return a function that starts two ranks, each of which runs a script instead of the program."""
    started: list[psutil.Process] = []

    def run(script: str, *, before: str = "", by_accelerate: bool = False) -> Job:
        for name, text in {
            "starts/start.py": START,
            "starts/be_started.py": BE_STARTED,
            "runs/accel_train/__init__.py": "",
            "runs/accel_train/__main__.py": f"{RANK}{before}\nsay('ready')\n{script}",
        }.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        scripts = [str(tmp_path / "starts" / "start.py")]
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("ACCEL", "TORCHELASTIC_"))}
        if by_accelerate:
            scripts.insert(0, str(tmp_path / "starts" / "be_started.py"))
            environment["ACCELERATE_DYNAMO_MODE"] = "default"
        pipe = subprocess.PIPE
        words = [sys.executable, *scripts]
        job = Job(words, cwd=tmp_path / "runs", env=environment, stdout=pipe, stderr=pipe, text=True)
        started.append(psutil.Process(job.pid))
        assert job.stdout
        assert [job.stdout.readline() for _ in range(2)] == ["ready\n"] * 2, job.ends()
        started.extend(started[-1].children(recursive=True))
        return job

    yield run
    for one in started:
        with suppress(psutil.NoSuchProcess):
            one.kill()


CODES = [(SIGTERM, 143), (SIGUSR1, 138), (SIGINT, 130)]


@pytest.mark.parametrize(("number", "code"), CODES)
def test_signal_reaches_all_ranks_and_their_exit_code_is_returned(
    start: Callable[..., Job], number: Signals, code: int
) -> None:
    job = start("code = wait(); say(code); sys.exit(code)")
    job.send_signal(number)
    assert job.ends() == (code, f"{code}\n" * 2, "")


def test_second_sigint_is_forwarded(start: Callable[..., Job]) -> None:
    job = start("wait(); say('first'); sys.exit(wait(2))")
    assert job.stdout
    job.send_signal(SIGINT)
    assert [job.stdout.readline() for _ in range(2)] == ["first\n"] * 2
    assert job.poll() is None
    job.send_signal(SIGINT)
    assert job.ends() == (130, "", "")


def test_exit_code_is_0_if_ranks_finish_despite_the_signal(start: Callable[..., Job]) -> None:
    job = start("wait()")
    job.send_signal(SIGTERM)
    assert job.ends() == (0, "", "")


def test_rank_killed_by_forwarded_signal_is_not_reported(start: Callable[..., Job]) -> None:
    job = start("time.sleep(60)", before="signal.signal(signal.SIGTERM, signal.SIG_DFL)")
    job.send_signal(SIGTERM)
    assert job.ends() == (143, "", "")


def test_ranks_have_as_much_time_to_save_as_they_take(start: Callable[..., Job]) -> None:
    job = start("code = wait(); time.sleep(3); say('saved'); sys.exit(code)")
    job.send_signal(SIGTERM)
    assert job.ends() == (143, "saved\n" * 2, "")


@pytest.mark.parametrize(("number", "code"), CODES)
def test_rank_that_ignores_the_signal_is_killed_after_the_other_has_ended(
    start: Callable[..., Job], number: Signals, code: int
) -> None:
    job = start("code = wait(); time.sleep(60 * rank); sys.exit(code)")
    job.send_signal(number)
    assert job.ends() == (code, "", "rank 1 of 2 did not end within 1 s and was killed\n")


def test_second_ctrl_c_ends_ranks_that_do_not_answer(start: Callable[..., Job]) -> None:
    job = start("wait(); say('first'); time.sleep(60)")
    assert job.stdout
    job.send_signal(SIGINT)
    assert [job.stdout.readline() for _ in range(2)] == ["first\n"] * 2
    job.send_signal(SIGINT)
    killed = "".join(f"rank {rank} of 2 did not end within 1 s and was killed\n" for rank in range(2))
    assert job.ends() == (130, "", killed)


def test_signal_reaches_ranks_that_are_suspended(start: Callable[..., Job]) -> None:
    job = start("code = wait(); say(code); sys.exit(code)")
    for rank in psutil.Process(job.pid).children():
        rank.suspend()
    job.send_signal(SIGTERM)
    assert job.ends() == (143, "143\n" * 2, "")


@pytest.mark.parametrize(
    ("end", "code", "told"),
    [
        ("os.kill(os.getpid(), 9)", 137, "rank 1 of 2 was killed by SIGKILL\n"),
        ("os.abort()", 134, "rank 1 of 2 was killed by SIGABRT\n"),
        ("os._exit(3)", 3, "rank 1 of 2 ended with exit code 3\n"),
        ("os._exit(1)", 1, ""),
        ("os._exit(2)", 2, ""),
    ],
)
def test_failed_rank_is_reported_unless_it_reports_itself(
    start: Callable[..., Job], end: str, code: int, told: str
) -> None:
    job = start(f"if rank == 1: {end}\ntime.sleep(60)")
    assert job.ends(5) == (code, "", told + "rank 0 of 2 did not end within 1 s and was killed\n")


LOSE_THE_PEER = """
wait()
if rank == 1:
    os.kill(os.getpid(), 9)
fcntl.flock(lock, fcntl.LOCK_EX)  # which rank 1 holds until it is dead
sys.exit(1)
"""


def test_exit_code_is_that_of_the_first_failure(start: Callable[..., Job]) -> None:
    take_lock = "import fcntl; lock = open('lock', 'a'); rank == 1 and fcntl.flock(lock, fcntl.LOCK_EX)"
    job = start(LOSE_THE_PEER, before=take_lock)
    for rank in psutil.Process(job.pid).children():
        rank.send_signal(SIGUSR1)
    assert job.ends() == (137, "", "rank 1 of 2 was killed by SIGKILL\n")


def test_exit_code_of_users_mistake_takes_precedence(start: Callable[..., Job]) -> None:
    job = start("time.sleep(0.3 * rank); sys.exit(2 if rank else 1)")
    assert job.ends() == (2, "", "")


def test_death_of_accelerate_sends_sigterm_to_ranks(start: Callable[..., Job]) -> None:
    job = start("code = wait(); say(code); sys.exit(code)", by_accelerate=True)
    (ours,) = psutil.Process(job.pid).children()
    job.kill()
    assert job.ends() == (-9, "143\n143\n", "")
    wait_for_end(ours, 2)


def test_ranks_know_their_launcher_and_have_their_own_sessions(start: Callable[..., Job]) -> None:
    job = start(
        "sys.exit(3 * ([int(os.environ['ACCEL_TRAIN_LAUNCHER_PID']), os.getsid(0)] != [os.getppid(), os.getpid()]))"
    )
    assert job.ends() == (0, "", "")
