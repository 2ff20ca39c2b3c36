"""torchvision's weights are found by name, with the preprocessing of the images that they were trained on."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision
from timm.data import ImageNetInfo

from accel_train.errors import UserError
from accel_train.models import download, torchvision_weights
from accel_train.models.base import Preprocessing, Weights
from accel_train.models.build import build_model, model_names, published_weights
from accel_train.models.pretrained import load_initial

MEAN, STD, HALF = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), (0.5, 0.5, 0.5)


def fetched(name: str, weights: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> Weights:
    """Return weights by name, as if a file were theirs."""
    monkeypatch.setattr(torchvision_weights, "download", lambda url, folder: file)
    return published_weights(name)[weights]()


def test_weights_have_the_names_that_torchvision_gives_them_its_default_first() -> None:
    assert list(published_weights("resnet50")) == ["DEFAULT", "IMAGENET1K_V1", "IMAGENET1K_V2"]
    assert list(published_weights("vgg16")) == ["DEFAULT", "IMAGENET1K_V1"]  # others have no classes
    assert published_weights("cnn") == {}


def test_every_classifier_of_torchvision_has_weights_with_a_checksum() -> None:
    names = [name for name in model_names() if name in torchvision.models.list_models()]
    assert len(names) > 70
    for name in names:
        assert "DEFAULT" in published_weights(name), name
        for entry in torchvision.models.get_model_weights(name):
            assert download._SHA256.search(entry.url), entry.url


def test_preprocessing_is_that_of_the_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = fetched("resnet18", "IMAGENET1K_V1", tmp_path, monkeypatch)
    assert weights.name == f"IMAGENET1K_V1 of resnet18 ({tmp_path})"
    assert weights.preprocessing == Preprocessing(224, MEAN, STD, "bilinear", crop=224 / 256, fit="crop")
    assert weights.classes
    assert (len(weights.classes), weights.classes[0]) == (1000, "tench")
    weights = fetched("efficientnet_b0", "DEFAULT", tmp_path, monkeypatch)
    assert weights.preprocessing == Preprocessing(224, MEAN, STD, "bicubic", crop=224 / 256, fit="crop")
    weights = fetched("vit_b_16", "IMAGENET1K_SWAG_E2E_V1", tmp_path, monkeypatch)
    assert weights.preprocessing == Preprocessing(384, MEAN, STD, "bicubic", crop=1.0, fit="crop")


def test_folders_of_imagenet_are_the_classes_of_its_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are called by WordNet ids; torchvision's categories are words."""
    weights = fetched("resnet18", "DEFAULT", tmp_path, monkeypatch)
    folders = tuple(ImageNetInfo("imagenet-1k").label_names())
    assert (folders[0], folders[-1]) == ("n01440764", "n15075141")
    assert weights.classes
    assert weights.may_be_for(folders)
    assert weights.may_be_for(weights.classes)
    assert not weights.may_be_for(folders[::-1])
    assert not weights.may_be_for(tuple(map(str, range(1000))))


def test_normalisation_that_torchvision_leaves_to_the_model_is_done_with_the_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """googlenet renormalises its input if it has weights; both ways are the same numbers."""
    weights = fetched("googlenet", "DEFAULT", tmp_path, monkeypatch)
    assert weights.preprocessing
    assert (weights.preprocessing.mean, weights.preprocessing.std) == (HALF, HALF)
    model = torchvision.models.googlenet(weights=None, transform_input=True, init_weights=False)
    pixels = torch.rand(1, 3, 8, 8)
    normalise = torchvision.transforms.functional.normalize
    theirs = model._transform_input(normalise(pixels, list(MEAN), list(STD)))
    torch.testing.assert_close(theirs, normalise(pixels, list(HALF), list(HALF)))


def test_weights_are_loaded_with_another_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = torchvision.models.resnet18(weights=None).state_dict()
    torch.save(tensors, tmp_path / "a.pth")
    built = build_model("resnet18", classes=5, channels=3, data_size=64, image_size=64)
    weights = fetched("resnet18", "DEFAULT", tmp_path / "a.pth", monkeypatch)
    assert load_initial(built.module, weights, 64)[1:] == ("head fc replaced: 1,000 → 5 classes",)
    live = built.module.state_dict()
    assert all(torch.equal(live[name], tensors[name]) for name in live if not name.startswith("fc."))


def test_names_in_the_files_of_densenets_are_brought_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = "features.denseblock1.denselayer1"
    torch.save({f"{layer}.norm.1.weight": torch.ones(1), f"{layer}.conv.2.weight": torch.ones(1)}, tmp_path / "a.pth")
    weights = fetched("densenet121", "DEFAULT", tmp_path / "a.pth", monkeypatch)
    assert list(weights.read(64)) == [f"{layer}.norm1.weight", f"{layer}.conv2.weight"]


def test_position_embeddings_are_resized(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = torch.rand(1, 1 + 7 * 7, 768)
    torch.save({"encoder.pos_embedding": stored}, tmp_path / "a.pth")
    weights = fetched("vit_b_32", "DEFAULT", tmp_path / "a.pth", monkeypatch)
    assert torch.equal(weights.read(224)["encoder.pos_embedding"], stored)
    resized = weights.read(96)["encoder.pos_embedding"]
    assert resized.shape == (1, 1 + 3 * 3, 768)
    assert torch.equal(resized[:, 0], stored[:, 0])


class Trap:
    """Creates a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.mkdir, (self.folder,)


def test_pickle_in_the_cache_never_runs_even_if_its_checksum_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    file = tmp_path / "hub/checkpoints/any.pth"
    file.parent.mkdir(parents=True)
    torch.save({"fc.weight": Trap(tmp_path / "sprung")}, file)
    digits = hashlib.sha256(file.read_bytes()).hexdigest()[:8]
    file.rename(file.with_name(f"resnet18-{digits}.pth"))
    entry = torchvision.models.ResNet18_Weights.DEFAULT
    monkeypatch.setattr(type(entry), "url", f"https://nowhere/resnet18-{digits}.pth")
    weights = published_weights("resnet18")["DEFAULT"]()
    with pytest.raises(UserError, match="contains more than tensors"):
        weights.read(224)
    assert not (tmp_path / "sprung").exists()
