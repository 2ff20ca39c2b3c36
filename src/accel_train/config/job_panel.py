"""The options of the command `job`: what a cluster is asked for."""

import re
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, model_validator

from accel_train.config.durations import parse_duration
from accel_train.config.fields import Config, NonNegativeInt, PositiveInt, split_list
from accel_train.errors import UserError

SECONDS_TO_STOP = 120
"""Between the time limit of a run and that of its job, where this gives no signal: to start, and to save."""


def _duration(text: str) -> str:
    parse_duration(text)
    return text


def _long_duration(text: str) -> str:
    if parse_duration(text) < 2 * SECONDS_TO_STOP:
        raise ValueError(f"must be {2 * SECONDS_TO_STOP / 60:.0f}min at least")
    return text


def _like(pattern: str, otherwise: str) -> AfterValidator:
    """Return a check that a text has a form; `otherwise` is the error of one that has not."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(otherwise)
        return text

    return AfterValidator(check)


Name = Annotated[
    str,
    _like(
        r"[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?",
        "must be at most 52 lower-case letters, digits and dashes, such as my-run",
    ),
]
"""What every cluster takes: Kubernetes is the strictest."""
Duration = Annotated[str, AfterValidator(_duration)]
LongDuration = Annotated[str, AfterValidator(_long_duration)]
Word = Annotated[str, _like(r"[\w./:@=,+-]+", "must be letters, digits and any of . / : @ = , + - _")]
"""A name that the cluster knows; it stands unquoted in a line of a script."""
Bytes = Annotated[str, _like(r"[0-9]+[KMGT]", "must be a whole number and K, M, G or T, such as 64G")]
FileSystem = Annotated[
    str, _like(r"(EFS|FSxLustre)://fs-[0-9a-f]+/[\w./-]*", "must be EFS://ID/PATH or FSxLustre://ID/PATH")
]


class SlurmJob(Config):
    """What is asked of SLURM, by the names that sbatch gives it."""

    panel = "Job"

    job_name: Name = "accel-train"
    """Name of the job, and of its log."""
    nodes: PositiveInt = 1
    """Nodes."""
    gpus_per_node: NonNegativeInt = 1
    """GPUs of each node; 0: train on CPUs."""
    ntasks_per_node: PositiveInt | None = None
    """Processes of each node. Default: one per GPU, or 1."""
    cpus_per_task: PositiveInt | None = None
    """CPU cores of each process, for its loader workers. Default: the cluster's, often 1."""
    mem: Bytes | None = None
    """Memory of each node, such as 64G. Default: the cluster's."""
    time: Duration | None = None
    """Time limit, such as 4h or 3h50m; the job then queues itself again, and resumes. Default: the partition's."""
    grace: Duration = "2min"
    """Time to save before the limit is reached."""
    partition: Word | None = None
    """Partition. Default: the cluster's."""
    account: Word | None = None
    """Account that pays. Default: yours."""

    @property
    def tasks(self) -> int:
        """Processes of each node."""
        return self.ntasks_per_node or max(1, self.gpus_per_node)

    @model_validator(mode="after")
    def _refuse_conflicts(self) -> Self:
        if self.time and parse_duration(self.grace) >= parse_duration(self.time):
            raise UserError(
                f"--grace {self.grace} leaves nothing of --time {self.time}", "give more --time, or a shorter --grace"
            )
        if self.gpus_per_node and self.tasks > self.gpus_per_node:
            raise UserError(
                f"--ntasks-per-node {self.tasks} is more than --gpus-per-node {self.gpus_per_node}",
                "each process trains on a GPU of its own: give as many GPUs, or --gpus-per-node 0 for CPUs",
            )
        return self


