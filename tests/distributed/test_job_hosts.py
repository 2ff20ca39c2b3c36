"""What `accel_train job` prints for SageMaker and Kubernetes trains one run on several hosts: here all this machine."""

import json
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from helpers.runner import Ended, Runner, free_port
from helpers.sagemaker import as_arguments, hyperparameters, write_channel

HOSTS = ["127.0.0.1", "127.0.0.2"]
TRAIN = [*("--epochs", "2", "--model", "mlp", "--image-size", "16", "--batch-size", "4", "--global-batch-size", "8")]
TRAIN += ["--exact", "--no-report", "--device", "cpu"]


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


def assert_all_succeed(start: Callable[[str], Ended], hosts: Iterable[str]) -> None:
    with ThreadPoolExecutor(2) as pool:
        for ended in pool.map(start, hosts):
            assert ended.code == 0, ended.err


@pytest.mark.slow
def test_instances_of_sagemaker_train_one_run_and_the_first_hands_on_the_model(run: Runner) -> None:
    channel = write_channel(run.folder / "pictures")
    shared = ("--file-system", "EFS://fs-1/runs", "--subnets", "subnet-1", "--security-groups", "sg-1", "--nodes", "2")
    words = ("--image", "image:1", "--instance-type", "ml.m5.large", *shared, "--", "--data", "s3://bucket/a", *TRAIN)
    printed = run("job", "sagemaker", *words)
    assert printed.code == 0, printed.err
    (run.folder / "job.py").write_text(printed.out.replace("29500", str(free_port())))

    def start(host: str) -> Ended:
        environment = {"SM_HOSTS": json.dumps(HOSTS), "SM_CURRENT_HOST": host, "SM_NUM_GPUS": "0"}
        folders = {"SM_CHANNEL_TRAINING": "pictures", "SM_CHANNEL_RUNS": "runs", "SM_MODEL_DIR": f"model_{host}"}
        arguments = as_arguments(hyperparameters(printed.out))
        return run.program([sys.executable, "job.py", *arguments], **environment, **folders)

    assert_all_succeed(start, HOSTS)
    assert run("train", "--data", channel, *TRAIN, "--output", "alone").code == 0
    model = run.folder / f"model_{HOSTS[0]}"
    assert weights(model) == weights(run.folder / "alone")
    assert {"config.json", "best.safetensors"} <= {path.name for path in model.iterdir()}
    assert not (model / "checkpoints").exists()
    assert not (run.folder / f"model_{HOSTS[1]}").exists()


@pytest.mark.chaos
def test_pods_of_kubernetes_train_one_run(run: Runner) -> None:
    cluster = ("--image", "image:1", "--claim", "work", "--nodes", "2", "--gpus-per-node", "0")
    printed = run("job", "kubernetes", *cluster, "--", "--data", "digits", "--limit", "64", *TRAIN)
    replicas = yaml.safe_load(printed.out)["spec"]["pytorchReplicaSpecs"]
    (container,) = replicas["Master"]["template"]["spec"]["containers"]
    operators = {"MASTER_ADDR": HOSTS[0], "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}

    def start(rank: str) -> Ended:
        environment = {**operators, "RANK": rank}
        words = container["command"]
        for name, value in environment.items():
            words = [word.replace(f"$({name})", value) for word in words]
        return run.program([sys.executable, "-m", "torch.distributed.run", *words[1:]], **environment)

    assert_all_succeed(start, ["0", "1"])
    assert run("train", "--data", "digits", "--limit", "64", *TRAIN, "--output", "alone").code == 0
    assert weights(run.folder / "runs" / "accel-train") == weights(run.folder / "alone")
