"""Graphs of models, read back from their files, compute what the models compute."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from helpers.exports import odd_photographs, run_model
from helpers.marks import chaos, slow
from torch import Tensor, nn

from accel_train.errors import UserError
from accel_train.export import onnx_file
from accel_train.export.graph import Graph, graph_of
from accel_train.export.onnx_file import run_onnx, write_onnx
from accel_train.export.torch_export_file import write_torch_export
from accel_train.run.inference import RunModel
from accel_train.run.loaded import loaded

MODELS = [
    *(("cnn", 16), slow("resnet18", 32), slow("timm:test_vit", 64)),
    *(chaos("convnext_tiny", 32), chaos("vit_b_16", 32)),
]


def graph(run: RunModel, *, pictures: bool = False, half: bool = False, batch_size: int | None = None) -> Graph:
    return graph_of(run, with_preprocessing=pictures, half=half, batch_size=batch_size)


def outputs(run: RunModel, images_BCHW: Tensor) -> np.ndarray:
    with torch.no_grad():
        return run.module(images_BCHW).numpy()


@pytest.mark.parametrize(("name", "size"), MODELS)
def test_files_give_the_logits_of_the_model(tmp_path: Path, name: str, size: int) -> None:
    run = run_model(name, size)
    images_BCHW = torch.randn(3, 3, size, size, generator=torch.Generator().manual_seed(1))
    expected = outputs(run, images_BCHW)
    assert write_onnx(tmp_path, graph(run), {}, 20) == ["model.onnx"]
    session, program = run_onnx(tmp_path / "model.onnx")
    assert program.startswith("onnxruntime 1.")
    assert write_torch_export(tmp_path, graph(run), {}) == ["model.pt2"]
    module = torch.export.load(tmp_path / "model.pt2").module()
    for batch in (images_BCHW, images_BCHW[:1]):  # of any size
        found = [session.run(None, {"images": batch.numpy()})[0], module(batch).numpy()]
        for logits in found:
            assert logits.dtype == np.float32
            assert np.abs(logits - expected[: len(batch)]).max() < 1e-4


def test_graph_with_preprocessing_takes_pictures_of_any_size(tmp_path: Path) -> None:
    run = run_model("mlp", 24)
    record = {"classes": ["a", "b"], "format": 1}
    write_onnx(tmp_path, graph(run, pictures=True), record, 18)
    session, _ = run_onnx(tmp_path / "model.onnx")
    assert {name: json.loads(value) for name, value in session.get_modelmeta().custom_metadata_map.items()} == record
    (taken,), (given,) = session.get_inputs(), session.get_outputs()
    assert (taken.name, taken.type, taken.shape) == ("pictures", "tensor(uint8)", ["batch", "height", "width", 3])
    assert (given.name, given.type, given.shape) == ("probabilities", "tensor(float)", ["batch", 2])
    for pixels_HWC in odd_photographs():
        expected = outputs(run, loaded(run).preprocess(pixels_HWC)[None])
        probabilities = np.exp(expected) / np.exp(expected).sum()
        found = session.run(None, {"pictures": np.stack([pixels_HWC] * 2)})[0]
        assert np.abs(found - probabilities).max() < 1e-3
    model = onnx.load(tmp_path / "model.onnx")
    onnx.checker.check_model(model)
    assert [opset.version for opset in model.opset_import if not opset.domain] == [18]
    assert not any(node.metadata_props or node.doc_string for node in model.graph.node)  # names of files of a machine


def test_weights_too_large_for_the_file_are_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_file, "_MOST_BYTES", 100_000)
    run = run_model("mlp", 24)
    assert write_onnx(tmp_path, graph(run), {}, 20) == ["model.onnx", "model.onnx.data"]
    assert (tmp_path / "model.onnx").stat().st_size < 100_000 < (tmp_path / "model.onnx.data").stat().st_size
    (tmp_path / "moved").mkdir()
    for name in ("model.onnx", "model.onnx.data"):
        (tmp_path / name).rename(tmp_path / "moved" / name)
    session, _ = run_onnx(tmp_path / "moved" / "model.onnx")
    images_BCHW = torch.ones(1, 3, 24, 24)
    assert np.abs(session.run(None, {"images": images_BCHW.numpy()})[0] - outputs(run, images_BCHW)).max() < 1e-4


def test_half_precision_and_a_fixed_batch(tmp_path: Path) -> None:
    run = run_model("mlp", 24)
    images_BCHW = torch.randn(3, 3, 24, 24, generator=torch.Generator().manual_seed(1))
    fixed = graph(run, half=True, batch_size=3)
    assert fixed.record()["input"] == {"name": "images", "dtype": "float32", "shape": [3, 3, 24, 24]}
    write_torch_export(tmp_path, fixed, {"classes": ["a"]})
    extra = {"preprocessing.json": ""}
    module = torch.export.load(tmp_path / "model.pt2", extra_files=extra).module()
    assert json.loads(extra["preprocessing.json"]) == {"classes": ["a"]}
    found = module(images_BCHW)
    assert found.dtype == torch.float32
    assert 1e-7 < np.abs(found.numpy() - outputs(run, images_BCHW)).max() < 1e-2
    assert {parameter.dtype for parameter in module.parameters()} == {torch.float16}
    assert {parameter.dtype for parameter in run.module.parameters()} == {torch.float32}
    with pytest.raises(AssertionError, match="Guard failed"):
        module(images_BCHW[:2])


class Undecided(nn.Module):
    """Computes what depends on the values of the images."""

    def forward(self, images_BCHW: Tensor) -> Tensor:
        return images_BCHW[:, 0, 0, :2] * (2 if images_BCHW.sum() > 0 else 3)


def test_model_without_a_graph_is_refused() -> None:
    run = run_model("mlp", 16)
    other = RunModel(run.folder, run.config, run.description, "last", (), Undecided())
    with pytest.raises(UserError, match="this model cannot be exported as a graph: "):
        graph(other).program()
