"""The script for SageMaker: what it asks for; tests/distributed/test_job_hosts.py trains with it."""

import ast
from typing import Any

import pytest

from accel_train.config.job_panel import SageMakerJob
from accel_train.jobs.sagemaker import sagemaker_file

IMAGE = "123.dkr.ecr.eu-west-1.amazonaws.com/image:1"
ONE = {"image": IMAGE, "instance_type": "ml.g5.2xlarge", "checkpoints": "s3://bucket/runs"}
SEVERAL = {"image": IMAGE, "instance_type": "ml.p4d.24xlarge", "nodes": 2, "spot": True}
SEVERAL |= {"file_system": "FSxLustre://fs-0ab1/fsx/runs", "subnets": ["s-1", "s-2"], "security_groups": ["sg-1"]}


def calls(train: dict[str, Any], **options: Any) -> dict[str, dict[str, Any]]:
    """Return the arguments of each call of the script that are literals, by function; those of channels by name."""
    job = SageMakerJob(**options)
    tree = ast.parse(sagemaker_file(["accel_train", "job", "sagemaker"], train, job.model_dump()))
    found: dict[str, dict[str, Any]] = {}
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.keywords):
        given = {each.arg or "": each.value for each in call.keywords}
        values = {name: ast.literal_eval(value) for name, value in given.items() if _is_literal(value)}
        name = getattr(call.func, "id", getattr(call.func, "attr", ""))
        found[values.get("channel_name", name)] = values
    return found


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except ValueError:
        return False
    return True


def test_one_instance_keeps_its_run_folder_in_s3() -> None:
    found = calls({"data": "s3://bucket/pictures", "exact": True, "milestones": [30.0, 60.0]}, **ONE, time="10h")
    assert found["ModelTrainer"] == {
        **{"base_job_name": "accel-train", "training_image": IMAGE, "role": None},
        "hyperparameters": {"time_limit": "35880s", "exact": True, "milestones": "30,60"},
    }
    assert found["Compute"] == {
        **{"instance_type": "ml.g5.2xlarge", "instance_count": 1, "enable_managed_spot_training": False}
    }
    assert found["StoppingCondition"] == {"max_runtime_in_seconds": 36000}
    assert found["CheckpointConfig"] == {"s3_uri": "s3://bucket/runs", "local_path": "/opt/ml/checkpoints"}
    assert found["training"]["data_source"] == "s3://bucket/pictures"
    assert "runs" not in found


def test_several_instances_share_a_file_system() -> None:
    found = calls({"data": "digits"}, **SEVERAL)
    assert found["Compute"]["instance_count"] == 2
    assert found["StoppingCondition"] == {"max_runtime_in_seconds": 86400, "max_wait_time_in_seconds": 172800}
    assert found["Networking"] == {"subnets": ["s-1", "s-2"], "security_group_ids": ["sg-1"]}
    assert found["FileSystemDataSource"] == {
        **{"file_system_id": "fs-0ab1", "file_system_type": "FSxLustre", "directory_path": "/fsx/runs"},
        "file_system_access_mode": "rw",
    }
    assert "runs" in found
    assert "CheckpointConfig" not in found


@pytest.mark.parametrize(
    ("data", "is_channel"),
    [
        *[(name, True) for name in ("s3://bucket/pictures", "pictures", "./pictures", "/data/pictures")],
        *[
            (name, False)
            for name in ("digits", "cifar10", "synthetic", "synthetic:64,1,8,8,10", "hf:beans", "my.data:build")
        ],
    ],
)
def test_folders_are_channels_and_names_are_hyperparameters(data: str, is_channel: bool) -> None:
    found = calls({"data": data}, **ONE)
    assert ("training" in found) is is_channel
    assert found["ModelTrainer"]["hyperparameters"].get("data") == (None if is_channel else data)
