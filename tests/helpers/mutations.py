"""Mutations of files: seeded damages, links, files of other kinds, and values that a program must not believe."""

import gzip
import hashlib
import json
import os
import random
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import chdir, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_DEEP, _NESTED = "@deep@", "[" * 5000 + "]" * 5000
VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 1.5, 10**30, float("nan"), float("inf"), [], {}, [[1]], {"a": {"b": 1}}),
    *("text", "", "8", "\x1b[2J\x1b]0;x\x07\u202e", "\udcff", "x" * 100_000, _DEEP),
    *("../victim/precious", "/etc/hostname", "/dev/zero", "evil:touch", "run.evil:touch"),
)
"""What takes the place of a value; each is of another type or size than any of ours, or a name that leads outside."""
_OF_YAML = ("!!python/object/apply:os.system [touch marker]", "0x" + "f" * 5000, "1:" * 9000 + "1")


@dataclass(frozen=True)
class Place:
    """Where a mutation happens."""

    root: Path
    """A folder that may be changed."""
    name: str
    """Of a file or a folder below the root."""
    other: Path
    """A root with files of the same names but other content."""
    victim: Path
    """A folder that must not be changed."""

    @property
    def path(self) -> Path:
        return self.root / self.name


def mutate(place: Place, kind: str, seed: int) -> str:
    """Mutate a file or folder; return what was done, in a few words."""
    detail = KINDS[kind](place, random.Random(seed))
    return f"{seed}: {kind} {place.name} {detail or ''}".strip()


def _flip(place: Place, rng: random.Random) -> str | None:
    data = bytearray(_content(place)) or bytearray(1)
    at = rng.randrange(len(data))
    data[at] ^= 1 << rng.randrange(8)
    place.path.write_bytes(data)
    return f"at {at}"


def _truncate(place: Place, rng: random.Random) -> str | None:
    data = _content(place)
    place.path.write_bytes(data[: rng.randrange(len(data) or 1)])
    return None


def _extend(place: Place, rng: random.Random) -> str | None:
    place.path.write_bytes(_content(place) + rng.randbytes(rng.choice((1, 1000))))
    return None


def _replaced(make: Callable[[Place, random.Random], object]) -> Callable[[Place, random.Random], str | None]:
    def replace(place: Place, rng: random.Random) -> str | None:
        remove(place.path)
        place.path.parent.mkdir(parents=True, exist_ok=True)
        make(place, rng)
        return None

    return replace


def _listen(place: Place, rng: random.Random) -> None:
    with chdir(place.path.parent), socket.socket(socket.AF_UNIX) as server:  # a socket's path is short
        server.bind(place.path.name)


def _swap(place: Place, rng: random.Random) -> str:
    names = [name for name in all_names(place.root) if not is_within(name, place.name)]
    second = place.root / rng.choice(names)
    parked = place.root / "parked"
    place.path.rename(parked)
    second.rename(place.path)
    second.parent.mkdir(parents=True, exist_ok=True)
    parked.rename(second)
    return f"with {second.relative_to(place.root)}"


def _of_another(place: Place, rng: random.Random) -> str:
    other = place.other / place.name
    if not other.exists():
        other = place.other / rng.choice(all_names(place.other))
    remove(place.path)
    (shutil.copytree if other.is_dir() else shutil.copy)(other, place.path)
    return f"by {other.name}"


def _field(place: Place, rng: random.Random) -> str:
    """Change, remove or add a value of a JSON or YAML file; of others, do what :func:`_flip` does."""
    suffix = place.path.suffix
    with suppress(ValueError, OSError):
        if suffix == ".json":
            text, detail = _changed_json(_content(place).decode(), rng)
            place.path.write_text(text, "utf-8")
            return detail
        if suffix == ".gz":
            text, detail = _changed_json(gzip.decompress(_content(place)).decode(), rng)
            place.path.write_bytes(gzip.compress(text.encode()))
            return detail
        if suffix == ".yaml":
            text, detail = _changed_yaml(_content(place).decode(), rng)
            place.path.write_text(text, "utf-8")
            return detail
    return _flip(place, rng) or ""


def _forged(place: Place, rng: random.Random) -> str:
    """Change a value and, if a manifest contains the checksum of the file, that too."""
    detail = _field(place, rng)
    for folder in place.path.parents[: len(Path(place.name).parts)]:
        manifest = folder / "MANIFEST.json"
        if manifest.is_file() and place.path != manifest:
            record, data = json.loads(manifest.read_text()), place.path.read_bytes()
            name = place.path.relative_to(folder).as_posix()
            record["files"][name] = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
            manifest.write_text(json.dumps(record))
    return detail


