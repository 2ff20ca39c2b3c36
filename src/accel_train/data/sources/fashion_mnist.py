"""FashionMNIST's files, in LeCun's IDX format; a thread can decompress the images while the program imports torch."""

import gzip
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

_DEBIAN = Path("/usr/share/datasets/fashion-mnist")  # of the package dataset-fashion-mnist
SPLITS = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "val": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
"""The names of the images and the labels of each split."""
_begun: dict[Path, Future[bytearray]] = {}


def find_fashion_mnist(directory: Path | None) -> Path | None:
    """Return the folder of FashionMNIST's files: `directory`, torchvision's below it, or Debian's."""
    own = [directory, directory / "FashionMNIST" / "raw"] if directory else []
    first, _ = SPLITS["train"]
    return next((folder for folder in [*own, _DEBIAN] if file_of(folder, first).exists()), None)


def file_of(folder: Path, name: str) -> Path:
    """Return the path of a file, which is compressed or not."""
    packed = folder / f"{name}.gz"
    return packed if packed.exists() else folder / name


def read_ahead(directory: Path | None) -> None:
    """Begin to read the largest file of FashionMNIST, if it is there, for :func:`content` to be had sooner.

    The others take little time, and glibc would keep their memory for this thread alone.
    """
    folder = find_fashion_mnist(directory)
    if folder is None:
        return
    images, _ = SPLITS["train"]
    path = file_of(folder, images)
    thread = ThreadPoolExecutor(1)
    _begun[path] = thread.submit(_read, path)
    thread.shutdown(wait=False)  # it ends by itself


def content(path: Path) -> bytearray:
    """Return the bytes of a file, decompressed.

    Raises:
        OSError, EOFError, zlib.error: it cannot be read.
    """
    return _begun.pop(path).result() if path in _begun else _read(path)


def _read(path: Path) -> bytearray:
    content = path.read_bytes()
    return bytearray(gzip.decompress(content) if path.suffix == ".gz" else content)
