"""Files of the Hugging Face hub, from its cache on this machine or downloaded to it."""

import hashlib
import re
from pathlib import Path
from typing import Any

from accel_train.errors import UserError
from accel_train.loggers.text import write_to_stderr
from accel_train.models.download import once_a_machine
from accel_train.system.regular_files import open_regular

_SHA256 = re.compile(r"[0-9a-f]{64}")
"""Name in the cache of a large file."""


class MissingFileError(Exception):
    """The repository has no such file."""


def hub_file(repo: str, name: str) -> Path:
    """Return a file of a repository, downloaded if the cache lacks it; HF_HOME and HF_HUB_CACHE move the cache.

    `repo` is OWNER/NAME or OWNER/NAME@REVISION. A large file is verified by the SHA-256 that the hub tells.

    Raises:
        MissingFileError: the repository has no such file.
        UserError: it can be neither found nor downloaded, or is damaged.
    """
    import huggingface_hub
    from huggingface_hub import constants, errors

    identifier, _, revision = repo.partition("@")
    asked: dict[str, Any] = {"repo_id": identifier, "filename": name, "revision": revision or None}
    try:
        found = huggingface_hub.try_to_load_from_cache(**asked)
    except errors.HFValidationError as error:
        raise UserError(f"{repo} is no repository of the hub: {error}", "give OWNER/NAME") from None
    if isinstance(found, str):
        _verify(file := Path(found), f"remove {file.resolve()} to download it again")
        return file
    folder, cache = f"models--{identifier.replace('/', '--')}", Path(constants.HF_HUB_CACHE)
    remedy = f"where there is a network: `hf download {identifier} {name}`, then copy {cache / folder} here"
    with once_a_machine(cache / ".locks" / folder / name, remedy):
        return _download(asked, repo, remedy)


def _download(asked: dict[str, Any], repo: str, remedy: str) -> Path:
    import huggingface_hub
    from huggingface_hub import errors

    found = huggingface_hub.try_to_load_from_cache(**asked)
    if isinstance(found, str):  # another process has downloaded it meanwhile
        return Path(found)
    write_to_stderr(f"downloading {asked['filename']} of {repo} from the Hugging Face hub\n")
    huggingface_hub.logging.set_verbosity_error()  # it reports each of its tries
    try:
        file = Path(huggingface_hub.hf_hub_download(**asked))
    except errors.LocalEntryNotFoundError as error:
        raise _failed(asked, repo, error.__cause__ or error, remedy) from None
    except errors.EntryNotFoundError:
        raise MissingFileError(asked["filename"]) from None
    except Exception as error:  # of the hub or of its HTTP library: both change
        raise _failed(asked, repo, error, remedy) from None
    try:
        _verify(file, remedy)
    except UserError:
        file.resolve().unlink()
        file.unlink()
        raise
    return file


def _failed(asked: dict[str, Any], repo: str, reason: BaseException, remedy: str) -> UserError:
    lines = str(reason).strip().splitlines() or [type(reason).__name__]
    return UserError(f"cannot download {asked['filename']} of {repo}: {lines[0]}", remedy)


def _verify(file: Path, remedy: str) -> None:
    """Compare a file with the SHA-256 by which the cache names large ones."""
    digits = file.resolve().name
    if not _SHA256.fullmatch(digits):
        return
    with open_regular(file) as content:
        if hashlib.file_digest(content, "sha256").hexdigest() != digits:
            raise UserError(f"{file} is damaged: its sha256 is not {digits}", remedy)
