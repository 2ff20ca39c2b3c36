"""Verifies all shards of a packed folder."""

from pathlib import Path

from accel_train.data.packing.manifest import MANIFEST, UNFINISHED, read_manifest


def damaged_shards(folder: Path) -> tuple[list[str], int, str]:
    """Return the names of damaged and missing shards, the number of all, and the command that repairs them.

    Raises:
        UserError: the manifest is damaged.
    """
    complete = (folder / MANIFEST).exists()
    manifest = read_manifest(folder / (MANIFEST if complete else UNFINISHED))
    names = [name for split in manifest.splits for name in manifest.shard_names(split)]
    damaged = [
        name for name in names if name not in manifest.shards or not manifest.shards[name].matches(folder / name)
    ]
    return damaged, len(names), manifest.command(folder)
