"""A program that classifies pictures with an export, and does not need accel_train."""

from dataclasses import asdict

from accel_train.export.graph import PICTURES, Graph
from accel_train.export.preprocessing import Preprocessing

NAME = "example.py"
_PROGRAM = '''"""Classify pictures: python {file} PICTURE..."""

import json
import sys
from pathlib import Path

import numpy as np
import {library}
from PIL import Image, ImageOps

folder = Path(__file__).parent
classes = json.loads((folder / "preprocessing.json").read_text("utf-8"))["classes"]
{load}
for path in sys.argv[1:]:
    picture = ImageOps.exif_transpose(Image.open(path)).convert("RGBA")
    picture = Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture).convert("RGB")
{lines}
    best = probabilities.argmax()
    print(f"{{path}}: {{classes[best]}} {{probabilities[best]:.4f}}")
'''
_LIBRARIES = {"onnx": "onnxruntime", "torch-export": "torch"}
_LOAD = {
    "onnx": 'session = onnxruntime.InferenceSession(folder / "model.onnx")',
    "torch-export": 'model = torch.export.load(folder / "model.pt2").module()',
}
_CALL = {
    "onnx": '{result} = session.run(None, {{"{input}": {input}}})[0][0]',
    "torch-export": "{result} = model(torch.from_numpy({input}))[0].numpy()",
}
_FIT = {
    "crop": [
        "side = max(1, round(min(picture.size) * {crop!r}))",
        "left, top = (picture.width - side) // 2, (picture.height - side) // 2",
        "box = (left, top, left + side, top + side)",
        "picture = picture.crop(box).resize(({size}, {size}), Image.Resampling.{filter})",
    ],
    "pad": [
        "sides = [max(1, round(side * {size} / max(picture.size))) for side in picture.size]",
        "fitted = picture.resize(sides, Image.Resampling.{filter})",
        'picture = Image.new("RGB", ({size}, {size}))',
        "picture.paste(fitted, (({size} - sides[0]) // 2, ({size} - sides[1]) // 2))",
    ],
    "squash": ["picture = picture.resize(({size}, {size}), Image.Resampling.{filter})"],
}
_NORMALISE = [
    "image = np.array(picture, np.float32).reshape({size}, {size}, -1) / 255",
    "image = ((image - {mean}) / {std}).astype(np.float32).transpose(2, 0, 1)",
]
_ENLARGE = [
    "sides = ({input_size}, {input_size})",
    "image = np.stack([Image.fromarray(each).resize(sides, Image.Resampling.{filter}) for each in image.copy()])",
]
_SOFTMAX = ["exponentials = np.exp(logits - logits.max())", "probabilities = exponentials / exponentials.sum()"]


def program(kind: str, graph: Graph, steps: Preprocessing) -> str:
    """Return the program for a graph in the format `kind`: what the graph does not do, it does with Pillow."""
    whole = graph.input_name == PICTURES
    lines = [] if whole else _lines(steps)
    lines += [f"{graph.input_name} = np.stack([{'picture' if whole else 'image'}] * {graph.batch_size or 1})"]
    lines += [_CALL[kind].format(input=graph.input_name, result=graph.output_name)]
    lines += [] if whole else _SOFTMAX
    indented = "\n".join(f"    {line}" for line in lines)
    return _PROGRAM.format(file=NAME, library=_LIBRARIES[kind], load=_LOAD[kind], lines=indented)


def _lines(steps: Preprocessing) -> list[str]:
    """Return the lines from a picture to the image that the model takes."""
    lines = [*_FIT[steps.fit], *['picture = picture.convert("L")'] * steps.grey, *_NORMALISE]
    lines += _ENLARGE * (steps.size != steps.input_size)
    if len(steps.mean) != steps.input_channels:
        lines += ["image = np.repeat(image, {input_channels}, axis=0)"]
    values = {**asdict(steps), "mean": list(steps.mean), "std": list(steps.std), "filter": steps.interpolation.upper()}
    return [line.format(**values) for line in lines]
