"""The doctor finds each planted fault, names the process, and finds nothing on a healthy pair."""

import json
import os
import socket
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from helpers import planted
from helpers.hosts import Cluster, cluster, places
from helpers.marks import chaos, slow
from helpers.runner import Ended, Runner, rank_environments

SCRIPT = str(Path(planted.__file__))
OWN_NAMES_ARE_LOOPBACK = ("127.0.0.1 localhost host0\n10.0.0.2 host1\n", "127.0.0.1 localhost host1\n10.0.0.1 host0\n")
"""The /etc/hosts of each host, as Debian writes it."""
WORDS = ("doctor", "--json", "--timeout", "60")


def plant(run: Runner, faults: str, *words: str, limit: str = "60") -> dict[str, Any]:
    """Let two processes examine each other, rank 1 with faults; return the report."""
    words = (*WORDS[:-1], limit, *words)
    return report_of(run.script(SCRIPT, faults, *words, processes=2))


def report_of(ended: Ended) -> dict[str, Any]:
    assert "Traceback" not in ended.err, ended.err
    report: dict[str, Any] = json.loads(ended.out)
    assert ended.code == (0 if report["healthy"] else 1), ended.err
    assert all(one["fix"] for one in report["findings"])
    return report


def found(report: dict[str, Any]) -> list[tuple[str, bool, list[int], str]]:
    return [(one["check"], one["fails"], one["ranks"], one["message"]) for one in report["findings"]]


def test_nothing_is_found_on_a_healthy_pair(run: Runner) -> None:
    report = plant(run, "none", "--output", "out")
    assert (found(report), report["healthy"], report["strategy"]) == ([], True, "DDP")
    assert [(one["rank"], one["device"], one["network"]) for one in report["reports"]] == [
        (0, "cpu", "lo"),
        (1, "cpu", "lo"),
    ]
    links = [[(link["backend"], link["between"], link["wrong"]) for link in one] for one in report["links"]]
    assert links == [[("gloo", "all", 0)]] * 2
    assert all(one["gflops"] > 0 for one in report["speeds"])
    assert report["folder"] == str(run.folder)
    assert list(run.folder.iterdir()) == []


def test_several_faults_of_one_process_are_all_found(run: Runner) -> None:
    report = plant(run, "clock+rename+shared memory+slow+wrong sums")
    *others, (check, fails, ranks, message) = found(report)
    assert others == [
        ("shared memory", True, [1], "/dev/shm has 8.0 MiB free, which loader workers and NCCL may fill"),
        ("run folder", True, [1], f"cannot rename a file in {run.folder}: Operation not permitted"),
        ("all-reduce", True, [1], "6 elements of sums by gloo are wrong"),
        ("clock", False, [1], "its clock is at least 1 h ahead of that of rank 0: logs and times of files mislead"),
    ]
    assert (check, fails, ranks) == ("slow rank", False, [1])
    assert message.endswith(": all of them wait for it")
    assert list(run.folder.iterdir()) == []


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        (
            "own small file system",
            [
                ("run folder", "FOLDER has 16.0 MiB free: a few checkpoints fill it"),
                ("run folder", "does not see the files of rank 0 in FOLDER"),
            ],
        ),
        (
            "fsync+no locks",
            [
                ("run folder", "cannot fsync a file in FOLDER: Input/output error"),
                ("run folder", "locks of rank 0 in FOLDER do not hold here, so two runs may write to one folder"),
            ],
        ),
        (
            "open files+options",
            [
                ("open files", "this process may open 60 files (ulimit -n), a run of 2 processes needs 72"),
                ("options", "has --seed 7, but rank 0 has no --seed"),
            ],
        ),
    ],
    ids=["own_small_file_system", "fsync_and_locks", "open_files_and_options"],
)
def test_fault_of_one_process_is_found_and_named(run: Runner, faults: str, expected: list[tuple[str, str]]) -> None:
    report = plant(run, faults)
    assert found(report) == [(check, True, [1], text.replace("FOLDER", str(run.folder))) for check, text in expected]
    assert list(run.folder.iterdir()) == []


@pytest.mark.slow
def test_process_that_hangs_is_named(run: Runner) -> None:
    report = plant(run, "stopped", limit="8")
    assert found(report) == [("hang", True, [1], "has not answered within 8 s (check: speed)")]


def test_backend_that_is_missing_is_named_once(run: Runner) -> None:
    report = plant(run, "none", "--backend", "mpi")
    assert found(report) == [("backend", True, [0, 1], "--backend mpi, but this torch was built without it")]


def test_other_version_and_missing_interface_are_named(run: Runner) -> None:
    installed = run.folder / "other" / "accel_train-9.9.dist-info" / "METADATA"
    installed.parent.mkdir(parents=True)
    installed.write_text("Metadata-Version: 2.1\nName: accel_train\nVersion: 9.9\n", encoding="utf-8")
    first, second = rank_environments(2)
    other = {"PYTHONPATH": str(run.folder / "other"), "GLOO_SOCKET_IFNAME": "eth7"}
    report = report_of(run.tasks(*WORDS, environments=[first, second | other]))
    assert found(report) == [
        ("interface", True, [1], "GLOO_SOCKET_IFNAME=eth7: this machine has no network interface eth7"),
        ("versions", True, [1], f"has accel_train 9.9, but rank 0 has accel_train {version('accel_train')}"),
    ]


