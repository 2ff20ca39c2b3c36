"""Damages pictures at random and counts how many `accel_train check` finds of those that strict decoders find.

Makes JPEGs and PNGs of many kinds, damages a copy of each (a half is missing, a hole, extraneous bytes, flipped bits),
and runs `accel_train check` on all. The reference is `djpeg -strict` (Debian's libjpeg-turbo-progs) for JPEGs and
`pngcheck` for PNGs. Then measures the time to check the undamaged pictures beside that of decoding them at full size,
in turn; and, with --train, trains on all pictures with `--on-bad-image skip` on 1 and 2 processes.

    python benchmarks/damaged_pictures.py --folder DIR --train
"""

import argparse
import hashlib
import io
import random
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from accel_train.config.defaults import MOST_PIXELS
from accel_train.data.bad_images import Pictures, check_pictures
from accel_train.data.images.decode import decode_window
from accel_train.data.sources.picture_files import FolderSource

Random = random.Random
TRAIN = (sys.executable, "-m", "accel_train", "train", "--no-report")
JPEG_END = b"\xff\xd9"
KINDS = {
    "baseline": ("jpg", "RGB", {"quality": 90}),
    "progressive": ("jpg", "RGB", {"quality": 80, "progressive": True}),
    "4:4:4": ("jpg", "RGB", {"subsampling": 0}),
    "restarts": ("jpg", "RGB", {"restart_marker_rows": 1}),
    "grey": ("jpg", "L", {"optimize": True}),
    "CMYK": ("jpg", "CMYK", {}),
    "PNG": ("png", "RGB", {}),
    "PNG with alpha": ("png", "RGBA", {}),
    "PNG palette": ("png", "P", {}),
    "PNG grey": ("png", "L", {"optimize": True}),
}
"""Ending, mode and options of Pillow."""
TRAINING = ("--model", "mlp", "--image-size", "32", "--batch-size", "16", "--global-batch-size", "32", "--epochs", "1")


def photograph(seed: int) -> Image.Image:
    """Make a picture with large shapes and some noise."""
    generator = np.random.default_rng(seed)
    height, width = (int(side) for side in generator.integers(120, 500, 2))
    small = generator.integers(0, 256, (6, 8, 3), np.uint8)
    smooth = np.asarray(Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC), np.int16)
    return Image.fromarray((smooth + generator.normal(0, 6, smooth.shape)).clip(0, 255).astype(np.uint8))


