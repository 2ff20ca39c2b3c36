"""Shards return the pictures that were stored, mapped into memory, and nothing that their checksums deny."""

import os
import pickle
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import Tensor

from accel_train.data.packing.manifest import checksum_of
from accel_train.data.packing.shard import MappedShards, ShardBuilder, ShardFile
from accel_train.data.packing.source import PackedSource
from accel_train.data.sources.base import View
from accel_train.errors import LocalError, UserError

HINT = "repair it with: accel_train pack …"


def five_pictures() -> list[Tensor]:
    """Return pictures_HWC of different sizes."""
    return [torch.randint(0, 256, (6 + n, 9 - n, 3), dtype=torch.uint8) for n in range(5)]


def write(folder: Path, pictures: list[Tensor], per_shard: int) -> list[ShardFile]:
    files = []
    for first in range(0, len(pictures), per_shard):
        builder = ShardBuilder()
        stored = pictures[first : first + per_shard]
        for number, picture in enumerate(stored, first):
            builder.add(picture, path_hash=-number)
        path, content = folder / f"{first}.safetensors", builder.encode()
        path.write_bytes(content)
        checksum = checksum_of(BytesIO(content), builder.index_bytes(content))
        files.append(ShardFile(str(path), checksum, len(stored), path.stat().st_mtime_ns))
    return files


def mapped(files: list[ShardFile], per_shard: int) -> MappedShards:
    return MappedShards(files, per_shard=per_shard, side=60, repair=HINT)


def remade(folder: Path, change: Callable[[dict[str, Tensor]], object]) -> MappedShards:
    """Change the tensors of a shard, with checksums that match the result."""
    (file,) = write(folder, five_pictures(), per_shard=5)
    tensors = safetensors.torch.load_file(file.path)
    change(tensors)
    content = safetensors.torch.save(tensors)
    Path(file.path).write_bytes(content)
    pixels = tensors["pixels"].nbytes if "pixels" in tensors else 0
    checksum = checksum_of(BytesIO(content), len(content) - pixels)
    return mapped([ShardFile(file.path, checksum, 5, 0)], 5)


def pixels_of(shards: MappedShards, row: int) -> Tensor:
    shards.check([row])
    shard, position = shards.find(row)
    height, width, first = (int(x[position]) for x in (shard.heights, shard.widths, shard.offsets))
    return shard.pixels[first : first + 3 * height * width].view(height, width, 3)


def flip(path: str | Path, place: int) -> None:
    content = bytearray(Path(path).read_bytes())
    content[place] ^= 4
    Path(path).write_bytes(content)


def test_rows_are_found_in_the_shard_that_holds_them(tmp_path: Path) -> None:
    pictures = five_pictures()
    shards = mapped(write(tmp_path, pictures, per_shard=2), 2)
    for row in (4, 0, 3, 1, 2):
        assert pixels_of(shards, row).equal(pictures[row])
    assert shards.path_hashes().tolist() == [0, -1, -2, -3, -4]
    assert [shards.shorter_side(row) for row in range(5)] == [6, 7, 7, 6, 5]


def test_shards_are_mapped_on_first_read_and_not_pickled(tmp_path: Path) -> None:
    pictures = [torch.randint(0, 256, (60, 80, 3), dtype=torch.uint8) for _ in range(5)]
    files = write(tmp_path, pictures, per_shard=5)
    source = PackedSource(("a", "b"), mapped(files, 5), torch.arange(5), torch.arange(5) % 2, ("aa",))
    view = View(24, random_crop=False)
    assert source.path_hashes.tolist() == [0, -1, -2, -3, -4]
    assert files[0].path not in Path("/proc/self/maps").read_text()
    images, labels = source.read([0, 4], None, view)
    assert files[0].path in Path("/proc/self/maps").read_text()
    pickled = pickle.dumps(source)
    assert len(pickled) < 10_000
    again, same = pickle.loads(pickled).read([0, 4], None, view)
    assert again.equal(images)
    assert same.equal(labels)


def test_flipped_byte_is_found_in_the_picture_that_has_it(tmp_path: Path) -> None:
    pictures = five_pictures()
    files = write(tmp_path, pictures, per_shard=5)
    flip(files[0].path, files[0].checksum.index_bytes + pictures[0].numel())  # the first byte of picture 1
    shards = mapped(files, 5)
    assert pixels_of(shards, 0).equal(pictures[0])
    for _ in range(2):
        with pytest.raises(LocalError) as caught:
            shards.find(1)
        assert caught.value.message == f"{files[0].path} is damaged: the XXH3 hash of picture 1 differs"
        assert caught.value.hint == HINT


