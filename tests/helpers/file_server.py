"""Serves files on this machine as bad servers do: slowly, not to the end, not at all; also as the Hugging Face hub."""

import hashlib
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_COMMIT = "1" * 40


@dataclass
class Served:
    """Files by path, and how the next requests for them are answered."""

    files: dict[str, bytes]
    cuts: list[int] = field(default_factory=list)
    """Bytes after which each of the next connections ends."""
    failures: list[int] = field(default_factory=list)
    """Status codes of the next requests."""
    pause_seconds: float = 0.0
    """Before each tenth of a file."""
    takes_ranges: bool = True
    etag: str | None = None
    """Instead of the SHA-256 of the file."""
    requests: list[tuple[str, str, str | None]] = field(default_factory=list)
    """Method, path and range of each request so far."""
    address: str = ""

    @property
    def downloads(self) -> list[str | None]:
        """The range of each request for the content of a file; None for the whole."""
        return [asked for method, _, asked in self.requests if method == "GET"]


@contextmanager
def serving(**files: bytes) -> Iterator[Served]:
    """Serve files by name; `address` is the beginning of their URLs."""
    served = Served({f"/{name}": content for name, content in files.items()})

    class Handler(_Handler):
        pass

    Handler.served = served
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        served.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    served: Served

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        served, asked = self.served, self.headers.get("Range")
        served.requests.append((self.command, self.path, asked))
        content = served.files.get(self.path)
        if served.failures or content is None:
            self.send_response(served.failures.pop(0) if served.failures else 404)
            if content is None:
                self.send_header("X-Error-Code", "EntryNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        first = int(asked.removeprefix("bytes=").partition("-")[0]) if asked and served.takes_ranges else 0
        if first >= len(content) > 0:
            self.send_error(416)
            return
        self.send_response(206 if first else 200)
        self.send_header("Content-Length", str(len(content) - first))
        self.send_header("ETag", f'"{served.etag or hashlib.sha256(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", _COMMIT)
        self.end_headers()
        if self.command == "GET":
            self._send(content[first:])

    def _send(self, content: bytes) -> None:
        end = self.served.cuts.pop(0) if self.served.cuts else len(content)
        part = max(1, len(content) // 10)
        for first in range(0, min(end, len(content)), part):
            time.sleep(self.served.pause_seconds)
            self.wfile.write(content[first : min(first + part, end)])
        if end < len(content):
            self.close_connection = True

    def log_message(self, format: str, *arguments: object) -> None:
        pass
