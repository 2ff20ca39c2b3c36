"""Suggests the name that a user may have meant."""

import difflib
import re
from collections.abc import Collection, Iterable

OPTIONS = {
    "a": "model",
    "annotations": "labels",
    "aa": "rand-augment",
    "arch": "model",
    "amp": "precision",
    "auto-augment": "rand-augment",
    "b": "batch-size",
    "batch": "batch-size",
    "bn-momentum": "batch-norm-momentum",
    "bs": "batch-size",
    "checkpoint": "resume",
    "classes": "data",
    "config-file": "config",
    "cpu": "device",
    "ckpt": "resume",
    "crop-mode": "fit",
    "crop-pct": "eval-crop",
    "crop-size": "image-size",
    "csv": "labels",
    "dataset": "data",
    "data-path": "data",
    "degrees": "rotate",
    "deterministic": "exact",
    "dist-backend": "backend",
    "early-stopping": "patience",
    "ema-decay": "ema",
    "erasing": "random-erasing",
    "fliplr": "flip",
    "flipud": "vertical-flip",
    "gpu": "device",
    "gpus": "processes",
    "grad-accum-steps": "accumulate",
    "gradient-accumulation-steps": "accumulate",
    "gradient-clipping": "clip-norm",
    "hflip": "flip",
    "img-size": "image-size",
    "init-from": "weights",
    "initial-checkpoint": "weights",
    "j": "workers",
    "jobs": "workers",
    "label-file": "labels",
    "learning-rate": "lr",
    "lr-max": "max-lr",
    "lr-scheduler": "schedule",
    "lr-schedule": "schedule",
    "max-epochs": "epochs",
    "max-grad-norm": "clip-norm",
    "mixed-precision": "precision",
    "network": "model",
    "nproc": "processes",
    "nproc-per-node": "processes",
    "num-epochs": "epochs",
    "num-gpus": "processes",
    "num-processes": "processes",
    "num-workers": "workers",
    "o": "output",
    "opt": "optimizer",
    "out": "output",
    "output-dir": "output",
    "pad": "shift",
    "padding": "shift",
    "pretrained": "weights",
    "ra-magnitude": "rand-augment",
    "random-erase": "random-erasing",
    "ratio": "crop-ratio",
    "reprob": "random-erasing",
    "restore": "resume",
    "run-folder": "output",
    "save-dir": "output",
    "scale": "crop-scale",
    "scheduler": "schedule",
    "smoothing": "label-smoothing",
    "sync-bn": "batch-size",
    "train-batch-size": "batch-size",
    "val-split": "val-fraction",
    "vflip": "vertical-flip",
    "wd": "weight-decay",
    "world-size": "processes",
    "zero-gamma": "zero-init-residual",
    "zero-init-last": "zero-init-residual",
}
"""Names that options of ours have in other trainers."""

VALUES = {
    "16": "fp16",
    "16-mixed": "fp16",
    "32": "fp32",
    "64": "fp64",
    "adam": "adamw",
    "amp": "bf16",
    "autoaugment": "strong",
    "bf16-mixed": "bf16",
    "bfloat16": "bf16",
    "cosine-annealing": "cosine",
    "distributed": "ddp",
    "double": "fp64",
    "float16": "fp16",
    "float32": "fp32",
    "float64": "fp64",
    "fp8": "bf16",
    "fsdp": "fsdp2",
    "full": "fp32",
    "gpu": "cuda",
    "half": "fp16",
    "heavy": "strong",
    "mixed": "bf16",
    "momentum": "sgd",
    "multistep": "step",
    "nesterov": "sgd",
    "no": "none",
    "nvidia": "cuda",
    "off": "none",
    "one-cycle": "cosine",
    "poly": "linear",
    "randaugment": "strong",
    "skip": "rollback",
    "square-root": "sqrt",
    "trivialaugment": "strong",
    "weak": "light",
}
"""Names that values of ours have in other trainers."""

COMMANDS = {
    "benchmark": "bench",
    "classify": "predict",
    "cluster": "job",
    "convert": "pack",
    "deploy": "export",
    "diagnose": "doctor",
    "diff": "compare",
    "env": "doctor",
    "eval": "evaluate",
    "fit": "train",
    "history": "runs",
    "infer": "predict",
    "inference": "predict",
    "kubernetes": "job",
    "list": "runs",
    "ls": "runs",
    "prepare": "pack",
    "presets": "recipes",
    "profile": "bench",
    "repeat": "replay",
    "resume": "train",
    "run": "train",
    "sagemaker": "job",
    "save": "export",
    "sbatch": "job",
    "show": "preview",
    "slurm": "job",
    "speed": "bench",
    "submit": "job",
    "summary": "report",
    "test": "evaluate",
    "val": "evaluate",
    "validate": "evaluate",
    "visualize": "preview",
}
"""Names that commands of ours have in other programs."""

_MOST = 3


def suggestions(name: str, known: Iterable[str], synonyms: dict[str, str] | None = None) -> list[str]:
    """Return the known names closest to a wrong one, the best first: at most three, none if nothing is close.

    The first of these that is found: the name in another case or with other dashes; a synonym; names that begin with
    it, such as a plural; a name of similar letters.
    """
    key = _key(name)
    by_key = {_key(each): each for each in known}
    others = {_key(other): meant for other, meant in (synonyms or {}).items() if meant in by_key.values()}
    if sure := by_key.get(key) or others.get(key):
        return [sure]
    longer = sorted(
        (each for each in by_key if len(key) > 1 and each.startswith(key)), key=lambda each: (len(each), each)
    )
    similar = difflib.get_close_matches(key, by_key, n=1, cutoff=0.7)
    return [by_key[each] for each in (longer or similar)[:_MOST]]


def did_you_mean(names: Collection[str], otherwise: str) -> str:
    """Return a hint that names what the user may have meant, or another hint if that is nothing."""
    return f"did you mean {' or '.join(names)}?" if names else otherwise


def _key(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
