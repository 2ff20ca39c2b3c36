"""Options that the strategy does not support are rejected; a resumed run keeps the values that it had."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.descriptions import CONTENTS, description

from accel_train.checkpoints.run_folder import config_text, write
from accel_train.config.options import PLACEMENT, ResolvedConfig, TrainConfig
from accel_train.distributed.strategies.ddp import DDP
from accel_train.distributed.strategies.fsdp2 import FSDP2
from accel_train.errors import UserError
from accel_train.models.base import Preprocessing, Weights
from accel_train.run import build, training_data
from accel_train.run.build import _resolve, refuse_unsupported
from accel_train.run.initial_model import Start
from accel_train.run.resume_point import ResumePoint


@pytest.mark.parametrize(
    ("asked", "hint"),
    [({"exact": True}, "add --strategy ddp or pipeline"), ({"auto_micro_batch": True}, "give --batch-size")],
)
def test_options_that_fsdp2_does_not_support_are_rejected(asked: dict[str, Any], hint: str) -> None:
    config = TrainConfig(**asked)
    refuse_unsupported(config, DDP())
    (name,) = asked
    with pytest.raises(UserError) as rejected:
        refuse_unsupported(config, FSDP2())
    assert rejected.value.message == f"--{name.replace('_', '-')} does not work with FSDP2 yet"
    assert rejected.value.hint == hint
    refuse_unsupported(TrainConfig(), FSDP2())


DATA: Any = SimpleNamespace(kind="digits", train=range(6), val=range(2))
STRATEGY = SimpleNamespace(stages=1)
RANK_0: Any = SimpleNamespace(precision="bf16", count=1, strategy=STRATEGY, on_main=lambda function: function())


def store(config: ResolvedConfig, folder: Path, **described: Any) -> None:
    """Make the folder of a run with this config and a checkpoint."""
    (folder / "checkpoints" / "update_000001").mkdir(parents=True)
    found = {"global_batch_size": 32, "image_size": 8}
    write(folder, config_text(config.model_dump() | found, {}, PLACEMENT), description(**described), None)


def test_new_run_gets_defaults_and_their_origins(tmp_path: Path) -> None:
    config, origins, point = _resolve(
        TrainConfig(lr=0.3, output=tmp_path / "run"), {"lr": "given"}, DATA, CONTENTS, RANK_0
    )
    assert (config.model, config.lr, config.precision, config.global_batch_size) == ("cnn", 0.3, "bf16", None)
    assert (origins["lr"], origins["model"]) == ("given", "default for digits")
    assert point == ResumePoint(tmp_path / "run")


def test_extended_run_keeps_defaults_that_follow_from_its_epochs(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    first, _, _ = _resolve(TrainConfig(epochs=3, output=folder), {}, DATA, CONTENTS, RANK_0)
    store(first, folder)
    asked = TrainConfig(epochs=30, output=folder, log_every=7)
    config, origins, point = _resolve(asked, {"epochs": "given"}, DATA, CONTENTS, RANK_0)
    assert point.source == folder
    assert (config.epochs, config.log_every, config.global_batch_size) == (30, 7, 32)
    assert config.warmup_epochs == first.warmup_epochs < 1
    assert origins == {"epochs": "given"}
    with pytest.raises(UserError, match=r"--warmup-epochs 1 instead of 0\.6"):
        _resolve(asked.model_copy(update={"warmup_epochs": 1.0}), {"warmup_epochs": "flag"}, DATA, CONTENTS, RANK_0)


def test_fine_tuning_without_a_global_batch_has_the_epochs_of_the_same_run_with_it(tmp_path: Path) -> None:
    """The first lines of a run name both batch sizes for other hardware."""
    pictures: Any = SimpleNamespace(kind="folder", train=range(300), val=range(2))
    asked = TrainConfig(data="pics", weights="DEFAULT", batch_size=64, output=tmp_path / "run")
    eight: Any = SimpleNamespace(**{**vars(RANK_0), "count": 8, "strategy": SimpleNamespace(stages=2)})
    on_eight, _, _ = _resolve(asked, {}, pictures, CONTENTS, eight)
    same = asked.model_copy(update={"global_batch_size": 256})
    assert on_eight.epochs == _resolve(same, {}, pictures, CONTENTS, RANK_0)[0].epochs == 60
    store(on_eight, tmp_path / "run", model=on_eight.model)
    assert _resolve(asked, {}, pictures, CONTENTS, RANK_0)[0].epochs == 60  # resumed on one process


def test_model_of_the_hub_has_the_defaults_of_its_architecture_when_it_is_resumed_too(tmp_path: Path) -> None:
    asked = TrainConfig(model="timm:hf-hub:me/birds", weights="DEFAULT", output=tmp_path / "run")
    vit = "timm:vit_tiny_patch16_224"
    first, _, _ = _resolve(asked, {}, DATA, CONTENTS, RANK_0, start=Start(architecture=vit))
    assert (first.optimizer, first.max_lr) == ("adamw", 1e-4)
    store(first, tmp_path / "run", model=vit)
    gone = Start(error=UserError("the weights are gone", ""))
    assert _resolve(asked, {}, DATA, CONTENTS, RANK_0, start=gone)[0].optimizer == "adamw"


def test_resumed_run_fits_pictures_as_for_weights_that_are_gone(tmp_path: Path) -> None:
    asked = TrainConfig(data="pics", model="resnet18", weights="DEFAULT", output=tmp_path / "run")
    pictures: Any = SimpleNamespace(kind="folder", train=range(6), val=range(2))
    squashed = Start(Weights("", dict, Preprocessing(8, (0.5,), (0.5,), fit="squash", crop=1.0)))
    first, origins, _ = _resolve(asked, {}, pictures, CONTENTS, RANK_0, start=squashed)
    assert (first.fit, first.random_crop, origins["fit"]) == ("squash", True, "as for --weights DEFAULT")
    store(first, tmp_path / "run", model="resnet18")
    gone = Start(error=UserError("the weights are gone", ""))
    assert _resolve(asked, {}, pictures, CONTENTS, RANK_0, start=gone)[0].fit == "squash"


def test_precision_of_another_launcher_makes_another_run(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    store(_resolve(TrainConfig(output=folder), {}, DATA, CONTENTS, RANK_0)[0], folder)
    fp32: Any = SimpleNamespace(**{**vars(RANK_0), "precision": "fp32"})
    with pytest.raises(UserError, match=r"--precision fp32 \(not given\) instead of bf16"):
        _resolve(TrainConfig(output=folder), {}, DATA, CONTENTS, fp32)


def test_data_of_a_named_run_that_are_gone_are_called_the_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store(_resolve(TrainConfig(output=tmp_path / "run"), {}, DATA, CONTENTS, RANK_0)[0], tmp_path / "run")
    text = (tmp_path / "run/config.yaml").read_text()
    (tmp_path / "run/config.yaml").write_text(text.replace("data: digits", "data: gone/pics"))
    with pytest.raises(UserError) as refused:
        build.build_run(TrainConfig(resume="run"), {"resume": "flag"})
    assert refused.value.message == (
        "the data of --resume run cannot be opened: --data gone/pics: neither a known data set nor a folder"
    )
    assert refused.value.hint == "if they are elsewhere now, add --data with their place"
    with pytest.raises(UserError, match=r"^--data gone/pics: neither"):
        build.build_run(TrainConfig(resume="run", data="gone/pics"), {"resume": "flag", "data": "flag"})


def test_threads_are_set_before_data_are_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of threads decides the last bits of the data's mean."""
    calls: list[str] = []

    def open_data(*given: object, **more: object) -> None:
        calls.append("data")
        raise UserError("enough", "")

    monkeypatch.setattr(build, "set_torch_options", lambda threads, exact: calls.append(f"{threads} threads"))
    monkeypatch.setattr(training_data, "open_data", open_data)
    with pytest.raises(UserError, match="enough"):
        build.build_run(TrainConfig(threads=3), {})
    assert calls == ["3 threads", "data"]
