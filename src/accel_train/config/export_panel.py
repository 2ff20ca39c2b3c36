"""The options of the command `export`."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from accel_train.config.fields import Config, Name, OutputFolder, PositiveInt, UserName, UserPath
from accel_train.errors import UserError


class ExportConfig(Config):
    """How to hand on the model of a run."""

    panel = "Export"

    format: Literal["onnx", "torch-export", "safetensors"] = "onnx"
    """onnx; torch-export: a .pt2 file for torch.export.load; safetensors: weights and config.json for timm or
    torchvision."""
    output: OutputFolder | None = None
    """Folder to write to. Default: RUN/export/FORMAT."""
    with_preprocessing: bool = False
    """Let the model take 8-bit pictures of any size and return probabilities: cropping, resizing and normalisation
    become part of it."""
    half: bool = False
    """Store and compute in 16 bits (fp16); input and output remain fp32."""
    batch_size: PositiveInt | None = None
    """Fix the number of images of a batch. Default: any number."""
    opset: Annotated[int | None, Field(ge=18, le=23)] = None
    """Version of ONNX's operators. Default: 20."""
    check: bool = False
    """Run what was written, on up to 64 of the run's validation images, and print the largest difference."""
    data: UserName | None = None
    """Data to --check on, as for evaluate. Default: the run's."""
    data_dir: UserPath | None = None
    """Folder of data sets, as for train."""
    weights: Literal["last", "best"] | None = None
    """Weights of the last epoch, or of the best one. Default: last, or best if the run has not finished."""
    model: Name | None = None
    """my.module:function, if the run's model is your own. A run folder is not trusted to name code."""

    @model_validator(mode="after")
    def _refuse_what_has_no_effect(self) -> Self:
        if self.opset is not None and self.format != "onnx":
            raise UserError(f"--opset has no effect on --format {self.format}", "leave it out, or use --format onnx")
        if self.format == "safetensors":
            for name in ("with_preprocessing", "batch_size", "check"):
                if getattr(self, name):
                    raise UserError(
                        f"--{name.replace('_', '-')} has no effect on --format safetensors: it holds weights only",
                        "leave it out, or use --format onnx or torch-export",
                    )
        for option, value in (("--data", self.data), ("--data-dir", self.data_dir)):
            if value is not None and not self.check:
                raise UserError(f"{option} has no effect without --check", "add --check, or leave it out")
        return self
