"""The result of an evaluation."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class ClassResult:
    """How well a class is recognized."""

    name: str
    images: int
    predicted: int  # images taken for it
    correct: int
    precision: float | None  # None if it is never predicted
    recall: float | None  # None if it has no images
    f1: float | None  # None if neither


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """The images whose prediction has a probability between two values."""

    lower: float
    upper: float
    images: int
    confidence: float | None  # mean probability of the predictions; None if there are no images
    accuracy: float | None


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The result of evaluating a model, each image counted once."""

    kind: ClassVar[str] = "evaluation"
    run_folder: str
    weights: str
    data: str
    split: str  # val or test
    images: int
    classes: int
    loss: float
    accuracy: float
    accuracy_interval: tuple[float, float]  # 95 %, Wilson; likewise of top5
    balanced_accuracy: float  # mean accuracy of the classes that have images
    top5: float  # top-5 accuracy; 1 if there are at most five classes
    top5_interval: tuple[float, float]
    ece: float  # expected calibration error
    mean_confidence: float  # mean probability of the predictions
    per_class: tuple[ClassResult, ...]
    confusion: tuple[tuple[int, ...], ...]  # images by label (rows) and prediction (columns)
    reliability: tuple[ReliabilityBin, ...]
    notes: tuple[str, ...]  # messages about weights and data for the user
