"""Writes the report of a run from what its folder holds, and from its data if they are still there."""

import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from accel_train.checkpoints.run_folder import Description, is_finished, read_description
from accel_train.config.fields import expand_home
from accel_train.config.import_string import is_function_name, trusted
from accel_train.config.load import read_config
from accel_train.config.options import EvaluateConfig, ReportConfig, ResolvedConfig
from accel_train.data.contents import contents_of
from accel_train.data.open import is_folder, is_path, open_data, refuse_unused_directory
from accel_train.data.sources.base import DataSet, LabelsFrom
from accel_train.errors import UserError
from accel_train.history.files import CONFIG, PREDICTIONS, REPORT, WEIGHTS
from accel_train.metrics.predictions import Predictions, read_predictions, write_predictions
from accel_train.run.bad_images import read_bad_images, without
from accel_train.run.evaluate import evaluate
from accel_train.run.report import stored_predictions, write_report
from accel_train.run.report_pictures import Images
from accel_train.system.atomic_files import refuse_unwritable
from accel_train.system.os_errors import cannot_write
from accel_train.system.run_around import run_that_writes

_EVALUATED = ("data", "labels", "data_dir", "model", "device")
"""Options of a report that are those of an evaluation."""


@dataclass
class StoredReport:
    """The report of a run folder, and what cannot be told in it."""

    folder: Path
    config: ReportConfig
    path: Path = field(init=False)
    notes: Sequence[str] = ()
    """Sentences for the reader of the report, and for the user."""

    def __post_init__(self) -> None:
        """Read what the folder holds.

        Raises:
            UserError: it is no run's, the report cannot be written, or --data-dir has no effect.
        """
        self.folder = expand_home(self.folder)
        self._description: Description = read_description(self.folder)
        self._trained_by = read_config(self.folder / CONFIG, ResolvedConfig)
        self.path = self.config.output or self.folder / REPORT
        refuse_unwritable(self.path, "--output", of_run=REPORT)
        if (run := run_that_writes(self.path)) and not run.samefile(self.folder):
            raise UserError(f"--output {self.path} is the report of another run, {run}", "give another --output")
        data = self.config.data or self._trained_by.data
        names_code = is_function_name(data) and not self.config.data
        if not (names_code or _is_gone(data)):
            refuse_unused_directory(data, self.config.data_dir)

    def write(self) -> None:
        """Write the page; predict the validation images first if the run has not.

        Raises:
            UserError: what the folder holds is damaged, or the page cannot be written.
        """
        predictions, weights = self._predictions()
        try:
            data = self._data()
            images = Images(self._trained_by, data, self._description)
        except UserError as error:
            images = None
            self._note("there are no pictures", error)
        try:
            self.notes = write_report(self.path, self.folder, predictions, images, weights=weights, notes=self.notes)
        except OSError as error:
            raise cannot_write(self.path, "--output", error) from None

    def _note(self, lacking: str, error: UserError) -> None:
        self.notes = [*self.notes, f"{lacking}: {error.message}; {error.hint}"]

    def _predictions(self) -> tuple[Predictions | None, str]:
        """Return the predictions for the validation images, and the weights that they are of."""
        finished = is_finished(self.folder)  # else its predictions are of earlier weights
        if finished and (stored := stored_predictions(self.folder, self._description)):
            return stored, "last"
        if not any((self.folder / name).exists() for name in WEIGHTS.values()):
            return None, ""
        values = {name: value for name in _EVALUATED if (value := getattr(self.config, name)) is not None}
        with tempfile.TemporaryDirectory() as temporary:
            path = Path(temporary, PREDICTIONS)
            try:
                found = evaluate(self.folder, EvaluateConfig(**values, predictions=path))
            except UserError as error:
                self._note("there are no predictions", error)
                return None, ""
            predictions = read_predictions(path, self._description.classes)
        if found.weights == "last" and not self.config.data:
            with suppress(OSError):  # the folder may be somebody else's
                write_predictions(self.folder / PREDICTIONS, predictions)
        return predictions, found.weights

    def _data(self) -> DataSet:
        """Return the images that the run was trained on.

        Raises:
            UserError: they are not found, are others now, or are made by code that the user has not named.
        """
        trained_by, given = self._trained_by, self.config
        if is_function_name(trained_by.data):
            trusted(trained_by.data, given.data, "--data", self.folder)
        data = given.data or trained_by.data
        elsewhere = UserError("the data are not those of the run", "give them as --data PATH")
        if _is_gone(data):
            raise UserError(f"{data} is not found from {Path.cwd()}", elsewhere.hint)
        found = open_data(
            data,
            directory=given.data_dir or trained_by.data_dir,
            val_fraction=trained_by.val_fraction,
            seed=trained_by.seed,
            limit=trained_by.limit,
            labels=LabelsFrom(given.labels or trained_by.labels, trained_by.label_column),
            download=given.data_dir is not None or trained_by.data_dir is None,
        )
        found = without(found, read_bad_images(self.folder), trained_by.limit)
        if contents_of(found) != self._description.contents:
            raise elsewhere
        model = self._description
        return replace(found, mean=model.mean, std=model.std, interpolation=model.interpolation)


def _is_gone(data: str) -> bool:
    """Return whether a data set is a folder that is not found from here."""
    return is_path(data) and not is_folder(data)
