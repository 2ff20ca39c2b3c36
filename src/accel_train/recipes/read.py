"""Finds the recipes, and reads their heads and their options."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel_train.config.defaults import kind_of_data
from accel_train.config.load import read_yaml
from accel_train.config.suggest import did_you_mean, suggestions
from accel_train.errors import UserError

_FOLDER = Path(__file__).parent
HEAD = ("command", "hardware", "time", "accuracy", "measured")
"""What the head of each recipe tells, one comment a line, after a paragraph of what it does."""
ORIGIN = "recipe "
"""Start of the origin of a recipe's values."""
_FILES = (".yaml", ".yml")


@dataclass(frozen=True)
class Recipe:
    """A run config of this package."""

    name: str
    text: str
    """Its YAML file."""

    @property
    def origin(self) -> str:
        """Where its values come from, as the origin of each."""
        return f"{ORIGIN}{self.name}"

    @property
    def about(self) -> str:
        """What it does: the first paragraph of its head."""
        return " ".join(self._comments[: self._comments.index("")])

    @property
    def head(self) -> dict[str, str]:
        """What its head tells, by the keys of :data:`HEAD`."""
        told = (line.partition(":") for line in self._comments)
        return {key: value.strip() for key, _, value in told if key in HEAD}

    @property
    def measured_on(self) -> str:
        """The date on which its head was measured; empty if it was not."""
        date, _, _ = self.head["measured"].partition(",")
        return date if date[0].isdigit() else ""

    @property
    def _comments(self) -> list[str]:
        """The lines of its head, without their marks."""
        head = self.text.partition("\n\n")[0]
        return [line.removeprefix("#").strip() for line in head.splitlines()]

    def values(self, fields: set[str]) -> dict[str, Any]:
        """Return its options; `fields` are those of the config."""
        return read_yaml(_FOLDER / f"{self.name}.yaml", fields)


def lacks_data(data: str, origin: str) -> bool:
    """Return whether the data that a recipe names are a folder which the user has to give."""
    return origin.startswith(ORIGIN) and kind_of_data(data)[0] == "folder" and not Path(data).exists()


def refuse_missing_data(data: str, origin: str) -> None:
    """Refuse data that a recipe leaves to the user, if they have not been given.

    Raises:
        UserError: they have not.
    """
    if lacks_data(data, origin):
        raise UserError(f"the data of {origin} are not in the package", "add --data DIR, a folder of pictures")


def names() -> list[str]:
    """Return the names of the recipes."""
    return sorted(path.stem for path in _FOLDER.glob("*.yaml"))


def find(name: str) -> Recipe:
    """Return a recipe.

    Raises:
        UserError: there is none of this name; the hint names a similar one, or all.
    """
    known = names()
    if name not in known:
        hint = did_you_mean(suggestions(name, known), f"the recipes are {', '.join(known)}")
        if name.endswith(_FILES):
            hint = f"a file is given by --config {name}"
        raise UserError(f"there is no recipe {name}", hint)
    return Recipe(name, (_FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
