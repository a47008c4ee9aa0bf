"""Yield the records of one entry as a search by time reads them, or fail like it (F25)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.record.batch import read_batch

if TYPE_CHECKING:
    from kdump.record.frames import Run


class UndecodableError(Exception):
    """What a broker fails at; `reason` is one of the kernels'."""

    def __init__(self, reason: int) -> None:
        super().__init__(reasons.NAMES.get(reason, "damaged"))
        self.reason = reason


def records_of(run: Run, *, limit: int, streaming: bool) -> Iterator[tuple[int, int]]:
    """(offset, timestamp_ms) of the records of the entry in row 0.

    A broker reads all of a compressed entry before it looks at the first record, a batch only
    where it is not `streaming`. It hands out the last record that is declared only if nothing is
    left behind it.
    """
    batches = run.batches
    flags = batches.flags_of(0)
    if flags & c.WRAPPER:
        yield from _messages(run, limit)
        return
    if batches.is_legacy(0):
        yield batches.last_offset(0), batches.max_timestamp(0)
        return
    if flags & c.COMPRESSED and not streaming:
        for piece in read_batch(run.data, run.base, batches, 0, limit=limit):
            _mind(piece.reason)
    declared, seen = batches.records_count(0), 0
    last: tuple[int, int] | None = None
    for piece in read_batch(run.data, run.base, batches, 0, limit=limit):
        for row in range(piece.records.count):
            one = piece.records.offset(row), piece.records.timestamp(row)
            seen += 1
            if seen == declared:
                last = one
            else:
                yield one
        _mind(piece.reason)
    if last is not None:
        yield last


def _messages(run: Run, limit: int) -> Iterator[tuple[int, int]]:
    from kdump.record.deep import opened

    wrapper = opened(run.data, run.base, run.batches, 0, limit)
    _mind(wrapper.reason)
    for offset, timestamp_ms, compressed in wrapper.messages():
        if compressed:
            raise UndecodableError(reasons.INNER_COMPRESSED)
        yield offset, timestamp_ms


def _mind(reason: int) -> None:
    if reason not in (reasons.END, reasons.FULL):
        raise UndecodableError(reason)
