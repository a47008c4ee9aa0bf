"""Predict the start of a broker of 0.7 or older: contiguity, the last file (F5, S1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kdump.broker.log_reader import RefusalError
from kdump.storage.file_records import DEFAULT_LIMIT
from kdump.storage.names import Kind
from kdump.storage.pre08_records import Found, Pre08Records
from kdump.storage.source import Source

if TYPE_CHECKING:
    from kdump.storage.local_log import LocalLog


class Pre08Start(NamedTuple):
    """What becomes of the last file; offsets are byte positions (F1)."""

    segment: int
    recovered: bool
    position: int
    end_before: int
    end_after: int
    records_lost: int
    bytes_read: int


def start(log: LocalLog, *, clean: bool) -> Pre08Start:
    """Predict the start; raises RefusalError for a gap between files."""
    files = [(at.base_offset, at.files[Kind.PRE08_LOG]) for at in log.logs if at.is_pre08]
    if not files:
        return Pre08Start(0, False, 0, 0, 0, 0, 0)
    end = files[0][0]
    for base, path in files:
        if base != end:
            raise RefusalError(
                f"IllegalStateException: the files do not validate: one ends at {end}, the next "
                f"begins at {base}"
            )
        with Source(path) as source:
            end = base + source.size
    base, path = files[-1]
    if clean:
        return Pre08Start(base, False, end - base, end, end, 0, 0)
    valid, lost = _recover(path)
    return Pre08Start(base, True, valid, end, base + valid, lost, end - base)


def _recover(path: str) -> tuple[int, int]:
    """Where the first message stands that is not whole and valid, and how many go with it."""
    valid, lost, cut = 0, 0, False
    with Source(path) as source:
        for item in Pre08Records(source, limit=DEFAULT_LIMIT).walk():
            if isinstance(item, Found) and not cut:
                valid = item.position + item.size_bytes
            elif isinstance(item, Found) or item.entry is not None:
                cut, lost = True, lost + 1
            else:
                cut = True
    return valid, lost
