"""Writes the graph of a model for torch.export.load."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from accel_train.export.graph import Graph

NAME = "model.pt2"


def write_torch_export(folder: Path, graph: Graph, record: Mapping[str, Any]) -> list[str]:
    """Write the graph to a folder, with the record as preprocessing.json in the file; return the names of the files.

    Raises:
        UserError: the operations of the model depend on the values or the number of the images.
    """
    torch.export.save(graph.program(), folder / NAME, extra_files={"preprocessing.json": json.dumps(record)})
    return [NAME]
