"""FashionMNIST's files; a thread can decompress the largest one while the program imports torch.

So this file does not import torch.
"""

import gzip
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

_DEBIAN = Path("/usr/share/datasets/fashion-mnist")  # of the package dataset-fashion-mnist
SPLITS = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "val": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
"""File names of the images and the labels of each split."""
_started: dict[Path, Future[bytearray]] = {}


def find_folder(directory: Path | None) -> Path | None:
    """Return the folder with FashionMNIST's files: `directory`, torchvision's folder below it, or Debian's."""
    own = [directory, directory / "FashionMNIST" / "raw"] if directory else []
    first, _ = SPLITS["train"]
    return next((folder for folder in [*own, _DEBIAN] if find_file(folder, first).exists()), None)


def find_file(folder: Path, name: str) -> Path:
    """Return the path of a file, gzipped if there is such a one."""
    gzipped = folder / f"{name}.gz"
    return gzipped if gzipped.exists() else folder / name


def read_ahead(directory: Path | None) -> None:
    """Start reading the largest file in a thread, if it exists; :func:`content` then waits for the thread.

    The other files take little time, and glibc would keep their memory for this thread alone.
    """
    folder = find_folder(directory)
    if folder is None:
        return
    images, _ = SPLITS["train"]
    path = find_file(folder, images)
    thread = ThreadPoolExecutor(1)
    _started[path] = thread.submit(_read, path)
    thread.shutdown(wait=False)  # lets the thread end after its one job


def content(path: Path) -> bytearray:
    """Return the bytes of a file, decompressed.

    Raises:
        OSError, EOFError, zlib.error: the file cannot be read.
    """
    return _started.pop(path).result() if path in _started else _read(path)


def _read(path: Path) -> bytearray:
    content = path.read_bytes()
    return bytearray(gzip.decompress(content) if path.suffix == ".gz" else content)
