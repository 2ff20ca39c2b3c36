"""What can be asked of a cluster."""

from typing import Any

import pytest

from accel_train.config.fields import Config
from accel_train.config.job_panel import HuggingFaceJob, KubernetesJob, SageMakerJob, SlurmJob
from accel_train.config.load import make_config
from accel_train.errors import UserError

KUBERNETES = {"image": "a", "claim": "b"}
SAGEMAKER = {"image": "a", "instance_type": "ml.g5.xlarge", "checkpoints": "s3://a/b"}
HF = {"image": "a", "flavor": "t4-small", "bucket": "me/runs"}


def test_slurm_has_a_task_per_gpu() -> None:
    assert SlurmJob(gpus_per_node=8).tasks == 8
    assert SlurmJob(gpus_per_node=0).tasks == 1
    assert SlurmJob(gpus_per_node=0, ntasks_per_node=4).tasks == 4
    assert SlurmJob(gpus_per_node=8, ntasks_per_node=1).tasks == 1


@pytest.mark.parametrize(
    ("kind", "values", "problem"),
    [
        (
            SlurmJob,
            {"job_name": "My run"},
            "--job-name 'My run': must be at most 52 lower-case letters",
        ),
        (SlurmJob, {"partition": "a\n#SBATCH --nodes=9"}, "must be letters, digits and any of"),
        (SlurmJob, {"account": "a b"}, "must be letters, digits and any of"),
        (SlurmJob, {"mem": "64 GB"}, "must be a whole number and K, M, G or T"),
        (SlurmJob, {"time": "4:00"}, "not a duration such as 3h50m"),
        (SlurmJob, {"time": "2min"}, "--grace 2min leaves nothing of --time 2min"),
        (SlurmJob, {"ntasks_per_node": 2}, "--ntasks-per-node 2 is more than --gpus-per-node 1"),
        (SlurmJob, {"nodes": 0}, "--nodes 0: must be greater than 0"),
        (KubernetesJob, {"image": "a"}, "--claim is missing"),
        (KubernetesJob, {**KUBERNETES, "memory": "64"}, "must be a whole number and K, M, G or T"),
        (SageMakerJob, {**SAGEMAKER, "instance_type": "g5.xlarge"}, "must be a type such as ml.g5.12xlarge"),
        (SageMakerJob, {**SAGEMAKER, "checkpoints": "bucket/a"}, "must be s3://BUCKET/PREFIX"),
        (SageMakerJob, {**SAGEMAKER, "checkpoints": None}, "without --checkpoints the run folder is lost"),
        (SageMakerJob, {**SAGEMAKER, "nodes": 2}, "--nodes 2: instances need a file system"),
        (SageMakerJob, {**SAGEMAKER, "file_system": "EFS://fs-1/a"}, "--checkpoints has no effect with --file-system"),
        (SageMakerJob, {**SAGEMAKER, "subnets": "subnet-1"}, "--subnets has no effect without --file-system"),
        (SageMakerJob, {**SAGEMAKER, "security_groups": "sg-1"}, "--security-groups has no effect without"),
        (
            *(SageMakerJob, {**SAGEMAKER, "checkpoints": None, "file_system": "EFS://fs-1/a", "subnets": "subnet-1"}),
            "--file-system needs --security-groups, in which it can be reached",
        ),
        (SageMakerJob, {**SAGEMAKER, "file_system": "nfs://a"}, "must be EFS://ID/PATH or FSxLustre://ID/PATH"),
        (HuggingFaceJob, {**HF, "bucket": "runs"}, "must be OWNER/NAME"),
        (HuggingFaceJob, {**HF, "time": "3min"}, "must be 4min at least"),
    ],
)
def test_value_that_cannot_be_is_refused(kind: type[Config], values: dict[str, Any], problem: str) -> None:
    with pytest.raises(UserError) as refused:
        make_config(kind, values, {})
    assert problem in refused.value.message
    assert refused.value.hint
