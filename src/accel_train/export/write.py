"""Exports the model of a run: writes the files, and compares them with the model."""

import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from accel_train.config.export_panel import ExportConfig
from accel_train.errors import UserError
from accel_train.export import onnx_file
from accel_train.export.check import Compared, compare, open_images
from accel_train.export.example import NAME as EXAMPLE
from accel_train.export.example import program
from accel_train.export.graph import Graph, graph_of
from accel_train.export.onnx_file import write_onnx
from accel_train.export.preprocessing import preprocessing_of
from accel_train.export.torch_export_file import write_torch_export
from accel_train.export.weights_files import as_json, loading_lines, write_weights
from accel_train.history.files import EXPORT
from accel_train.run.inference import RunModel, open_run
from accel_train.system.atomic_files import PARTIAL, sync
from accel_train.system.os_errors import cannot_write, number_of
from accel_train.system.run_around import run_around

PREPROCESSING = "preprocessing.json"
_FORMAT = 1
"""Of preprocessing.json."""


@dataclass(frozen=True)
class Exported:
    """What has been written."""

    folder: Path
    files: tuple[Path, ...]
    """The model first."""
    weights: str
    """last or best."""
    notes: tuple[str, ...]
    """What the user should know, one sentence each."""
    graph: Graph | None
    """None for weights alone."""
    example: Path | None
    """A program that uses the files."""
    loading_lines: tuple[str, ...]
    """Lines of a program that load weights alone."""
    compared: Compared | None
    """None if that was not asked for."""


def export(run_folder: Path, config: ExportConfig) -> Exported:
    """Write the model of a run in a format for other programs.

    Raises:
        UserError: the run has no weights, the model cannot be exported so, or the folder cannot be written to.
    """
    if config.format == "onnx":
        onnx_file.check_installed()
    stored = open_run(run_folder, config.model)
    folder = config.output or stored.folder / EXPORT / config.format
    _check_folder(folder, in_run=config.output is None)
    run = stored.load(config.weights)
    source = open_images(config, run) if config.check else None
    graph = None if config.format == "safetensors" else _graph(run, config)
    lines = loading_lines(run, str(folder)) if graph is None else []
    try:
        files = _write(folder, run, graph, config)
    except Exception as error:
        if number_of(error) is None:  # safetensors and torch have types of their own for errors of the system
            raise
        raise cannot_write(folder, "--output", error) from None
    compared = compare(files[0], graph, run, source, half=config.half) if graph and source else None
    example = folder / EXAMPLE if graph else None
    return Exported(folder, tuple(files), run.weights, run.notes, graph, example, tuple(lines), compared)


def _graph(run: RunModel, config: ExportConfig) -> Graph:
    channels = run.description.data_channels
    if config.with_preprocessing and channels not in (1, 3):
        raise UserError(
            f"--with-preprocessing: the images of {run.folder} have {channels} channels, pictures have 1 or 3",
            "leave it out",
        )
    return graph_of(run, with_preprocessing=config.with_preprocessing, half=config.half, batch_size=config.batch_size)


def _check_folder(folder: Path, *, in_run: bool) -> None:
    """Check that files can be written to a folder; `in_run`: it is that for exports in a run folder.

    Raises:
        UserError: they cannot, or would be among those of a run.
    """
    another = "give another --output"
    if not in_run and (run := run_around(folder)):
        raise UserError(f"--output {folder} is in the folder of the run {run}", f"{another}, or leave it out")
    for path in (folder, folder.parent) if in_run else ():
        if path.is_symlink():  # anybody may have made it
            raise UserError(f"{path} is a link", "remove it, or give --output")
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not nearest.is_dir():
        raise UserError(f"cannot write to {folder}: {nearest} is no folder", another)
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise UserError(f"cannot write to {folder}: no permission in {nearest}", another)


def _write(folder: Path, run: RunModel, graph: Graph | None, config: ExportConfig) -> list[Path]:
    """Write all files under temporary names, then give them theirs; return their paths, the model first."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=PARTIAL, dir=folder) as name:
        partial = Path(name)
        steps = preprocessing_of(run)
        record: dict[str, Any] = {"format": _FORMAT, "steps": asdict(steps), "classes": run.classes}
        if graph is None:
            written = write_weights(partial, run, half=config.half)
        else:
            record |= graph.record()
            if config.format == "onnx":
                written = write_onnx(partial, graph, record, config.opset or onnx_file.DEFAULT_OPSET)
            else:
                written = write_torch_export(partial, graph, record)
            (partial / EXAMPLE).write_text(program(config.format, graph, steps), encoding="utf-8")
            written += [EXAMPLE]
        (partial / PREPROCESSING).write_bytes(as_json(record))
        written += [PREPROCESSING]
        for file in written:
            sync(partial / file)
            (partial / file).replace(folder / file)
        sync(folder)
    return [folder / file for file in written]
