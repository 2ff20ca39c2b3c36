"""The PyTorchJob for Kubernetes agrees with the schemas of Kubernetes and of Kubeflow's training operator."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from accel_train.config.job_panel import KubernetesJob
from accel_train.jobs.kubernetes import kubernetes_file

SCHEMA = json.loads(Path(__file__).with_name("pytorchjob_schema.json").read_text(encoding="utf-8"))
"""Made from the schemas that tests/cli/test_job_tools.py checks with the tools themselves."""
FULL = {"namespace": "team", "cpus": 32, "memory": "64G", "time": "24h", "nodes": 4, "gpus_per_node": 8, "shm": "16G"}


def manifest(train: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    job = KubernetesJob(image="registry/image:1", claim="work", **options)
    text = kubernetes_file(["accel_train", "job", "kubernetes"], train or {}, job.model_dump())
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


@pytest.mark.parametrize("options", [{}, {"gpus_per_node": 0}, FULL], ids=["defaults", "cpus", "everything"])
def test_manifest_agrees_with_the_schemas(options: dict[str, Any]) -> None:
    jsonschema.validate(manifest({"data": "pictures"}, **options), SCHEMA)


def test_schema_refuses_a_key_that_is_misspelled() -> None:
    job = manifest()
    job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]["workingdir"] = "/work"
    with pytest.raises(jsonschema.ValidationError, match="workingdir"):
        jsonschema.validate(job, SCHEMA)


def test_every_pod_is_one_torchrun_with_a_process_per_gpu() -> None:
    spec = manifest({"data": "pictures", "exact": True}, **FULL)["spec"]
    replicas = spec["pytorchReplicaSpecs"]
    assert {name: replica["replicas"] for name, replica in replicas.items()} == {"Master": 1, "Worker": 3}
    assert replicas["Worker"]["template"] == replicas["Master"]["template"]
    (container,) = replicas["Master"]["template"]["spec"]["containers"]
    assert container["name"] == "pytorch"
    assert container["command"] == [
        *("torchrun", "--nnodes=4", "--nproc_per_node=8"),
        *("--node_rank=$(RANK)", "--master_addr=$(MASTER_ADDR)", "--master_port=$(MASTER_PORT)"),
        *("-m", "accel_train", "train", "--output=runs/accel-train", "--device=cuda", "--data=pictures", "--exact"),
    ]
    assert container["resources"] == {"limits": {"nvidia.com/gpu": "8", "cpu": "32", "memory": "64Gi"}}
    assert spec["runPolicy"] == {"backoffLimit": 24, "activeDeadlineSeconds": 86400}


def test_one_pod_on_cpus_has_one_process_and_no_workers() -> None:
    replicas = manifest(gpus_per_node=0)["spec"]["pytorchReplicaSpecs"]
    assert list(replicas) == ["Master"]
    (container,) = replicas["Master"]["template"]["spec"]["containers"]
    assert container["command"][1:3] == ["--nnodes=1", "--nproc_per_node=1"]
    assert container["command"][-1] == "--device=cpu"
    assert "resources" not in container


def test_output_that_is_given_is_used() -> None:
    (container,) = manifest({"output": "mine"})["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"][
        "containers"
    ]
    assert [word for word in container["command"] if word.startswith("--output")] == ["--output=mine"]


def test_value_is_not_read_as_a_variable_by_kubernetes() -> None:
    job = manifest({"data": '$(HOME)/a "b": #c'})
    (container,) = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"]
    assert container["command"][-1] == '--data=$$(HOME)/a "b": #c'
