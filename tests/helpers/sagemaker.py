"""What SageMaker gives to the hosts of a training job."""

import ast
import json
from pathlib import Path
from typing import Any

from helpers.cli import write_pictures


def hyperparameters(script: str) -> dict[str, Any]:
    """Return the hyperparameters that a printed script asks for."""
    calls = [node for node in ast.walk(ast.parse(script)) if isinstance(node, ast.Call)]
    (given,) = (each.value for call in calls for each in call.keywords if each.arg == "hyperparameters")
    found: dict[str, Any] = ast.literal_eval(given)
    return found


def as_arguments(values: dict[str, Any]) -> list[str]:
    """Return hyperparameters as SageMaker passes them to an entry script: every one has a value."""
    return [word for name in sorted(values) for word in (f"--{name}", str(values[name]))]


def write_channel(folder: Path) -> Path:
    """Write pictures as SageMaker copies them to a host."""
    for split, count in (("train", 16), ("val", 4)):
        write_pictures(folder / split, {"a": count, "b": count})
    return folder


def write_container(base: Path, script: str, host: str) -> Path:
    """Write the files of a container that has one host, and return the folder of its code."""
    configs, code = base / "input" / "config", base / "source"
    for folder in (configs, code, base / "model", base / "output" / "data"):
        folder.mkdir(parents=True)
    write_channel(base / "input" / "data" / "training")
    (code / "job.py").write_text(script)
    values = {**hyperparameters(script), "sagemaker_program": "job.py", "sagemaker_submit_directory": str(code)}
    files = {
        "hyperparameters": {name: json.dumps(value) for name, value in values.items()},
        "inputdataconfig": {"training": {"TrainingInputMode": "File"}},
        "resourceconfig": {
            **{"current_host": host, "hosts": [host], "current_instance_type": "ml.m5.large"},
            "network_interface_name": "lo",
        },
    }
    for name, content in files.items():
        (configs / f"{name}.json").write_text(json.dumps(content))
    return code
