"""The command ``job``, with a command for each kind of cluster."""

import shlex
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from accel_train.cli.option_values import OptionsWithValues
from accel_train.cli.options import with_options
from accel_train.cli.train import Json, Quiet, Verbose
from accel_train.config.early_check import check_plan
from accel_train.config.job_panel import HuggingFaceJob, KubernetesJob, SageMakerJob, SlurmJob
from accel_train.config.options import TrainConfig
from accel_train.config.strategies import check_options, check_processes
from accel_train.distributed.launcher import check_alone
from accel_train.errors import UserError
from accel_train.jobs.hugging_face import gpus_of, hugging_face_file, is_known, processes_of
from accel_train.jobs.kubernetes import kubernetes_file
from accel_train.jobs.sagemaker import sagemaker_file
from accel_train.jobs.slurm import slurm_file
from accel_train.jobs.train_options import device_of
from accel_train.loggers.text import quantity
from accel_train.recipes.read import refuse_missing_data

job = typer.Typer(no_args_is_help=True, help="Print a job file that runs `train` on a cluster.")


_LEAST_GPUS_OF_DP = 2


class _JobCommand(OptionsWithValues):
    """A command that explains where the options of train belong."""

    passes_on = "train"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except typer.TyperException as error:
            option = str(getattr(error, "option_name", ""))
            if option.lstrip("-").replace("-", "_") in TrainConfig.model_fields:
                raise UserError(
                    f"{option} is an option of train, not of {ctx.command_path}",
                    f"write the options of train after --: {ctx.command_path} … -- {option} …",
                ) from None
            raise


TrainOptions = Annotated[
    list[str] | None, typer.Argument(metavar="-- TRAIN_OPTIONS", help="Options of train, after --.", show_default=False)
]


def _checked(
    words: Sequence[str], processes: int | None, gpus: int | None = None, *, data_are_here: bool = False
) -> dict[str, Any]:
    """Check options of train as the run will; return the values of those that are given, files included.

    The job has this number of `processes`, and of `gpus` on each machine; None: its instance type decides. If
    `data_are_here`, it starts in this folder.

    Raises:
        UserError or TyperException: one is unknown, or has a value that is refused, or contradicts the job.
    """
    if words and not words[0].startswith("-"):
        raise UserError(
            f"unexpected {shlex.quote(words[0])} after --", "write only the options of train there, such as --epochs 5"
        )
    found: list[tuple[TrainConfig, dict[str, str], dict[str, bool]]] = []

    @with_options(TrainConfig, many=True)
    def train(
        config: TrainConfig, origins: dict[str, str], verbose: Verbose = False, quiet: Quiet = False, json: Json = False
    ) -> None:
        found.append((config, origins, {"verbose": verbose, "quiet": quiet, "json": json}))

    app = typer.Typer(add_completion=False)
    app.command(cls=OptionsWithValues)(train)
    typer.main.get_command(app).main(list(words), prog_name="accel_train train", standalone_mode=False)
    if not found:  # --help
        raise typer.Exit
    config, origins, flags = found[0]
    if config.processes not in (None, processes):
        others = "its instances have one per GPU" if processes is None else f"the job has {processes:,}"
        raise UserError(f"--processes {config.processes}, but {others}", "leave it out: the job's options decide")
    if data_are_here:
        refuse_missing_data(config.data, origins.get("data", ""))
    if processes is not None and gpus is not None:
        _refuse_impossible(config, origins, processes, gpus)
    given = {name: value for name, value in config.model_dump(mode="json").items() if name in origins}
    return given | {name: True for name, wanted in flags.items() if wanted}


