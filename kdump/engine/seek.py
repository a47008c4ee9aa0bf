"""Where to start reading for an offset: what the index says, once the log has confirmed it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.errors import PathError
from kdump.kernels import columns as c
from kdump.storage import names
from kdump.storage.file_records import FileRecords
from kdump.storage.names import Kind
from kdump.storage.offset_index import OffsetIndex
from kdump.storage.source import Source

if TYPE_CHECKING:
    from kdump.engine.targets import LogFile


def start_position(source: Source, file: LogFile, offset: int) -> int:
    """Return a position from which a walk meets every entry that reaches `offset`.

    An index entry is a claim: it serves only when a valid entry starts at its position and lies at
    or below the offset; offsets rise in a sound log, so nothing before it is missed. Else 0.
    """
    base = file.name.base_offset
    if base is None or offset <= base:
        return 0
    path = os.path.join(  # noqa: PTH118
        os.path.dirname(file.path),  # noqa: PTH120
        names.file_name(Kind.OFFSET_INDEX, base),
    )
    try:
        with Source(path) as index_source:
            index = OffsetIndex(index_source, base)
            end = index.logical_end(source.size)
            low, high = 0, end
            while low < high:
                middle = (low + high) // 2
                if index.entry(middle).offset <= offset:
                    low = middle + 1
                else:
                    high = middle
            # The entry found may name an offset inside a later batch than the one at its position
            # (I9), so the header has the last word; the one before it is tried then.
            for slot in range(low - 1, max(low - 3, -1), -1):
                position = index.entry(slot).position
                if _confirmed(source, position, offset):
                    return position
    except PathError:
        return 0
    return 0


def _confirmed(source: Source, position: int, offset: int) -> bool:
    header = FileRecords(source).valid_at(position, source.size, -1)
    if header is None:
        return False
    if header.flags & c.WRAPPER:
        return header.value(c.B_LAST_OFFSET, 0) < offset
    return header.value(c.B_BASE_OFFSET, 0) <= offset
