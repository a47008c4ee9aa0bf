"""What one segment's offsets may be, and what bears a base offset out, which no checksum covers.

Both that believe offsets go by this: the search behind damage (`believed`) and what is said of
losses (`offsets`).
"""

from __future__ import annotations

from kdump.record.layout import MAX_INT32
from kdump.storage.names import OFFSET_MAX

#: What an index entry can hold, relative to its segment; brokers roll a segment before that.
RELATIVE_MAX = MAX_INT32
RELATIVE_OFFSETS = RELATIVE_MAX + 1  # so many offsets an index of a segment can name


def end_of(base_offset: int | None, next_base: int | None) -> int:
    """The offset that no batch of a segment reaches; `next_base` None: it is the newest.

    That a segment which is not the newest holds no more than its index can is not asked: cleaners
    of old once joined segments further apart. `base_offset` None: a metadata snapshot, from 0 on.
    """
    if next_base is not None:
        return next_base
    return min((base_offset or 0) + RELATIVE_OFFSETS, OFFSET_MAX)


def joins_on(last_offset: int, first_offset: int) -> bool:
    """Whether an entry goes on just where the one before ends: then not both are wrong."""
    return first_offset == last_offset + 1