def cut(file: bytes, chance: Random) -> bytes:
    return file[: chance.randrange(len(file) // 10, len(file) - 1)]


def cut_with_end(file: bytes, chance: Random) -> bytes:
    return cut(file, chance) + (JPEG_END if file.startswith(b"\xff\xd8") else file[-12:])


def hole(file: bytes, chance: Random) -> bytes:
    size = min(4096, len(file) // 3)
    first = chance.randrange(len(file) // 20, len(file) - size)
    return file[:first] + bytes(size) + file[first + size :]


def noise(file: bytes, chance: Random) -> bytes:
    size = min(512, len(file) // 3)
    first = chance.randrange(0, len(file) - size)
    return file[:first] + chance.randbytes(size) + file[first + size :]


def inserted(file: bytes, chance: Random) -> bytes:
    first = chance.randrange(len(file) // 20, len(file) - 2)
    return file[:first] + chance.randbytes(64) + file[first:]


def before_end(file: bytes, chance: Random) -> bytes:
    return file[:-2] + chance.randbytes(64) + file[-2:]


def lost(file: bytes, chance: Random) -> bytes:
    first = chance.randrange(len(file) // 20, len(file) - 64)
    return file[:first] + file[first + 64 :]


def bits(file: bytes, chance: Random) -> bytes:
    damaged = bytearray(file)
    for _ in range(chance.choice((1, 1, 5, 50))):
        damaged[chance.randrange(len(file))] ^= 1 << chance.randrange(8)
    return bytes(damaged)


DAMAGES: tuple[Callable[[bytes, Random], bytes], ...] = (
    *(cut, cut_with_end, hole, noise, inserted, before_end, lost, bits),
)


def make(folder: Path, count: int, seed: int) -> dict[Path, tuple[str, str]]:
    """Write healthy and damaged pictures; return kind and damage of each damaged one."""
    chance, made = Random(seed), {}
    kinds = list(KINDS)
    for number in range(count):
        kind, damage = kinds[number % len(kinds)], DAMAGES[number // len(kinds) % len(DAMAGES)]
        ending, mode, options = KINDS[kind]
        file = io.BytesIO()
        photograph(seed * count + number).convert(mode).save(file, {"jpg": "jpeg"}.get(ending, ending), **options)
        for name in ("healthy", "damaged"):
            (folder / name / "ab"[number % 2]).mkdir(parents=True, exist_ok=True)
        (folder / "healthy" / "ab"[number % 2] / f"{number}.{ending}").write_bytes(file.getvalue())
        path = folder / "damaged" / "ab"[number % 2] / f"{number}.{ending}"
        path.write_bytes(damage(file.getvalue(), chance))
        made[path] = kind, damage.__name__
    return made


def strict_problem(path: Path) -> str:
    """Return what a strict decoder says of a file; nothing if it is healthy."""
    jpeg = path.suffix == ".jpg"
    command = ["djpeg", "-strict", "-outfile", "/dev/null"] if jpeg else ["pngcheck", "-q"]
    ended = subprocess.run([*command, str(path)], capture_output=True, text=True, errors="replace", check=False)
    return (ended.stderr + ended.stdout).strip() or "failed" if ended.returncode else ""


def checked(folder: Path) -> dict[Path, str]:
    """Return the pictures that `accel_train check` names, with the reasons."""
    command = [sys.executable, "-m", "accel_train", "check", str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = (line.partition(": ") for line in ended.stdout.splitlines())
    return {Path(path): reason for path, _, reason in lines if Path(path).suffix in (".jpg", ".png")}


def seconds(work: Callable[[list[Path]], object], paths: list[Path]) -> float:
    started = time.process_time()
    work(paths)
    return time.process_time() - started


def decode(paths: list[Path]) -> None:
    for path in paths:
        decode_window(path.read_bytes(), lambda height, width: (0, 0, height, width), 10**6)


def check(paths: list[Path]) -> None:
    none = np.zeros(len(paths), np.int64)
    source = FolderSource(("a",), paths[0].parents[1], tuple(f"{p.parent.name}/{p.name}" for p in paths), none, none)
    for _ in check_pictures(Pictures([source]), range(len(paths)), MOST_PIXELS, workers=0):
        pass


def compare_times(paths: list[Path], rounds: int) -> None:
    ratios = []
    for _ in range(rounds):
        reading = seconds(decode, paths)
        ratios.append(seconds(check, paths) / reading)
    print(
        f"{paths[0].suffix[1:]}: check takes {statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f}) "
        f"of the time of decoding at full size, which is {reading / len(paths) * 1000:.2f} ms a picture"
    )


def train(folder: Path) -> None:
    hashes = []
    for processes in ("1", "2"):
        output = folder.with_name(f"{folder.name}_run{processes}")
        options = ("--on-bad-image", "skip", "--exact", "--processes", processes, "--output", str(output))
        command = [*TRAIN, "--data", str(folder), *TRAINING, *options]
        subprocess.run(command, check=True, capture_output=True)
        hashes.append(
            [
                hashlib.sha256((output / name).read_bytes()).hexdigest()
                for name in ("model.safetensors", "bad_images.txt")
            ]
        )
    print(f"skip: the same weights and the same list on 1 and 2 processes: {hashes[0] == hashes[1]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="a new folder")
    parser.add_argument("--pictures", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--train", action="store_true")
    options = parser.parse_args()
    made = make(options.folder, options.pictures, options.seed)
    by_reference = {path: problem for path in made if (problem := strict_problem(path))}
    found = checked(options.folder / "damaged")
    missed = {path: problem for path, problem in by_reference.items() if path not in found}
    more = [path for path in found if path not in by_reference]
    print(f"{len(made)} damaged pictures: strict decoders find {len(by_reference)}, check {len(found)}")
    print(f"missed {len(missed)}, found besides {len(more)}: {dict(Counter(made[path] for path in more))}")
    for path, problem in missed.items():
        print(f"missed {path}: {' '.join(made[path])}: {problem}")
    healthy = sorted((options.folder / "healthy").rglob("*.*"))
    named = checked(options.folder / "healthy")
    print(f"healthy pictures named as bad: {len(named)} of {len(healthy)}")
    for ending in (".jpg", ".png"):
        compare_times([path for path in healthy if path.suffix == ending], options.rounds)
    if options.train:
        train(options.folder)


if __name__ == "__main__":
    main()
