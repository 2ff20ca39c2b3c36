"""The script for Hugging Face Jobs; tests/cli/test_job.py gives it to `hf` itself."""

import shlex
from typing import Any

import pytest

from accel_train.config.job_panel import HuggingFaceJob
from accel_train.jobs.hugging_face import hugging_face_file, is_known, processes_of


def words(train: dict[str, Any], **options: Any) -> list[str]:
    job = HuggingFaceJob(**{"image": "registry/image:1", "flavor": "a10g-largex4", "bucket": "me/runs", **options})
    text = hugging_face_file(["accel_train", "job", "hf"], train, job.model_dump())
    return shlex.split(text.replace(" \\\n", " "), comments=True)


@pytest.mark.parametrize(
    ("flavor", "processes"),
    [("cpu-basic", 1), ("t4-small", 1), ("l4x1", 1), ("a10g-largex4", 4), ("a100-large", 1), ("rtx-pro-6000x8", 8)],
)
def test_flavor_has_a_process_per_gpu(flavor: str, processes: int) -> None:
    assert is_known(flavor)
    assert processes_of(flavor) == processes


@pytest.mark.parametrize("flavor", ["weird", "a10gx", "a10-large", "x4"])
def test_flavor_of_unknown_hardware_is_not_known(flavor: str) -> None:
    assert not is_known(flavor)


def test_job_works_in_the_bucket_and_stops_before_its_time_is_over() -> None:
    found = words({"data": "it's", "exact": True}, time="1h", job_name="mine")
    inner = shlex.split(found[-1])
    assert found[:-1] == [
        *("hf", "jobs", "run", "--detach", "--name", "mine", "--flavor", "a10g-largex4", "--timeout", "3600s"),
        *("--attempts", "3", "--volume", "hf://buckets/me/runs:/work", "--", "registry/image:1", "sh", "-c"),
    ]
    assert inner == [
        *("cd", "/work", "&&", "exec", "accel_train", "train", "--processes", "4", "--device", "cuda"),
        *("--output", "runs/mine", "--time-limit", "3480s", "--data", "it's", "--exact"),
    ]


def test_options_that_are_given_win() -> None:
    inner = shlex.split(words({"time_limit": "10min", "output": "runs/b"})[-1])
    assert inner[10:] == ["--output", "runs/b", "--time-limit", "10min"]


def test_flavor_without_gpus_trains_on_the_cpu() -> None:
    assert "--processes 1 --device cpu" in words({}, flavor="cpu-xl")[-1]


def test_data_of_the_hub_get_the_token() -> None:
    assert "HF_TOKEN" in words({"data": "hf:me/private"})
    assert "HF_TOKEN" not in words({"data": "pictures"})