def test_every_byte_of_an_index_is_verified(tmp_path: Path) -> None:
    files = write(tmp_path, five_pictures(), per_shard=5)
    path = Path(files[0].path)
    content = path.read_bytes()
    for place in range(files[0].checksum.index_bytes):
        path.write_bytes(content)
        flip(path, place)
        for read in (mapped(files, 5).find, mapped(files, 5).shorter_side, lambda row: mapped(files, 5).path_hashes()):
            with pytest.raises(UserError, match=r"\.safetensors is damaged: ") as caught:
                read(0)
            assert caught.value.hint == HINT


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda t: t.pop("pixels"), "pixels is not a list of torch.uint8"),
        (lambda t: t.pop("checksums"), "checksums is not a list of torch.int64"),
        (lambda t: t.update(heights=t["heights"].long()), "heights is not a list of torch.int32"),
        (lambda t: t.update(offsets=t["offsets"][None].contiguous()), "offsets is not a list of torch.int64"),
        (lambda t: t.update(path_hashes=t["path_hashes"][:4]), "4 path_hashes of 5 pictures"),
        (lambda t: t["offsets"].__setitem__(2, -1), "picture 2 has 8 × 7 pixels at -1, of 810 bytes"),
        (lambda t: t["offsets"].__setitem__(4, 2**62), f"picture 4 has 10 × 5 pixels at {2**62}, of 810 bytes"),
        (lambda t: t["heights"].__setitem__(4, 11), "picture 4 has 11 × 5 pixels at 660, of 810 bytes"),
        (lambda t: t["widths"].__setitem__(0, 2**31 - 1), "picture 0 has 6 × 2147483647 pixels at 0, of 810 bytes"),
        (lambda t: t["widths"].__setitem__(1, 0), "picture 1 has 7 × 0 pixels"),
        (lambda t: t["heights"].__setitem__(3, -9), "picture 3 has -9 × 6 pixels"),
        (
            lambda t: t.update(heights=torch.full((5,), 61, dtype=torch.int32), widths=t["heights"] + 90),
            "picture 0 has 61 × 96 pixels",
        ),
    ],
)
def test_index_that_cannot_be_right_is_an_error(
    tmp_path: Path, change: Callable[[dict[str, Tensor]], object], problem: str
) -> None:
    shards = remade(tmp_path, change)
    with pytest.raises(LocalError) as caught:
        shards.find(0)
    assert caught.value.message.startswith(f"{tmp_path}/0.safetensors is damaged: {problem}")


def test_changed_file_is_verified_again(tmp_path: Path) -> None:
    pictures = five_pictures()
    files = write(tmp_path, pictures, per_shard=5)
    path, shards = Path(files[0].path), mapped(files, 5)
    content = path.read_bytes()
    assert pixels_of(shards, 4).equal(pictures[4])
    os.utime(path, ns=(1, 1))  # touched, or replaced by a copy
    assert pixels_of(shards, 4).equal(pictures[4])
    flip(path, -1)
    os.utime(path, ns=(2, 2))
    with pytest.raises(LocalError, match="the XXH3 hash of picture 4 differs"):
        pixels_of(shards, 4)
    path.write_bytes(content[:-1])
    with pytest.raises(LocalError, match=f"{path} has {len(content) - 1:,} bytes instead of {len(content):,}"):
        shards.check([3, 0])
    path.unlink()
    with pytest.raises(LocalError, match=f"cannot read {path}: No such file"):
        shards.check([0])
    path.write_bytes(content)
    assert pixels_of(shards, 4).equal(pictures[4])


def test_forked_processes_share_what_is_verified(tmp_path: Path) -> None:
    files = write(tmp_path, five_pictures(), per_shard=5)
    shards = mapped(files, 5)
    if not (child := os.fork()):
        shards.find(3)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    status = Path(files[0].path).stat()
    flip(files[0].path, -1)
    flip(files[0].path, files[0].checksum.index_bytes + 500)  # in picture 3
    os.utime(files[0].path, ns=(status.st_atime_ns, status.st_mtime_ns))  # unnoticed
    shards.find(3)
    with pytest.raises(LocalError, match="the XXH3 hash of picture 4 differs"):
        shards.find(4)
