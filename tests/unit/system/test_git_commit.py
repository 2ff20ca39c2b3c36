"""The commit of a folder is read as git stores it."""

from pathlib import Path

import pytest

from accel_train.system.git_commit import commit_of

COMMIT, OTHER = "0123456789abcdef0123456789abcdef01234567", "f" * 40


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    "files",
    [
        {"HEAD": f"{COMMIT}\n"},
        {
            "HEAD": "ref: refs/heads/main\n",
            "refs/heads/main": f"{COMMIT}\n",
            "packed-refs": f"{OTHER} refs/heads/main\n",
        },
        {
            "HEAD": "ref: refs/heads/a/b\n",
            "packed-refs": f"# pack-refs with: peeled\n{OTHER} refs/heads/a\n{COMMIT} refs/heads/a/b\n^{OTHER}\n",
        },
    ],
    ids=["detached", "branch", "packed branch"],
)
def test_commit_of_a_folder_in_a_repository(tmp_path: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        write(tmp_path / ".git" / name, text)
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert commit_of(tmp_path) == commit_of(tmp_path / "a" / "b") == COMMIT


def test_commit_of_a_worktree(tmp_path: Path) -> None:
    write(tmp_path / "main" / ".git" / "refs/heads/side", COMMIT)
    write(tmp_path / "main" / ".git" / "worktrees/tree/HEAD", "ref: refs/heads/side\n")
    write(tmp_path / "main" / ".git" / "worktrees/tree/commondir", "../..\n")
    write(tmp_path / "tree" / ".git", f"gitdir: {tmp_path}/main/.git/worktrees/tree\n")
    assert commit_of(tmp_path / "tree") == COMMIT


@pytest.mark.parametrize(
    "files",
    [
        {},
        {".git/HEAD": "ref: refs/heads/main\n"},  # no commit yet
        {".git/HEAD": "<img onerror>\n"},
        {".git": "gitdir: nowhere\n"},
    ],
    ids=["no repository", "empty repository", "damaged HEAD", "lost worktree"],
)
def test_no_commit(tmp_path: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        write(tmp_path / name, text)
    assert commit_of(tmp_path) == ""
