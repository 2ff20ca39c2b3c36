"""Runs a command, and reports an error as one error line and one hint line."""

import logging
import os
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from accel_train import __version__
from accel_train.cli.commands import Commands
from accel_train.cli.usage import usage_error
from accel_train.config.import_string import MEND, failed_in
from accel_train.distributed.environment import launched, launched_rank, launcher_pid, local_rank
from accel_train.distributed.launcher import USERS_MISTAKE
from accel_train.distributed.peer_loss import what_was_lost
from accel_train.distributed.schedulers import join, rank_in
from accel_train.errors import UserError
from accel_train.loggers.text import prepare_streams, printable, write_to_stderr
from accel_train.system import os_errors
from accel_train.system.process import exit_at_once
from accel_train.system.signals import StopSignals

_SECONDS_FOR_LOCAL_RANK_0 = 3.0

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
    help="Train image classifiers: the same run on one CPU or on many GPUs.",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"accel_train {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Print the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line and exit with its code: 2 for a user's mistake, 1 for a bug or divergence.

    Commands find the process's StopSignals in `obj` of their context.
    """
    prepare_streams()
    if "--debug" not in sys.argv:
        sys.unraisablehook = lambda _: None  # destructors of what could not be made fail too, with tracebacks
    try:
        Path.cwd()  # oneMKL aborts if the current folder has been removed
        join()
    except (UserError, FileNotFoundError) as error:
        code = _explain(error)
    else:
        code = _run(StopSignals(rank=launched_rank(), launcher=launcher_pid()).listen())
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # its reader may be gone
            stream.flush()
    exit_at_once(code)


def _run(signals: StopSignals) -> int:
    try:
        return int(app(prog_name="accel_train", standalone_mode=False, obj=signals) or 0)
    except SystemExit as ended:
        if isinstance(ended.__context__, BrokenPipeError):  # Typer and Rich end so, without a word
            return _explain(ended.__context__)
        raise
    except Exception as error:
        if "--debug" in sys.argv and not isinstance(error, typer.TyperException):
            raise
        return _explain(error)


def _explain(error: Exception) -> int:
    if isinstance(error, typer.TyperException):
        if message := error.format_message():  # empty if no command was given: the help has been printed
            _print_error(*usage_error(error, message))
        return USERS_MISTAKE
    if isinstance(error, UserError):
        if error.everywhere and local_rank() > 0:
            # Local rank 0 reports the same error; a launcher would kill it as soon as another rank exits.
            time.sleep(_SECONDS_FOR_LOCAL_RANK_0)
        else:
            _print_error(error.message, error.hint)
        return error.exit_code
    return _explain_failure(error)


def _explain_failure(error: Exception) -> int:
    """Report an error that is not raised as the user's mistake; return the exit code."""
    if isinstance(error, BrokenPipeError) and _reader_is_gone():  # such as `head`, which has seen enough
        return 128 + signal.SIGPIPE
    if launched() and (lost := what_was_lost(error)):
        write_to_stderr(f"rank {launched_rank()} exiting: {lost}\n")
        return 1
    is_train = next((word for word in sys.argv[1:] if not word.startswith("-")), "") == "train"
    if explained := os_errors.explain(error, again=os_errors.RESUME if is_train else os_errors.AGAIN):
        if local_rank() == 0 or not _told_by_local_rank_0():
            name = getattr(error, "filename", None)
            _print_error(f"cannot use {name}: {explained.reason}" if name else explained.reason, explained.hint)
        return USERS_MISTAKE
    if place := failed_in(error):
        if local_rank() == 0 or not _told_by_local_rank_0():
            _print_error(f"{place}: {type(error).__name__}: {error}", MEND)
        return USERS_MISTAKE
    _print_error(f"{type(error).__name__}: {error}", "accel_train --debug … prints the traceback; please report it")
    return 1


def _told_by_local_rank_0() -> bool:
    """Return whether local rank 0 has ended too, after the same error: a full disk or a limit is the machine's."""
    import psutil  # takes 5 ms, after an error only

    time.sleep(_SECONDS_FOR_LOCAL_RANK_0)
    siblings = [process for process in psutil.Process(os.getppid()).children() if process.status() != "zombie"]
    ranks = []
    for sibling in siblings:
        with suppress(psutil.Error, UserError, ValueError):
            ranks.append(rank_in(sibling.environ()))
    return launched_rank() - local_rank() not in ranks


def _print_error(message: str, hint: str) -> None:
    lines = (f"{label}: {' '.join(printable(text).split())}" for label, text in (("error", message), ("hint", hint)))
    write_to_stderr("".join(line + "\n" for line in lines))


def _reader_is_gone() -> bool:
    """Return whether stdout is a pipe that nobody reads; Rich then puts the null device in its place."""
    poll = select.poll()
    poll.register(1, 0)
    replaced = os.path.samestat(os.fstat(1), os.stat(os.devnull))  # noqa: PTH116
    return replaced or any(event & select.POLLERR for _, event in poll.poll(0))
