"""What user and launcher ask for is chosen or refused; blocks are found; a process that does not come is named."""

import os
import socket
import subprocess
import sys

import pytest
import torchvision
from torch import nn

from accel_train.distributed import resolve as choices
from accel_train.distributed.process_group import exchange, host_group
from accel_train.distributed.strategies import fsdp2 as sharding
from accel_train.errors import UserError
from accel_train.models.networks import cnn, mlp, wide_resnet

LAUNCHER_WANTS_FSDP = {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2"}
JOIN = """
import sys
from accel_train.distributed import process_group
from accel_train.errors import UserError
try:
    process_group.join("gloo", int(sys.argv[1]))
    print(process_group.exchange(process_group.host_group(9), [int(sys.argv[2]), 2**63 - 1]))
    process_group.leave()
except UserError as error:
    print(error.everywhere, error.message)
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("resnet18", {"BasicBlock"}),
        ("resnet50", {"Bottleneck"}),
        ("vit_b_16", {"EncoderBlock"}),
        ("swin_t", {"SwinTransformerBlock", "PatchMerging"}),
        ("convnext_tiny", {"CNBlock"}),
        ("efficientnet_b0", {"MBConv"}),
        ("regnet_y_400mf", {"ResBottleneckBlock"}),
        ("densenet121", {"_DenseLayer"}),
        ("alexnet", set()),
    ],
)
def test_blocks_of_torchvisions_models_are_what_repeats(name: str, expected: set[str]) -> None:
    assert sharding.blocks(torchvision.models.get_model(name, weights=None)) == expected


def test_blocks_of_our_networks_and_of_what_nests() -> None:
    assert sharding.blocks(wide_resnet(10, 1, depth=16, width=1)) == {"_WideBlock"}
    assert sharding.blocks(cnn(10, 1, 8)) == sharding.blocks(mlp(10, 1, 8)) == set()
    layer = nn.TransformerEncoderLayer(8, 2, 16)
    stages = nn.ModuleList([nn.TransformerEncoder(layer, 2, enable_nested_tensor=False) for _ in range(2)])
    assert sharding.blocks(stages) == {"TransformerEncoder"}


@pytest.mark.parametrize(
    ("asked", "environ", "expected"),
    [
        ("auto", {}, "ddp"),
        ("auto", LAUNCHER_WANTS_FSDP, "fsdp2"),
        ("ddp", LAUNCHER_WANTS_FSDP, "ddp"),
        ("fsdp2", {}, "fsdp2"),
    ],
)
def test_a_strategy_asked_for_wins_over_the_launchers(asked: str, environ: dict[str, str], expected: str) -> None:
    assert choices.choose_strategy(asked, 2, environ) == expected


@pytest.mark.parametrize("environ", [{}, LAUNCHER_WANTS_FSDP])
def test_sharding_among_one_process_is_refused(environ: dict[str, str]) -> None:
    with pytest.raises(UserError, match="FSDP2 has no effect on a single process"):
        choices.choose_strategy("auto" if environ else "fsdp2", 1, environ)


def test_another_strategy_of_the_launchers_is_refused() -> None:
    with pytest.raises(UserError, match="DeepSpeed, which is not supported"):
        choices.choose_strategy("auto", 2, {"ACCELERATE_USE_DEEPSPEED": "true"})


@pytest.mark.parametrize(
    ("setting", "error"),
    [
        ({"FSDP_VERSION": "1"}, "FSDP 1"),
        ({"FSDP_OFFLOAD_PARAMS": "true"}, "fsdp_offload_params"),
        ({"FSDP_ACTIVATION_CHECKPOINTING": "true"}, "fsdp_activation_checkpointing"),
        ({"FSDP_IGNORED_MODULES": "fc"}, "fsdp_ignored_modules"),
    ],
)
def test_what_fsdp_cannot_do_here_is_refused(setting: dict[str, str], error: str) -> None:
    with pytest.raises(UserError, match=error):
        sharding.plugin(LAUNCHER_WANTS_FSDP | setting)


def test_a_backend_is_gloo_on_cpus_unless_asked_and_none_for_one_process() -> None:
    assert choices.choose_backend(None, "cpu", 2) == "gloo"
    assert choices.choose_backend("gloo", "cpu", 2) == "gloo"
    assert choices.choose_backend(None, "cpu", 1) is None
    with pytest.raises(UserError, match="has no effect on a single process"):
        choices.choose_backend("gloo", "cpu", 1)
    with pytest.raises(UserError, match="2 processes cannot share mps"):
        choices.choose_backend(None, "mps", 2)


def test_one_process_exchanges_with_itself() -> None:
    assert exchange(host_group(1), [3, 4]) == [[3, 4]]


def joining(ranks: tuple[int, ...], world_size: int, timeout: int) -> list[str]:
    """Start some of the processes of a run and return what each says."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = os.environ | {"WORLD_SIZE": str(world_size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", JOIN, str(timeout), str(rank)],
            env=environment | {"RANK": str(rank), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in ranks
    ]
    return [process.communicate(timeout=90)[0].strip() for process in processes]


def test_processes_that_have_joined_know_each_others_numbers() -> None:
    assert joining((0, 1), 2, 60) == [str([[0, 2**63 - 1], [1, 2**63 - 1]])] * 2


@pytest.mark.parametrize(
    ("ranks", "world_size", "error"),
    [
        ((0,), 4, "True ranks 1, 2, 3 did not join within 2 s"),
        ((1,), 2, "False rank 0 did not join within 2 s: nobody is at 127.0.0.1:"),
    ],
)
def test_who_has_not_come_is_named(ranks: tuple[int, ...], world_size: int, error: str) -> None:
    (said,) = joining(ranks, world_size, 2)
    assert said.startswith(error)
