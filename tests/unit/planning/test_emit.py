"""The YAML files are those of accelerate_configs/, whose every kind a test starts."""

from pathlib import Path

import pytest
import yaml

from accel_train.planning.emit import accelerate_config, decided_options
from accel_train.planning.traffic import Cluster
from accel_train.planning.ways import Way

FILES = Path(__file__).parents[3] / "accelerate_configs"


@pytest.mark.parametrize(
    ("name", "way", "cluster", "on_cpu"),
    [
        ("ddp", Way("ddp", False), Cluster(8, 1), False),
        ("ddp_2_nodes", Way("ddp", False), Cluster(8, 2), False),
        ("fsdp2", Way("fsdp2", False, shards=8), Cluster(8, 1), False),
        ("fsdp2_2_nodes", Way("fsdp2", False, shards=16), Cluster(8, 2), False),
        ("hsdp", Way("hsdp", False, shards=8), Cluster(8, 2), False),
        ("cpu_2_processes", Way("ddp", False), Cluster(2, 1), True),
        ("fsdp2_cpu_2_processes", Way("fsdp2", False, shards=2), Cluster(2, 1), True),
        ("hsdp_cpu_4_processes", Way("hsdp", False, shards=2), Cluster(4, 1), True),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_config_is_that_of_the_file(name: str, way: Way, cluster: Cluster, on_cpu: bool) -> None:
    stored = yaml.safe_load((FILES / f"{name}.yaml").read_text(encoding="utf-8"))
    made = accelerate_config(way, cluster, precision="fp32" if on_cpu else "bf16", on_cpu=on_cpu)
    stored.pop("gpu_ids", None)
    assert made == stored


def test_options_of_a_pipeline() -> None:
    way = Way("pipeline", True, stages=2)
    assert decided_options(way, ("layer3",), None, (32, 128)) == {
        "batch_size": 32,
        "global_batch_size": 128,
        "activation_checkpointing": True,
        "strategy": "pipeline",
        "pipeline_stages": 2,
        "pipeline_split": ["layer3"],
        "pipeline_schedule": None,
    }
