"""The edges of a part of a log that was read by itself, and whether parts meet."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from kdump.tuples import NamedTuple


class SplitEdges(NamedTuple):
    """How a piece of a log was read: from `start` to `stop`, offsets `first` to `last`.

    `start` is None for a piece in whose range no batch starts, or that need not be read.
    Not `sound`: it met something that only a reader of the whole log can judge.
    """

    start: int | None = None
    stop: int = 0
    first: int = 0
    last: int = -1
    sound: bool = True


def edges_meet(seams: Sequence[SplitEdges], size_bytes: int) -> bool:
    """Whether the pieces of a log, in order, are what an uncut read would have met."""
    if not all(seam.sound for seam in seams):
        return False
    read = [seam for seam in seams if seam.start is not None]
    if not read:
        return True  # all of them passed the log over
    if read[0].start != 0 or read[-1].stop != size_bytes:
        return False
    return all(
        before.stop == after.start and before.last < after.first for before, after in pairwise(read)
    )
