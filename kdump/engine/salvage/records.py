"""The records of a salvage that a reader of committed data is handed, to be produced anew.

Whether a transaction was committed is said behind it: the log is gone over once for the outcomes,
and then for the records. What nobody ended is left out as what was aborted, and counted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump import kernels
from kdump.broker.producer_events import TransactionEnd
from kdump.broker.producer_state import ProducerStates
from kdump.broker.visibility import AbortFilter
from kdump.client.cluster import SentRecord
from kdump.engine.salvage.build import pieces
from kdump.errors import PathError, RefusedError
from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.record.batch import read_batch
from kdump.record.decoded_part import DecodedPart
from kdump.record.default import headers_of
from kdump.record.frames import Run
from kdump.storage.names import OFFSET_MAX
from kdump.storage.transaction_index import VERSION, AbortedTransaction

if TYPE_CHECKING:
    from kdump.engine.salvage.merge import Merge, MergedBatch, Ranges
    from kdump.engine.salvage.partition import OpenCopies

Offered = list[tuple[int, SentRecord]]


class VisibleRecords:
    """The records of a partition that are to be produced, with their offsets, and what is not.

    `watch` is given the batches of the whole log first, and counts what is to come. The other
    counts are whole when all records were asked for, which may be done again.
    """

    def __init__(self, opened: OpenCopies) -> None:
        self.aborted_count = self.open_count = self.control_count = 0
        self.passed_count = 0  # records of all batches, whatever became of them
        self.lost: Ranges = []  # what the copies lacked when the log was watched
        self._total = 0
        self._of_open: dict[int, int] = {}  # records of transactions without an end, by producer
        self._opened = opened
        self._limit = opened.options.decompress_limit
        self._states = ProducerStates()
        self._aborted: list[AbortedTransaction] = []

    @property
    def planned_count(self) -> int:
        """How many records are to be produced, once the whole log was watched."""
        return self._total - sum(self._of_open.values())

    def watch(self, taken: MergedBatch) -> None:
        """See which transactions end, and how, and count the records."""
        if taken.batch.producer_id < 0:
            self._total += self._count_selected(taken, None)
            return
        run = self._run(taken)
        if not run.batches.flags & c.CONTROL:
            count = self._count_selected(taken, run)
            self._total += count
            if run.batches.flags & c.TRANSACTIONAL:
                of_open = self._of_open.get(taken.batch.producer_id, 0)
                self._of_open[taken.batch.producer_id] = of_open + count
        for event in self._states.replay(run):
            if not isinstance(event, TransactionEnd):
                continue
            of_open = self._of_open.pop(event.producer_id, 0)
            if (entry := event.aborted_entry()) is not None:
                self._aborted.append(entry)
                self._total -= of_open

    def _count_selected(self, taken: MergedBatch, run: Run | None) -> int:
        """Count the records of a batch between the offsets that were asked for."""
        low, high = self._bounds()
        contents = taken.contents
        if contents.last < low or contents.first >= high:
            return 0
        if contents.first >= low and contents.last < high:
            return contents.records_count
        wanted = self._select(self._run(taken) if run is None else run, taken, low, high)
        return sum(map(len, wanted))

    def _bounds(self) -> tuple[int, int]:
        options = self._opened.options
        return options.from_offset or 0, (
            OFFSET_MAX if options.to_offset is None else options.to_offset
        )

    def records(self) -> Iterator[Offered]:
        """Yield the records in the order of their offsets, some at a time, up to a new hole."""
        self.aborted_count = self.open_count = self.control_count = self.passed_count = 0
        open_from = self._states.open
        if self._states.overflowed:
            raise RefusedError(self._opened.item.path, "has too many open transactions")
        low, high = self._bounds()
        unended = [
            AbortedTransaction(VERSION, producer_id, first, OFFSET_MAX, first)
            for producer_id, first in open_from.items()
        ]
        hidden = AbortFilter([*self._aborted, *unended])
        merged = self._opened.merge()
        for taken in merged.batches():
            if self._has_new_hole(merged):
                return  # what comes behind it would arrive in the place of what is missing
            run, count = self._run(taken), taken.contents.records_count
            is_hidden = hidden.skips(run, 0)
            self.passed_count += count
            if run.batches.flags & c.CONTROL:
                self.control_count += count
            elif not is_hidden:
                yield from self._select(run, taken, low, high)
            elif taken.batch.first >= open_from.get(taken.batch.producer_id, OFFSET_MAX):
                self.open_count += count
            else:
                self.aborted_count += count

    def _has_new_hole(self, merged: Merge) -> bool:
        """Whether offsets are lost that the copies had when the log was watched."""
        if not merged.lost:
            return False
        first, last = merged.lost[-1]
        at = bisect_right(self.lost, first, key=lambda each: each[0])
        return not at or last > self.lost[at - 1][1]

    def _select(self, run: Run, taken: MergedBatch, low: int, high: int) -> Iterator[Offered]:
        for piece in read_batch(run.data, 0, run.batches, 0, limit=self._limit):
            if piece.reason not in (reasons.END, reasons.FULL):
                raise RefusedError(
                    taken.batch.path,
                    f"the batch at offset {taken.contents.first} was not produced, because it "
                    "cannot be decompressed: raise --decompress-limit, or install its codec",
                )
            some = _records(piece, taken)
            if some and (some[0][0] < low or some[-1][0] >= high):
                some = [one for one in some if low <= one[0] < high]
            if some:
                yield some

    def _run(self, taken: MergedBatch) -> Run:
        if taken.batch.size_bytes > self._limit:
            raise RefusedError(
                taken.batch.path,
                f"the batch at offset {taken.contents.first} was not produced, because it is too "
                "large to be decompressed: raise --decompress-limit",
            )
        data = bytearray().join(pieces(taken))
        rows, _, _ = kernels.walk(data, 0, len(data), 0, -1, True, 1)
        if rows.count != 1:
            raise PathError(taken.batch.path, "changed while it was read")
        return Run(data, 0, rows)


def _records(piece: DecodedPart, taken: MergedBatch) -> Offered:
    """Take the records of a piece out of its bytes."""
    view, records = memoryview(piece.data), piece.records
    found: Offered = []
    for row, (offset, timestamp, key, key_size, value, value_size, count) in enumerate(
        zip(
            records.offsets, records.timestamps, records.key_positions, records.key_sizes,
            records.value_positions, records.value_sizes, records.headers_counts, strict=True,
        )
    ):  # fmt: skip
        headers: tuple[tuple[str, bytes | None], ...] = ()
        if count:
            start, end = records.headers_position(row), len(view)
            try:
                headers = tuple(
                    (name.decode(), text) for name, text in headers_of(view, start, count, end)
                )
            except UnicodeDecodeError:
                raise RefusedError(
                    taken.batch.path, f"offset {offset} has a header name that is not UTF-8"
                ) from None
        found.append((offset, SentRecord(
            timestamp,
            bytes(view[key : key + key_size]) if key_size >= 0 else None,
            bytes(view[value : value + value_size]) if value_size >= 0 else None,
            headers,
        )))  # fmt: skip
    return found