def _bomb(place: Place, rng: random.Random) -> str | None:
    """Write what is small and becomes large, or takes long, when it is read."""
    name = place.path.name
    if name.endswith(".gz"):
        place.path.write_bytes(gzip.compress(bytes(2**26), 9))
    elif name.endswith(".yaml"):
        merges = rng.random() < 0.5
        lines = ["a0: &a0 {k: 1}" if merges else "a0: &a0 [x, x]"]
        item = "a{0}: &a{0} {{<<: [*a{1}, *a{1}]}}" if merges else "a{0}: &a{0} [*a{1}, *a{1}, *a{1}]"
        place.path.write_text("\n".join([*lines, *(item.format(n, n - 1) for n in range(1, 40)), "data: *a39"]))
    elif name.endswith(".json"):
        place.path.write_text(rng.choice(("[" * 2**20, "1" * 2**20, '{"format": 1' + "0" * 5000 + "}")))
    else:
        remove(place.path)
        with place.path.open("wb") as file:
            file.truncate(2**36)  # sparse
    return None


KINDS: dict[str, Callable[[Place, random.Random], str | None]] = {
    "field": _field,
    "flip": _flip,
    "forged field": _forged,
    "truncate": _truncate,
    "extend": _extend,
    "empty": lambda place, rng: place.path.write_bytes(b"") and None,
    "bomb": _bomb,
    "link to a file": _replaced(lambda place, rng: place.path.symlink_to(place.victim / "precious")),
    "link to a folder": _replaced(lambda place, rng: place.path.symlink_to(place.victim)),
    "dangling link": _replaced(lambda place, rng: place.path.symlink_to(place.victim / "new")),
    "hard link": _replaced(lambda place, rng: place.path.hardlink_to(place.victim / "precious")),
    "loop": _replaced(lambda place, rng: place.path.symlink_to(place.path.name)),
    "FIFO": _replaced(lambda place, rng: os.mkfifo(place.path)),
    "folder": _replaced(lambda place, rng: place.path.mkdir()),
    "file": _replaced(lambda place, rng: place.path.write_bytes(rng.randbytes(100))),
    "socket": _replaced(_listen),
    "no permission": lambda place, rng: place.path.chmod(0),
    "missing": _replaced(lambda place, rng: None),
    "swap": _swap,
    "of another": _of_another,
}
"""Every kind of mutation."""
OF_FOLDERS = (
    *("link to a file", "link to a folder", "dangling link", "loop", "FIFO", "folder", "file", "socket"),
    *("no permission", "missing", "swap", "of another"),
)
"""Those that a folder can have."""
PLANTED = ("link to a file", "link to a folder", "dangling link", "hard link", "loop", "FIFO", "folder", "file")
"""Those of a file that was not there."""


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def all_names(root: Path) -> list[str]:
    """Return all files and folders below a folder."""
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*"))


def is_within(name: str, other: str) -> bool:
    """Return whether one of two names is the other or below it."""
    return f"{name}/".startswith(f"{other}/") or f"{other}/".startswith(f"{name}/")


def fingerprint(folder: Path) -> dict[str, tuple[object, ...]]:
    """Return kind, times and content of all that a folder holds."""
    found: dict[str, tuple[object, ...]] = {}
    for path in (folder, *folder.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (status.st_mode, status.st_mtime_ns, status.st_size, content)
    return found


def _content(place: Place) -> bytes:
    return place.path.read_bytes() if place.path.is_file() else b""


def _changed_json(text: str, rng: random.Random) -> tuple[str, str]:
    root = json.loads(text)
    containers = list(_containers(root))
    container = rng.choice(containers)
    if isinstance(container, dict) and rng.random() < 0.1:
        key: Any = rng.choice(("more", "\x1b[31m", "../x"))
    else:
        key = rng.choice(list(container) if isinstance(container, dict) else range(len(container)))
    if rng.random() < 0.15 and not (isinstance(container, dict) and key not in container):
        del container[key]
        return json.dumps(root), f"without {key!r}"
    container[key] = value = rng.choice(VALUES)
    return json.dumps(root).replace(f'"{_DEEP}"', _NESTED), f"{key!r} = {str(value)[:40]!r}"


def _containers(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list) and value:
        yield value
        for below in value.values() if isinstance(value, dict) else value:
            yield from _containers(below)


def _changed_yaml(text: str, rng: random.Random) -> tuple[str, str]:
    lines = text.splitlines()
    at = rng.choice([number for number, line in enumerate(lines) if not line.startswith("#")])
    key = lines[at].partition(":")[0]
    if rng.random() < 0.15:
        del lines[at]
        return "\n".join(lines), f"without {key}"
    value = rng.choice((*VALUES, *_OF_YAML))
    plain = value if value in _OF_YAML else json.dumps(value)
    lines[at] = f"{key}: {plain}".replace(f'"{_DEEP}"', _NESTED).replace("NaN", ".nan")
    return "\n".join(lines), f"{key} = {str(value)[:40]!r}"
