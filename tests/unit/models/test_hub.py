"""Files of the hub come from its cache; what it lacks is downloaded once, and verified."""

import hashlib
import socket
from collections.abc import Iterator
from pathlib import Path

import huggingface_hub.constants
import pytest
from helpers.file_server import Served, serving
from helpers.privileges import no_privileges

from accel_train.errors import UserError
from accel_train.models.hub import MissingFileError, hub_file

PATH = "timm/x/resolve/main/model.safetensors"
CONTENT = bytes(range(256)) * 400


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


@pytest.fixture
def served(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    with serving(**{PATH: CONTENT}) as served:
        use(served.address, monkeypatch)
        yield served


def use(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    template = endpoint + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", endpoint)
    monkeypatch.setattr(huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)


def remedy(cache: Path) -> str:
    return f"where there is a network: `hf download timm/x model.safetensors`, then copy {cache}/models--timm--x here"


def test_file_is_downloaded_once_and_then_read_from_the_cache(
    served: Served, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = hub_file("timm/x", "model.safetensors")
    assert file.read_bytes() == CONTENT
    assert file.is_relative_to(cache / "models--timm--x/snapshots")
    assert capsys.readouterr().err == "downloading model.safetensors of timm/x from the Hugging Face hub\n"
    served.requests.clear()
    assert hub_file("timm/x", "model.safetensors") == file
    assert served.requests == []


def test_connection_that_breaks_is_resumed(served: Served, cache: Path) -> None:
    served.cuts = [1000]
    assert hub_file("timm/x", "model.safetensors").read_bytes() == CONTENT


def test_missing_file_is_told_from_a_failure(served: Served) -> None:
    with pytest.raises(MissingFileError, match=r"config\.json"):
        hub_file("timm/x", "config.json")


def test_wrong_content_is_refused_and_removed(served: Served, cache: Path) -> None:
    served.etag = hashlib.sha256(b"the right one").hexdigest()
    with pytest.raises(UserError, match=f"is damaged: its sha256 is not {served.etag}") as caught:
        hub_file("timm/x", "model.safetensors")
    assert caught.value.hint == remedy(cache)
    served.etag = None
    assert hub_file("timm/x", "model.safetensors").read_bytes() == CONTENT


def test_damaged_file_in_the_cache_is_refused(served: Served) -> None:
    file = hub_file("timm/x", "model.safetensors").resolve()
    file.write_bytes(CONTENT[1:])
    with pytest.raises(UserError, match="is damaged: its sha256 is not ") as caught:
        hub_file("timm/x", "model.safetensors")
    assert caught.value.hint == f"remove {file} to download it again"


def test_hub_that_cannot_be_reached_is_one_error_that_names_the_place(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        use(f"http://127.0.0.1:{unused.getsockname()[1]}", monkeypatch)
        with pytest.raises(UserError) as caught:
            hub_file("timm/x", "model.safetensors")
    assert caught.value.message == "cannot download model.safetensors of timm/x: [Errno 111] Connection refused"
    assert caught.value.hint == remedy(cache)


def test_repository_that_is_unknown_is_told(served: Served) -> None:
    served.failures = [401] * 9
    with pytest.raises(UserError, match=r"^cannot download model\.safetensors of timm/x: .*401 "):
        hub_file("timm/x", "model.safetensors")


def test_name_that_no_repository_can_have_is_refused(cache: Path) -> None:
    with pytest.raises(UserError, match=r"^a/b/c is no repository of the hub: ") as caught:
        hub_file("a/b/c", "model.safetensors")
    assert caught.value.hint == "give OWNER/NAME"


def test_read_only_cache_serves_what_it_has_and_names_what_it_lacks(served: Served, cache: Path) -> None:
    file = hub_file("timm/x", "model.safetensors")
    folders = [cache, *(path for path in cache.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    try:
        with no_privileges():
            assert hub_file("timm/x", "model.safetensors") == file
            with pytest.raises(UserError, match=r"^cannot download to .*: ") as caught:
                hub_file("timm/x", "config.json")
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert "copy " in caught.value.hint
