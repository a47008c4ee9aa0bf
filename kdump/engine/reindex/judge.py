"""Decide whether an index is sound: no lookup goes wrong by it.

Which offsets and how many entries brokers wrote changed over the years (I9, I14), and a restart, a
follower's fetches and the cleaner space them otherwise than recovery does (R4). An index is left
alone unless an entry breaks what every era keeps to (I10, I12).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING

from kdump.engine.checks.index_file import PROVED_BYTES, IndexFile
from kdump.engine.checks.proof import EntryProof
from kdump.kernels import columns as c
from kdump.kernels.text_form import time_text
from kdump.storage.names import Kind
from kdump.storage.source import Source
from kdump.storage.transaction_index import TransactionIndex

if TYPE_CHECKING:
    from kdump.broker.index_builder import IndexBuilder
    from kdump.kernels.columns import RecordBatches

_WHY = {
    c.NO_BATCH: "entry {} names a position where no batch starts",
    c.PASSES_OVER: "entry {} skips a batch that ends at its offset or later",
    c.BELOW_BATCH: "entry {} names an offset below the batch it points to",
    c.STARTS_LATE: "entry {} skips a batch that has its time or a later one",
    c.OTHER_TIME: "entry {} has a time that its batch does not have",
}
_KEPT = 16
_OF_TIME = frozenset((c.STARTS_LATE, c.OTHER_TIME))


class Judge:
    """The index files of one segment, held against its log while that is read.

    `written` counts the entries of each file, without the zeros of one that was never trimmed;
    `contents` are their bytes. `active`: a broker keeps the newest segment's files at full size.
    """

    def __init__(self, base_offset: int, files: dict[Kind, str], *, active: bool) -> None:
        self.active = active
        self.contents: dict[Kind, bytes] = {}
        self.written: dict[Kind, int] = {}
        self._files: dict[Kind, IndexFile] = {}
        self._bad: dict[Kind, str] = {}
        self._entries: dict[Kind, dict[int, str]] = {}  # entries that do not hold, and why
        for kind in (Kind.OFFSET_INDEX, Kind.TIME_INDEX):
            if kind in files:
                self._open(kind, files[kind])
        offsets, times = map(self._files.get, (Kind.OFFSET_INDEX, Kind.TIME_INDEX))
        self._proof = EntryProof(base_offset, offsets, times)

    def _open(self, kind: Kind, path: str) -> None:
        with Source(path) as source:
            index = self._files[kind] = IndexFile(source, kind)
            self.contents[kind] = source.read(0, min(source.size, PROVED_BYTES))
        self.written[kind] = index.used
        if index.unreadable:
            self._bad[kind] = "the device gives an I/O error"
        elif index.trailing_bytes:
            self._bad[kind] = f"ends in {index.trailing_bytes} bytes that are not an entry"
        elif index.odd and index.stale_from is None:
            self._bad[kind] = f"entry {index.odd[0]} is not above the one before"
        elif index.is_untrimmed and not self.active:
            self._bad[kind] = "zeros after its entries: it was never trimmed"

    def feed(self, batches: RecordBatches) -> None:
        """Prove the entries that these batches can prove."""
        for why, number, _ in self._proof.prove(batches, _KEPT):
            kind = Kind.TIME_INDEX if why in _OF_TIME else Kind.OFFSET_INDEX
            words = _WHY[why].format(self._files[kind].slot(number))
            self._entries.setdefault(kind, {}).setdefault(number, words)

    def explain_fault(self, kind: Kind) -> str | None:
        """Say why an index is not sound, once the log was read; None if it is."""
        if kind in self._bad:
            return self._bad[kind]
        index = self._files[kind]
        proof = self._proof
        proved = proof.proved_offsets if kind is Kind.OFFSET_INDEX else proof.proved_times
        bad = dict(self._entries.get(kind, {}))
        for number in range(proved, len(index)):
            bad[number] = f"entry {index.slot(number)} is after the end of the log"
        # All that does not hold may be what a truncation left behind the entries (I2).
        is_untrimmed = self.active and index.is_untrimmed
        if bad and not (is_untrimmed and min(bad) + len(bad) >= len(index)):
            return bad[min(bad)]
        if kind is Kind.TIME_INDEX and not index.is_untrimmed:
            newest = proof.newest_time_ms
            last = index.entry(len(index) - 1)[0] if len(index) else -1
            if newest > last:
                return f"it ends at time {time_text(last)}, but the log ends at {time_text(newest)}"
        return None


def wrong_transactions(data: bytes, built: IndexBuilder) -> str | None:
    """Say why a transaction index is not sound; None if it is.

    It must have the entries that a replay gives, each with that first offset or an earlier one:
    compaction may have removed the first batches since (I24). Others must name an ABORT marker.
    """
    index = TransactionIndex(data, built.base_offset)
    problems = index.problems()
    if problems:
        return f"{problems[0].code}: {problems[0].actual} where {problems[0].expected} is expected"
    wanted = (one for _, one in TransactionIndex(bytes(built.aborted), built.base_offset).slots())
    want = next(wanted, None)
    for _, one in index.slots():
        if want is not None and want.last_offset < one.last_offset:
            break
        if want is not None and want.last_offset == one.last_offset:
            if want.producer_id != one.producer_id or one.first_offset > want.first_offset:
                return (
                    f"its entry for the ABORT marker at offset {one.last_offset} does not match it"
                )
            want = next(wanted, None)
        elif not _holds(built.abort_markers, one.last_offset):
            return f"an entry names offset {one.last_offset}, which has no ABORT marker"
    return None if want is None else f"no entry for the ABORT marker at offset {want.last_offset}"


def _holds(rising: array[int], number: int) -> bool:
    at = bisect_left(rising, number)
    return at < len(rising) and rising[at] == number
