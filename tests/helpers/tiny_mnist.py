"""A tiny data set in MNIST's four IDX files, and a server that torchvision can download it from."""

import gzip
import hashlib
import http.server
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def idx(array: np.ndarray[Any, Any]) -> bytes:
    """Return unsigned bytes in LeCun's format: two zeros, type 8, dimensions, big-endian sizes, values."""
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes((0, 0, 8, array.ndim)) + sizes + array.astype(np.uint8).tobytes()


def tiny_mnist(train: int = 30, val: int = 20) -> dict[str, bytes]:
    """Return the four files' contents: image n is filled with n, its label is n modulo 10."""
    contents = []
    for images in (train, val):
        numbers = np.arange(images)
        contents += [idx(np.broadcast_to(numbers[:, None, None], (images, 4, 3))), idx(numbers % 10)]
    return dict(zip(FILES, contents, strict=True))


def resources() -> list[tuple[str, str]]:
    """Return the served files and their checksums, as torchvision's `resources`."""
    return [(f"{n}.gz", hashlib.md5(gzip.compress(c, mtime=0)).hexdigest()) for n, c in tiny_mnist().items()]


@contextmanager
def serve(folder: Path) -> Iterator[tuple[str, Counter[str]]]:
    """Serve the files on this machine; yield the address, and how often each file was fetched."""
    served = folder / "served"
    served.mkdir()
    for name, content in tiny_mnist().items():
        (served / f"{name}.gz").write_bytes(gzip.compress(content, mtime=0))
    fetched: Counter[str] = Counter()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(served))

        def do_GET(self) -> None:
            if self.headers["Method"] != "HEAD":  # torchvision looks for redirections so, by GET
                fetched[self.path.lstrip("/")] += 1
            super().do_GET()

        def log_message(self, *arguments: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/", fetched
        server.shutdown()
        thread.join()