def _refuse_impossible(config: TrainConfig, origins: dict[str, str], processes: int, gpus: int) -> None:
    """Refuse what the processes of a job, with `gpus` on each machine, would refuse when they start.

    Raises:
        UserError: they lack the device, cannot form the strategy or share the global batch, or have no such plan.
    """
    if config.device == "cpu" and gpus:
        raise UserError(
            f"--device cpu, but the job has {quantity(gpus, 'GPU')} on each machine",
            "leave it out, or ask for a machine without GPUs: --gpus-per-node 0, or another --flavor",
        )
    if config.device in ("cuda", "mps") and not gpus:
        raise UserError(f"--device {config.device}, but the job has no GPU", "leave it out: the job's options decide")
    strategy = "ddp" if config.strategy == "auto" else config.strategy
    check_options(strategy, config.strategy_options)
    try:
        check_processes(strategy, config.strategy_options, processes)
    except UserError as error:
        hint = error.hint if processes > 1 else "ask for more GPUs, or leave it out"
        raise UserError(error.message, hint) from None
    if strategy == "dp" and gpus < _LEAST_GPUS_OF_DP:
        raise UserError(
            f"--strategy dp needs two GPUs or more, and the job has {quantity(gpus, 'GPU')}", "leave it out: use DDP"
        )
    if config.resume in ("auto", "never"):  # else the batch is that of a run, which may not be here
        check_plan(config, origins, processes, config.pipeline_stages or 1)


@job.command(cls=_JobCommand)
@with_options(SlurmJob)
def slurm(config: SlurmJob, origins: dict[str, str], train: TrainOptions = None) -> None:
    """Print a batch script for SLURM: it saves at its time limit, queues itself again, and resumes."""
    check_alone("job")
    given = _checked(train or [], config.nodes * config.tasks, config.gpus_per_node, data_are_here=True)
    device = [] if "device" in given else ["--device", device_of(config.gpus_per_node)]
    text = slurm_file(_command(), [*(train or []), *device], {**config.model_dump(), "tasks": config.tasks})
    _print(text, "job.sh", "sbatch job.sh")


@job.command(cls=_JobCommand)
@with_options(KubernetesJob)
def kubernetes(config: KubernetesJob, origins: dict[str, str], train: TrainOptions = None) -> None:
    """Print a PyTorchJob for Kubeflow: pods that fail or move are started again, and resume."""
    check_alone("job")
    given = _checked(train or [], config.nodes * max(1, config.gpus_per_node), config.gpus_per_node)
    text = kubernetes_file(_command(), given, config.model_dump())
    _print(text, "job.yaml", "kubectl apply -f job.yaml")


@job.command(cls=_JobCommand)
@with_options(SageMakerJob)
def sagemaker(config: SageMakerJob, origins: dict[str, str], train: TrainOptions = None) -> None:
    """Print a Python script for SageMaker: it starts the job, and is its entry script."""
    check_alone("job")
    given = _checked(train or [], None)
    if "output" in given:
        raise UserError("--output has no effect on SageMaker, which keeps /opt/ml/checkpoints", "leave it out")
    text = sagemaker_file(_command(), given, config.model_dump())
    _print(text, "job.py", "python job.py")


@job.command("hf", cls=_JobCommand)
@with_options(HuggingFaceJob)
def hugging_face(config: HuggingFaceJob, origins: dict[str, str], train: TrainOptions = None) -> None:
    """Print a script that starts a job on Hugging Face: one machine, a process per GPU."""
    check_alone("job")
    if not is_known(config.flavor):
        note = f"note: flavor {config.flavor} is not known here: the job gets one process, for one GPU"
        typer.echo(f"{note}; `hf jobs hardware` lists them", err=True)
    given = _checked(train or [], processes_of(config.flavor), gpus_of(config.flavor))
    text = hugging_face_file(_command(), given, config.model_dump())
    _print(text, "job.sh", "bash job.sh")


def _command() -> list[str]:
    return ["accel_train", *sys.argv[1:]]


def _print(text: str, file: str, submit: str) -> None:
    """Print a job file, and on stderr what to do with it."""
    typer.echo(text, nl=False)
    typer.echo(f"next: write it to a file (> {file}), then {submit}", err=True)