def test_missing_process_is_named(run: Runner) -> None:
    first, _ = rank_environments(2)
    report = report_of(run.tasks(*WORDS[:-1], "2", environments=[first]))
    came = f"rank 1 did not join within 2 s: all that came are on {socket.gethostname()}"
    assert found(report) == [("meeting", True, [], came)]


def test_port_of_another_program_is_named(run: Runner) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        first, _ = rank_environments(2)
        report = report_of(run.tasks(*WORDS, environments=[first | {"MASTER_PORT": str(port)}]))
    ((check, fails, _, message),) = found(report)
    assert (check, fails) == ("meeting", True)
    assert message.startswith(f"rank 0 cannot use 127.0.0.1:{port}: ")


def test_own_launcher_prints_the_report_once(run: Runner) -> None:
    ended = run("doctor", processes=2)
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0].startswith("accel_train ")
    assert lines[0].endswith(": examining 2 processes; importing torch …")
    assert [line.split()[0] for line in lines[1:9]] == [
        *("software", "hardware", "processes", "run", "start", "all-reduce", "rank", "0")
    ]
    assert lines[-2:] == ["healthy: nothing found", "next: start the same with train instead of doctor"]


@pytest.mark.parametrize("launcher", [slow("accelerate"), chaos("torchrun")])
def test_other_launchers_start_the_doctor(run: Runner, launcher: str) -> None:
    report = report_of(run("doctor", "--json", "--device", "cpu", processes=2, launcher=launcher))
    assert (found(report), report["processes"]) == ([], 2)
    assert report["launcher"] == {"accelerate": "accelerate launch"}.get(launcher, launcher)


@pytest.mark.slow
def test_tasks_of_srun_examine_each_other(run: Runner) -> None:
    node = {
        **{"SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_ID": "0", "SLURM_NTASKS": "2", "SLURM_STEP_NUM_TASKS": "2"},
        **{"SLURM_STEP_TASKS_PER_NODE": "2", "SLURM_STEP_NODELIST": "node1", "SLURM_CPUS_ON_NODE": "2"},
    }
    places = [{"SLURM_PROCID": rank, "SLURM_LOCALID": rank, "SLURM_NODEID": "0", "SLURM_GTIDS": "0,1"} for rank in "01"]
    report = report_of(run.tasks(*WORDS, environments=[node | place for place in places]))
    assert (found(report), report["launcher"], len(report["reports"])) == ([], "srun", 2)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("two"), OWN_NAMES_ARE_LOOPBACK) as hosts:
        yield hosts


def test_link_between_two_hosts_is_measured(two: Cluster) -> None:
    first, second = two.run(WORDS, places("host0"))
    report = report_of(first)
    assert (found(report), second.code, second.out) == ([], 0, "")
    assert [(one["host"], one["network"]) for one in report["reports"]] == [("host0", "eth0"), ("host1", "eth0")]
    for links in report["links"]:
        assert [(link["between"], link["wrong"]) for link in links] == [("all", 0), ("host0 – host1", 0)]


def test_host_name_that_leads_to_the_loopback_is_named(two: Cluster) -> None:
    _, second = places("host1")  # on host1 a name for the loopback
    (ended,) = two.run((*WORDS[:-1], "2"), [second])
    place = "nothing listens at host1:29500 (127.0.0.1, which is host1 itself: see its /etc/hosts)"
    assert found(report_of(ended)) == [("meeting", True, [], f"rank 0 did not join within 2 s: {place}")]


def test_two_processes_of_one_rank_name_each_other(two: Cluster) -> None:
    for ended in two.run(WORDS, places(ranks=(0, 0))):
        ((check, fails, _, message),) = found(report_of(ended))
        assert (check, fails) == ("meeting", True)
        assert message.startswith("two processes are rank 0: process ")


@pytest.fixture
def firewall(two: Cluster) -> Iterator[None]:
    """Let host1 drop, without a word, what it sends to any port from 30000 on: it reaches the meeting point only."""
    rule = "ip rule {} ipproto tcp dport 30000-65534 lookup 99"
    two.hosts[1].do("ip route add default dev lo table 99")
    two.hosts[1].do(rule.format("add"))
    yield
    two.hosts[1].do(rule.format("del"))


@pytest.mark.slow
@pytest.mark.usefixtures("firewall")
def test_firewall_between_the_hosts_is_suspected(two: Cluster) -> None:
    first, _ = two.run((*WORDS[:-1], "8"), places())
    report = report_of(first)
    ((check, fails, _, message),) = found(report)
    assert (check, fails, message) == ("hang", True, "has not ended the check start within 8 s")
    assert report["findings"][0]["fix"].startswith("let no firewall block any TCP port between the hosts")