class KubernetesJob(Config):
    """What is asked of Kubernetes."""

    panel = "Job"

    image: Word
    """Container image with accel_train and torch."""
    claim: Name
    """Persistent volume claim with data and runs: the working folder of the job. With several nodes, ReadWriteMany."""
    job_name: Name = "accel-train"
    """Name of the job."""
    namespace: Name | None = None
    """Namespace. Default: the current one."""
    nodes: PositiveInt = 1
    """Pods, each on its node."""
    gpus_per_node: NonNegativeInt = 1
    """GPUs and processes of each pod; 0: one process on CPUs."""
    cpus: PositiveInt | None = None
    """CPU cores of each pod. Default: no limit."""
    memory: Bytes | None = None
    """Memory of each pod, such as 64G. Default: no limit."""
    shm: Bytes = "8G"
    """Most that /dev/shm may hold, in which loader workers pass on images; it counts as memory."""
    time: Duration | None = None
    """Time limit of the whole job, such as 24h, after which it is ended for good. Default: none."""


class SageMakerJob(Config):
    """What is asked of SageMaker."""

    panel = "Job"

    image: Word
    """URI of the container image in ECR, with accel_train and torch."""
    instance_type: Annotated[str, _like(r"ml\.[a-z0-9-]+\.[a-z0-9]+", "must be a type such as ml.g5.12xlarge")]
    """Instance type, such as ml.g5.12xlarge; it has a process per GPU, or one."""
    role: Word | None = None
    """ARN of the execution role. Default: that of the notebook which starts the job."""
    job_name: Name = "accel-train"
    """First part of the name of the training job."""
    checkpoints: Annotated[str, _like(r"s3://[\w.-]+/[\w./-]+", "must be s3://BUCKET/PREFIX")] | None = None
    """s3://BUCKET/PREFIX that keeps the run folder of one instance: another job with the same prefix resumes it."""
    nodes: PositiveInt = 1
    """Instances."""
    file_system: FileSystem | None = None
    """File system that keeps the run folder of several instances: EFS://ID/PATH or FSxLustre://ID/PATH."""
    subnets: Annotated[tuple[Word, ...], BeforeValidator(split_list)] | None = None
    """Subnets of the file system, such as subnet-1,subnet-2."""
    security_groups: Annotated[tuple[Word, ...], BeforeValidator(split_list)] | None = None
    """Security groups that may reach the file system."""
    time: LongDuration = "24h"
    """Time limit of the job; two minutes before, the run saves and stops."""
    spot: bool = False
    """Use spot instances, which are cheaper: the job waits for them, and resumes after an interruption."""

    @model_validator(mode="after")
    def _needs_storage_that_lasts(self) -> Self:
        if self.nodes > 1 and not (self.file_system and self.subnets and self.security_groups):
            raise UserError(
                f"--nodes {self.nodes}: instances need a file system for the run folder that they share",
                "add --file-system FSxLustre://fs-…/PATH, --subnets and --security-groups",
            )
        if not self.file_system and not self.checkpoints:
            raise UserError(
                "without --checkpoints the run folder is lost with the instance", "add --checkpoints s3://BUCKET/PREFIX"
            )
        if self.file_system and self.checkpoints:
            raise UserError("--checkpoints has no effect with --file-system", "leave one of them out")
        for option, value in (("--subnets", self.subnets), ("--security-groups", self.security_groups)):
            if value and not self.file_system:
                raise UserError(f"{option} has no effect without --file-system", "leave it out, or add --file-system")
            if self.file_system and not value:
                raise UserError(f"--file-system needs {option}, in which it can be reached", f"add {option}")
        return self


class HuggingFaceJob(Config):
    """What is asked of Hugging Face."""

    panel = "Job"

    image: Word
    """Container image with accel_train and torch."""
    flavor: Annotated[str, _like(r"[a-z0-9-]+", "must be a name such as a10g-small")]
    """Hardware, such as a10g-largex4, which has 4 GPUs and gets 4 processes; `hf jobs hardware` lists them."""
    bucket: Annotated[str, _like(r"[\w.-]+/[\w.-]+", "must be OWNER/NAME")]
    """Bucket with data and runs, OWNER/NAME: the working folder of the job."""
    job_name: Name = "accel-train"
    """Name of the job."""
    time: LongDuration = "24h"
    """Time limit of the job; two minutes before, the run saves and stops."""
