"""Writes the graph of a model as an ONNX file."""

import json
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from accel_train.errors import UserError
from accel_train.export.graph import Graph

NAME = "model.onnx"
DEFAULT_OPSET = 20
_MOST_BYTES = 2**30
"""Of weights inside the file: protobuf allows 2 GiB. More are written to a file beside it."""
_LIBRARIES = ("onnx", "onnxscript", "onnxruntime")


def check_installed() -> None:
    """Refuse to start if a library is missing.

    Raises:
        UserError: the extra is not installed.
    """
    if missing := [name for name in _LIBRARIES if find_spec(name) is None]:
        raise UserError(f"--format onnx needs {' and '.join(missing)}", "pip install 'accel_train[onnx]'")


def write_onnx(folder: Path, graph: Graph, record: Mapping[str, Any], opset: int) -> list[str]:
    """Write the graph to a folder, with the record in its metadata; return the names of the files.

    Raises:
        UserError: an operation of the model does not exist in ONNX, or not in this opset.
    """
    program = graph.program()
    try:
        with _silence():
            converted = torch.onnx.export(
                program,
                dynamo=True,
                verbose=False,
                opset_version=opset,
                input_names=[graph.input_name],
                output_names=[graph.output_name],
                dynamic_shapes=(graph.dynamic,),
            )
    except Exception as error:  # a converter may raise any type
        reason = " ".join(str(error.__cause__ or error).split())[:200]
        raise UserError(f"this model cannot be exported as ONNX: {reason}", "use --format torch-export") from error
    assert converted is not None
    model = converted.model
    _remove_metadata(model)
    model.metadata_props.update({name: json.dumps(value) for name, value in record.items()})
    weights = sum(value.const_value.nbytes for value in model.graph.initializers.values() if value.const_value)
    beside = weights > _MOST_BYTES
    converted.save(folder / NAME, external_data=beside)
    return [NAME, f"{NAME}.data"] if beside else [NAME]


def run_onnx(path: Path) -> tuple[Any, str]:
    """Return a session of onnxruntime on the CPU, and the name of the program with its version."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session, f"onnxruntime {onnxruntime.__version__}"


def _remove_metadata(model: Any) -> None:
    """Remove the names of Python modules and files of this machine from a model of onnx_ir."""
    import onnx_ir.passes.common

    onnx_ir.passes.common.ClearMetadataAndDocStringPass()(model)


@contextmanager
def _silence() -> Iterator[None]:
    """Keep the exporter from telling its steps and its own deprecations."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logger.setLevel(level)
