"""Yield headers and records of a segment as a broker's lookups read them, or fail like them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kdump.broker.log_reader import RefusalError, UnknowableError
from kdump.errors import PathError
from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.record.layout import HEADER_SIZE_UP_TO_MAGIC
from kdump.storage.file_records import FileRecords

if TYPE_CHECKING:
    from kdump.broker.remote_log import RemoteSegment
    from kdump.broker.segment import Segment
    from kdump.kernels.columns import RecordBatches
    from kdump.record.frames import Run


class BrokerError(Exception):
    """The broker would answer this request with an error, not with an offset."""


class RemoteOnlyError(BrokerError):
    """The answer is in a remote segment whose objects were not given."""

    def __init__(self, remote: RemoteSegment | None) -> None:
        super().__init__("the objects of remote storage were not given")
        self.remote = remote


@contextmanager
def convert_errors(path: str) -> Iterator[None]:
    """Make what a broker's reading of a file fails at its answer to a lookup."""
    try:
        yield
    except RefusalError as error:
        raise BrokerError(f"{error}, in {path}") from error
    except UnknowableError as error:
        raise BrokerError(f"cannot predict what a broker does with {error}, in {path}") from error


def raise_undecodable(path: str, position: int, reason: int) -> None:
    """Say that a broker or consumer fails on an entry it cannot decode."""
    if reason in (reasons.END, reasons.FULL, reasons.INNER_CUT_SHORT):
        return
    words = reasons.NAMES.get(reason, "damaged")
    raise BrokerError(f"{path}: the entry at {position} cannot be decoded ({words})")


def headers_of(segment: Segment, position: int) -> Iterator[RecordBatches]:
    """Headers from a position to the segment's end, as a broker's lookup meets them (S6)."""
    segment.log()  # stays open
    if position < segment.start:
        if position >= segment.end - HEADER_SIZE_UP_TO_MAGIC:
            return
        raise BrokerError(f"IllegalArgumentException: negative position in {segment.path}")
    with convert_errors(segment.path), segment.entries() as entries:
        yield from entries.as_is(position)


def records_at(
    segment: Segment, position: int, *, streaming: bool = False
) -> Iterator[tuple[int, int]]:
    """(offset, timestamp_ms) of the records of the one entry at a position.

    Raises where a broker that looks for a time in it would; `streaming` as it looks for the
    greatest one.
    """
    limit = segment.limit
    run = next(FileRecords(segment.log(), limit=limit).runs_as_is(position, segment.end), None)
    if run is None:
        text = f"the entry at {position} is larger than the limit of {limit} bytes"
        raise PathError(segment.path, text)
    try:
        yield from records_of(run, limit=limit, streaming=streaming)
    except _UndecodableError as error:
        raise_undecodable(segment.path, position, error.reason)


class _UndecodableError(Exception):
    """What a broker fails at; `reason` is one of the kernels'."""

    def __init__(self, reason: int) -> None:
        super().__init__(reasons.NAMES.get(reason, "damaged"))
        self.reason = reason


def records_of(run: Run, *, limit: int, streaming: bool) -> Iterator[tuple[int, int]]:
    """(offset, timestamp_ms) of the records of the entry in row 0 (F25).

    A broker reads all of a compressed entry before it looks at the first record, a batch only
    where it is not `streaming`. It hands out the last record that is declared only if nothing is
    left behind it.
    """
    from kdump.record.batch import read_batch

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
            _check_reason(piece.reason)
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
        _check_reason(piece.reason)
    if last is not None:
        yield last


def _messages(run: Run, limit: int) -> Iterator[tuple[int, int]]:
    from kdump.record.wrapper import open_wrapper

    wrapper = open_wrapper(run.data, run.base, run.batches, 0, limit)
    _check_reason(wrapper.reason)
    for offset, timestamp_ms, compressed in wrapper.messages():
        if compressed:
            raise _UndecodableError(reasons.INNER_COMPRESSED)
        yield offset, timestamp_ms


def _check_reason(reason: int) -> None:
    if reason not in (reasons.END, reasons.FULL):
        raise _UndecodableError(reason)
