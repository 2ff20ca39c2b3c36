"""A data set is found by its name, and options without effect are rejected."""

from pathlib import Path

import pytest
from helpers.tiny_mnist import tiny_mnist

from accel_train.data.open import PUBLISHED, open_data, refuse_unused_directory
from accel_train.data.sources.base import DataSet, View
from accel_train.errors import UserError


def opened(name: str, *, val_fraction: float | None = None, limit: int | None = None) -> DataSet:
    return open_data(name, directory=None, val_fraction=val_fraction, seed=0, limit=limit)


def refusal(name: str, val_fraction: float | None = None) -> tuple[str, str]:
    with pytest.raises(UserError) as caught:
        opened(name, val_fraction=val_fraction)
    return caught.value.message, caught.value.hint


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("cifr10", "did you mean cifar10?"),
        ("fashion_mnist", "did you mean fashion-mnist?"),
        ("sythetic", "did you mean synthetic?"),
        ("/no/where", f"give a folder that exists, from {Path.cwd()}"),
        (
            "nowhere",
            "choose digits, fashion-mnist, mnist, kmnist, cifar10, cifar100, svhn, synthetic, a folder, "
            "hf:NAME or my.module:function",
        ),
    ],
)
def test_unknown_name_is_rejected_with_a_similar_one_or_all(name: str, hint: str) -> None:
    assert refusal(name) == (f"--data {name}: neither a known data set nor a folder", hint)


@pytest.mark.parametrize("name", ["digits", "synthetic", "data_of_mine:items"])
def test_val_fraction_without_effect_is_rejected(name: str) -> None:
    message, _ = refusal(name, val_fraction=0.2)
    assert message == f"--val-fraction has no effect on {name}, which has its own validation images"


def test_limit_applies_to_both_splits() -> None:
    data = opened("synthetic:100,1,4,4,10", limit=15)
    assert (len(data.train), len(data.val)) == (15, 15)
    assert data.train.read([1], None, View(4, random_crop=False))[1].tolist() == [6]  # 100 / 15


def test_path_that_cannot_be_followed_is_rejected() -> None:
    name = "x" * 5000
    assert refusal(name) == (f"--data {name}: File name too long", "give the path of a folder that you may read")


def test_folder_is_opened_by_its_path(tmp_path: Path) -> None:
    assert refusal(str(tmp_path))[0] == f"{tmp_path} holds no class folders"


@pytest.mark.parametrize("name", ["digits", "fashion-mnist"])
def test_known_name_is_not_taken_for_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).mkdir()
    files = tmp_path / "files"
    files.mkdir()
    for file, content in tiny_mnist().items():
        (files / file).write_bytes(content)
    assert name in PUBLISHED
    assert open_data(name, directory=files, val_fraction=None, seed=0, limit=None).kind == name


FUNCTIONS = """
def plain(seed=0): ...
def placed(data_dir=None): ...
def any_of_them(**options): ...
"""


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a module of functions in the current folder."""
    monkeypatch.chdir(tmp_path)
    name = f"data_{tmp_path.name}"
    Path(f"{name}.py").write_text(FUNCTIONS)
    return name


@pytest.mark.parametrize("name", ["digits", "synthetic:9,1,4,4,3", "photos"])
def test_folder_for_data_that_are_not_downloaded_is_rejected(functions: str, name: str) -> None:
    Path("photos").mkdir()
    refuse_unused_directory(name, None)
    with pytest.raises(UserError) as caught:
        refuse_unused_directory(name, Path("my sets"))
    assert caught.value.message == f"--data-dir 'my sets' has no effect on {name}, which is not downloaded to it"
    assert caught.value.hint == "leave it out, or give a folder of pictures as --data 'my sets'"


def test_folder_for_data_of_the_hub_is_rejected_with_the_variable_to_set() -> None:
    with pytest.raises(UserError, match="has no effect on hf:mnist, which is not downloaded to it") as caught:
        refuse_unused_directory("hf:mnist", Path("sets"))
    assert "HF_HOME" in caught.value.hint


def test_folder_for_a_function_is_rejected_unless_it_takes_one(functions: str) -> None:
    for name in ("placed", "any_of_them"):
        refuse_unused_directory(f"{functions}:{name}", Path("sets"))
    refuse_unused_directory(f"{functions}:plain", None)
    with pytest.raises(UserError, match=f"^--data-dir sets has no effect on {functions}:plain, which does not take it"):
        refuse_unused_directory(f"{functions}:plain", Path("sets"))


@pytest.mark.parametrize("name", sorted(PUBLISHED.keys() - {"digits"}))
def test_folder_for_data_that_are_downloaded_is_accepted(name: str) -> None:
    refuse_unused_directory(name, Path("sets"))
