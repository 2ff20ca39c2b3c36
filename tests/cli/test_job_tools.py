"""Job files, and the tools that clusters read them with, from PyPI and in an environment of their own."""

import json
import os
import site
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.cli import Call, in_process
from helpers.runner import Runner
from helpers.sagemaker import write_container

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]

KUBERNETES = """
import json, sys, types
import kubernetes_validate, yaml
from kubeflow.training.api_client import ApiClient

job = yaml.safe_load(open(sys.argv[1]))
pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}}
pod |= job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]
for version in ("1.25", "1.37"):
    kubernetes_validate.validate(pod, version, strict=True)
client = ApiClient()  # drops what Kubeflow does not know
read = client.deserialize(types.SimpleNamespace(data=json.dumps(job)), "KubeflowOrgV1PyTorchJob")
assert client.sanitize_for_serialization(read) == job
"""

SAGEMAKER = """
import json, os, runpy
import botocore.client
from botocore.validate import validate_parameters

role = "arn:aws:iam::123456789012:role/training"
trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "sagemaker.amazonaws.com"}}
answers = {
    "GetCallerIdentity": {"Account": "123456789012", "Arn": role, "UserId": "me"},
    "GetRole": {"Role": {"Arn": role, "RoleName": "training", "AssumeRolePolicyDocument": {"Statement": [trust]}}},
    "ListBuckets": {"Buckets": []},
}

def answer(client, operation, parameters):
    validate_parameters(parameters, client.meta.service_model.operation_model(operation).input_shape)
    if operation == "CreateTrainingJob":
        open("request.json", "w").write(json.dumps(parameters))
        os._exit(0)
    return answers.get(operation, {})

botocore.client.BaseClient._make_api_call = answer
runpy.run_path("job.py", run_name="__main__")
"""
"""Runs a printed script against an AWS that takes its request, after checking it."""


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    return in_process(tmp_path, monkeypatch, capsys)


def environment_with(folder: Path, *packages: str) -> Path:
    """Make a virtual environment that has packages and those of this Python; return the folder of its programs."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([folder / "bin" / "pip", "install", "--quiet", *packages], check=True)
    (found,) = folder.glob("lib/python*/site-packages")
    lines = [f"import site; site.addsitedir({path!r})" for path in site.getsitepackages()]
    (found / "outer.pth").write_text("\n".join(lines))
    return folder / "bin"


def test_kubernetes_and_kubeflow_know_every_key(call: Call, run: Runner) -> None:
    options = ("--nodes", "2", "--gpus-per-node", "8", "--cpus", "8", "--memory", "64G", "--time", "1h")
    printed = call("job", "kubernetes", "--image", "image:1", "--claim", "work", "--namespace", "team", *options)
    (run.folder / "job.yaml").write_text(printed.out)
    programs = environment_with(run.folder / "tools", "kubernetes-validate>=1.37", "kubeflow-training>=1.9")
    ended = run.program([str(programs / "python"), "-c", KUBERNETES, "job.yaml"], PYTHONWARNINGS="ignore")
    assert ended.code == 0, ended.err


def test_sagemakers_toolkit_runs_the_entry(call: Call, run: Runner) -> None:
    words = ("--image", "image:1", "--instance-type", "ml.m5.large", "--checkpoints", "s3://bucket/runs")
    train = (
        "--data",
        "s3://bucket/a",
        "--epochs",
        "2",
        "--exact",
        "--no-report",
        "--model",
        "mlp",
        "--batch-size",
        "4",
    )
    base = run.folder / "ml"
    write_container(base, call("job", "sagemaker", *words, "--", *train).out, "localhost")
    programs = environment_with(run.folder / "tools", "sagemaker-training>=5.1")
    environment = {"SAGEMAKER_BASE_DIR": str(base), "SM_CHANNEL_RUNS": str(base / "checkpoints")}
    path = os.pathsep.join((str(programs), os.environ["PATH"]))
    ended = run.program([str(programs / "train")], timeout=600, PATH=path, **environment)
    assert ended.code == 0, ended.out + ended.err
    assert (base / "output" / "success").exists()
    record = json.loads((base / "model" / "metrics.jsonl").read_text().splitlines()[0])
    assert (record["config"]["exact"], record["config"]["report"]) == (True, False)


def test_sagemakers_sdk_makes_a_valid_request(call: Call, run: Runner) -> None:
    storage = ("--file-system", "FSxLustre://fs-0123456789abcdef0/fsx/runs", "--subnets", "subnet-1,subnet-2")
    machines = ("--instance-type", "ml.g5.12xlarge", "--nodes", "2", "--spot", "--security-groups", "sg-1")
    role = ("--role", "arn:aws:iam::123456789012:role/training")
    image = ("--image", "123456789012.dkr.ecr.eu-west-1.amazonaws.com/image:1")
    printed = call("job", "sagemaker", *image, *role, *machines, *storage, "--", "--data", "s3://bucket/a", "--exact")
    (run.folder / "job.py").write_text(printed.out)
    programs = environment_with(run.folder / "tools", "sagemaker>=3")
    keys = {"AWS_DEFAULT_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none"}
    ended = run.program([str(programs / "python"), "-c", SAGEMAKER], timeout=600, PYTHONWARNINGS="ignore", **keys)
    assert ended.code == 0, ended.err
    request = json.loads((run.folder / "request.json").read_text())
    assert request["HyperParameters"] == {"time_limit": "86280s", "exact": "true"}
    assert [channel["ChannelName"] for channel in request["InputDataConfig"][:2]] == ["training", "runs"]
    assert (request["ResourceConfig"]["InstanceCount"], request["EnableManagedSpotTraining"]) == (2, True)
