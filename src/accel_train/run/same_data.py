"""Checks that all processes see the same data, and that a resumed run sees those it was trained on."""

from accel_train.checkpoints.data_files import read_files
from accel_train.data.contents import Contents, changes, files_of, first_difference
from accel_train.data.sources.base import Source
from accel_train.distributed import process_group
from accel_train.distributed.accelerator import Processes
from accel_train.distributed.ranks import rank_name
from accel_train.errors import UserError
from accel_train.history.files import WEIGHTS
from accel_train.loggers.text import quoted
from accel_train.run.resume_point import ResumePoint


def refuse_other_ranks(processes: Processes, contents: Contents, **sources: Source) -> None:
    """Collective: check that all processes see the same data, given by split.

    Raises:
        UserError: a rank sees other data; names the first difference.
    """
    digests = [digest for (digest,) in process_group.exchange(processes.group, [contents.digest])]
    if len(set(digests)) == 1:
        return
    of_rank_0, files = processes.on_main(lambda: (contents, files_of(**sources)))
    own = first_difference(of_rank_0, contents, files, files_of(**sources))
    differences = process_group.exchange_texts(processes.group, own)
    rank = next(rank for rank, digest in enumerate(digests) if digest != digests[0])
    raise UserError(
        f"{rank_name(processes.ranks, rank)} sees other data than rank 0: {differences[rank]}",
        "give all machines the same files: copy them again, or use a shared folder",
    )


def has_same_data(point: ResumePoint, contents: Contents) -> bool:
    """Return whether the data are surely those that a run was trained on, whatever they are called."""
    return point.contents is not None and contents.surely_equals(point.contents)


def refuse_changed(point: ResumePoint, contents: Contents, **sources: Source) -> None:
    """Check that the data, given by split, are those that a run was trained on.

    Raises:
        UserError: they have changed.
    """
    if point.source is None or point.contents is None or point.contents == contents:
        return
    changed = changes(point.contents, contents, read_files(point.source), files_of(**sources))
    weights = next((file for name in WEIGHTS.values() if (file := point.source / name).is_file()), None)
    way_on = f"train on them from its weights with --weights {quoted(weights)} --output NEW" if weights else ""
    raise UserError(
        f"the data are not those of the run in {point.source}: {changed}",
        f"bring them back, or {way_on or 'start another run with --output NEW'}",
    )
