"""Exports on the command line: files that other programs use, checks, and what is refused."""

import re
import shutil
import sys

import numpy as np
import pytest
import torch
from helpers.exports import photographs
from helpers.runner import Runner
from PIL import Image

import accel_train

PROGRAM_ALONE = (
    "import runpy, sys; sys.modules['accel_train'] = None; runpy.run_path(sys.argv.pop(1), run_name='__main__')"
)
"""Runs the program after it, which cannot import accel_train."""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """Return a folder with runs of photographs and of the digits."""
    folder = tmp_path_factory.mktemp("trained")
    random = np.random.default_rng(0)
    for name, pixels_HWC in zip(("china", "flower"), photographs(), strict=True):
        for number in range(10):
            height, width = random.integers(24, 48, 2) * (1 if number else 5)  # JPEGs that training reads at a fraction
            top, left = random.integers(0, 300, 2)
            path = folder / "photos" / ("val" if number < 4 else "train") / name / f"{number}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels_HWC[top : top + height, left : left + width]).save(path)
    run = Runner(folder)
    small = ("--epochs", "2", "--batch-size", "4", "--device", "cpu")
    ended = run("train", "--data", "photos", "--model", "mlp", "--image-size", "24", *small, "--output", "of photos")
    assert ended.code == 0, ended.err
    ended = run("train", "--model", "cnn", "--limit", "100", *small, "--output", "digits")
    assert ended.code == 0, ended.err
    return run


def predicted(run: Runner, name: str, *pictures: str) -> list[list[str]]:
    """Return picture, class and probability of each picture, as `predict` gives them."""
    ended = run("predict", name, *pictures, "--csv", "predicted.csv", "--device", "cpu")
    assert ended.code == 0, ended.err
    lines = (run.folder / "predicted.csv").read_text().splitlines()[1:]
    return [line.split(",")[:3] for line in lines]


def test_onnx_with_preprocessing_predicts_as_we_do_without_us(trained: Runner) -> None:
    ended = trained("export", "of photos", "--with-preprocessing", "--check")
    assert ended.code == 0, ended.err
    first, *_, check, last = ended.out.splitlines()
    assert first.startswith("'of photos/export/onnx/model.onnx': the last weights, ")
    assert re.fullmatch(
        r"check: 8 images in onnxruntime [\d.]+: probabilities differ by at most \d\.\de-\d\d; all classes are equal",
        check,
    )
    program = trained.folder / "of photos" / "export" / "onnx" / "example.py"
    assert last == "next: python 'of photos/export/onnx/example.py' PICTURE"
    assert len(program.read_text().splitlines()) < 25
    pictures = sorted(str(path.relative_to(trained.folder)) for path in trained.folder.glob("photos/val/*/*.jpg"))
    used = trained.program([sys.executable, "-c", PROGRAM_ALONE, str(program), *pictures])
    assert used.code == 0, used.err
    found = [re.fullmatch(r"(.*): (\w+) ([\d.]+)", line).groups() for line in used.out.splitlines()]
    ours = predicted(trained, "of photos", *pictures)
    for (name, label, share), (_, expected, probability) in zip(found, ours, strict=True):
        assert label == expected, name
        assert abs(float(share) - float(probability)) < 1e-3


def test_torch_export_of_digits_predicts_as_we_do(trained: Runner) -> None:
    ended = trained("export", "digits", "--format", "torch-export", "--check", "--json")
    assert ended.code == 0, ended.err
    (record,) = ended.records
    assert record["files"] == [
        f"digits/export/torch-export/{name}" for name in ("model.pt2", "example.py", "preprocessing.json")
    ]
    assert record["input"] == {"name": "images", "dtype": "float32", "shape": ["batch", 1, 8, 8]}
    assert record["check"]["agrees"]
    assert record["check"]["difference"] < 1e-4
    picture = next(trained.folder.glob("photos/val/*/*.jpg"))
    used = trained.script(record["files"][1], picture, processes=1)
    assert used.code == 0, used.err
    ((_, label, probability),) = predicted(trained, "digits", str(picture))
    name, share = used.out.split()[-2:]
    assert name == label
    assert abs(float(share) - float(probability)) < 2e-2  # Pillow rounds otherwise


def test_exported_run_can_be_resumed_and_loaded(trained: Runner) -> None:
    shutil.copytree(trained.folder / "digits", trained.folder / "again")
    assert trained("export", "again", "--format", "safetensors").code == 0
    ended = trained("train", "--resume", "again", "--epochs", "3")
    assert ended.code == 0, ended.err
    assert (trained.folder / "again" / "export" / "safetensors" / "model.safetensors").is_file()
    loaded = accel_train.load(trained.folder / "again")
    assert loaded.classes == tuple("0123456789")
    picture = next(trained.folder.glob("photos/val/*/*.jpg"))
    with torch.no_grad():
        probabilities = loaded.model(loaded.preprocess(picture)[None]).softmax(dim=1)[0]
    ((_, label, probability),) = predicted(trained, "again", str(picture))
    assert loaded.classes[probabilities.argmax()] == label
    assert abs(float(probabilities.max()) - float(probability)) < 1e-6


def test_check_that_finds_a_difference_fails(trained: Runner) -> None:
    code = (
        "import accel_train.export.check as check; check._TOLERANCES['logits'] = -1.0;"
        "from accel_train.cli.app import main; import sys;"
        "sys.argv[1:] = 'export digits --format torch-export --check'.split(); main()"
    )
    ended = trained.script("-c", code, processes=1)
    assert ended.code == 1, ended.err
    assert "more than the -1.0e+00 that are tolerated; all classes are equal" in ended.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--format tflite", "--format tflite"),
        ("--opset 17", "--opset 17"),
        ("--format torch-export --opset 20", "--opset has no effect on --format torch-export"),
        ("--format safetensors --check", "--check has no effect on --format safetensors: it holds weights only"),
        ("--data photos", "--data has no effect without --check"),
        ("--data-dir photos", "--data-dir has no effect without --check"),
        ("--output /proc/export", "cannot write /proc/export: No such file or directory"),
        ("--output digits", "--output digits is in the folder of the run "),
        (
            "--output photos/val/china/0.jpg",
            "cannot write to photos/val/china/0.jpg: photos/val/china/0.jpg is no folder",
        ),
        ("--check --data missing", "--data missing: neither a known data set nor a folder"),
        (
            "--format safetensors --weights best --model my.nets:build",
            "--model my.nets:build, but that of digits is cnn",
        ),
    ],
)
def test_mistake_is_an_error_with_a_hint(trained: Runner, options: str, message: str) -> None:
    before = sorted((trained.folder / "digits").iterdir())
    ended = trained("export", "digits", *options.split())
    assert ended.code == 2
    assert f"error: {message}" in ended.err
    assert ended.err.count("hint: ") == 1
    assert sorted((trained.folder / "digits").iterdir()) == before


def test_link_in_a_run_folder_is_not_followed(trained: Runner) -> None:
    shutil.copytree(trained.folder / "digits", trained.folder / "planted", ignore=shutil.ignore_patterns("export"))
    (trained.folder / "elsewhere").mkdir()
    (trained.folder / "planted" / "export").symlink_to(trained.folder / "elsewhere")
    ended = trained("export", "planted")
    assert ended.code == 2
    assert "error: planted/export is a link" in ended.err
    assert not list((trained.folder / "elsewhere").iterdir())
