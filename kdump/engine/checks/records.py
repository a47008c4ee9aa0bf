"""Check every record against the header of its batch (`--deep`).

A checksum proves that bytes are as they were written, not that what was written makes sense: a
broker that restarts keeps a batch whose records nobody can decode (F22). Records are looked at by
the kernel, a run at a time; Python sees a batch only if it is odd, or wrong.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kdump import kernels
from kdump.broker.settings import CLEANED, OPTION, TOPIC
from kdump.engine.reading.check import NOT_CHECKED, Check, Conditional, Reported, RestsOn
from kdump.engine.reading.damage import BatchAt, at_place, decode_findings
from kdump.findings.ranges import range_text
from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.kernels.text_form import time_text
from kdump.record.batch import read_batch
from kdump.record.stretches import stretches

if TYPE_CHECKING:
    from kdump.engine.reading.partition_scan import PartitionScan, SegmentScan
    from kdump.findings.finding import Finding
    from kdump.findings.rows import Place
    from kdump.kernels.columns import DecodedRecords, RecordBatches
    from kdump.record.frames import Oversize, Run

RECORDS_A_CHUNK = 8192
_REPORTED_A_CHUNK = 64
_STATE = (-1, 0, -1, 0, 0, -1, 0, -1, 0)
_NULLS, _FIRST_NULL, _SLACK, _FIRST_SLACK = 4, 5, 6, 7

_COMPACT = "compact"  # in cleanup.policy
#: Where the policy is from -> how a sentence names it.
_POLICY = {
    TOPIC: "the topic's policy is",
    OPTION: "the policy given with --config is",
    CLEANED: "cleaner-offset-checkpoint has the topic, so the policy is",
}


class Records(Check):
    """Counts, offsets, times, keys, inner messages and their checksums."""

    reads_snapshots = True
    reads_records = True

    def __init__(self, partition: PartitionScan) -> None:
        super().__init__(partition)
        self._state = array("q", _STATE)

    def begin(self, segment: SegmentScan) -> None:
        """Start the sums anew."""
        self._state = array("q", _STATE)

    def run(self, segment: SegmentScan, run: Run) -> Iterator[Reported]:
        """Decode a run: many batches in one kernel call, what is odd or large one by one."""
        place, batches = segment.place, run.batches
        limit = self.partition.limit
        for _, records, first, behind, reason in stretches(
            *run, limit=limit, max_records=RECORDS_A_CHUNK
        ):
            if records is None:
                yield from self._check_one(segment, run, first)
                continue
            yield from self._check_rows(place, batches, records, complete=not reason)
            if reason:
                self._state[0] = -1
                last = behind - 1
                decoded = sum(1 for at in records.batches if at == last)
                yield from self._undecodable(BatchAt(place, batches, last), reason, "", decoded)

    def oversize(self, segment: SegmentScan, one: Oversize) -> Iterator[Reported]:
        """A batch too large to be held is over the limit."""
        batch = BatchAt(segment.place, one.batches, 0)
        yield from self._undecodable(batch, reasons.OVER_LIMIT, "", 0)

    def sums(self) -> tuple[int, ...]:
        """Give what sound records of this segment came to so far, for `add`."""
        return tuple(self._state[_NULLS : _FIRST_SLACK + 1])

    def add(self, sums: Sequence[int]) -> None:
        """Take up what the sound records that follow came to, where they were read elsewhere."""
        for count, first in ((_NULLS, _FIRST_NULL), (_SLACK, _FIRST_SLACK)):
            if sums[count - _NULLS] and not self._state[count]:
                self._state[first] = sums[first - _NULLS]
            self._state[count] += sums[count - _NULLS]

    def finish(self, segment: SegmentScan) -> Iterator[Finding]:
        """Say once for each segment what is odd but legal."""
        settings = self.partition.settings
        nulls, slack = self._state[_NULLS], self._state[_SLACK]
        if (
            nulls
            and "cleanup_policy" in settings.stated_fields
            and _COMPACT in settings.cleanup_policy
        ):
            policy = _POLICY.get(
                settings.source("cleanup_policy"), "the broker's log.cleanup.policy is"
            )
            words = "One record has" if nulls == 1 else f"{nulls:,} records have"
            yield at_place(
                "null-key",
                segment.place,
                offset=self._state[_FIRST_NULL],
                message=f"{words} no key, and {policy} to compact.",
            )
        if slack:
            words = "One message has" if slack == 1 else f"{slack:,} messages have"
            yield at_place(
                "slack-bytes",
                segment.place,
                position=self._state[_FIRST_SLACK],
                message=f"{words} bytes after the value; every consumer ignores them.",
            )

    def _check_one(self, segment: SegmentScan, run: Run, row: int) -> Iterator[Reported]:
        """Open one batch that is compressed, a control batch, flagged or large."""
        batches, limit = run.batches, self.partition.limit
        batch = BatchAt(segment.place, batches, row)
        decoded = 0
        first: int | None = None
        for piece in read_batch(
            run.data, run.base, batches, row, limit=limit, max_records=RECORDS_A_CHUNK
        ):
            if first is None and piece.records.count:
                first = piece.records.offset(0)
            decoded += piece.records.count
            complete = piece.reason in (reasons.END, reasons.INNER_CUT_SHORT)
            yield from self._check_rows(segment.place, batches, piece.records, complete=complete)
            if piece.reason not in (reasons.END, reasons.FULL):
                self._state[0] = -1
                yield from self._undecodable(batch, piece.reason, piece.detail, decoded)
        if batches.is_wrapper(row):
            segment.count_wrapped(decoded)
            before = batches.last_offset(row - 1) if row else segment.last_offset
            if first is not None and 0 <= first <= before < batches.last_offset(row):
                yield _overlap(batch, first, before)

    def _check_rows(
        self, place: Place, batches: RecordBatches, records: DecodedRecords, *, complete: bool
    ) -> Iterator[Reported]:
        """Let the kernel look, and name each wrong batch once for each thing wrong with it."""
        found = kernels.prove_records(batches, records, self._state, complete, _REPORTED_A_CHUNK)
        if not found:
            return
        reported: set[tuple[int, int]] = set()
        for why, row, record in found:
            if (why, row) not in reported:
                reported.add((why, row))
                yield from self._report_row(BatchAt(place, batches, row), records, why, record)

    def _report_row(
        self, batch: BatchAt, records: DecodedRecords, why: int, record: int
    ) -> Iterator[Reported]:
        batches, row = batch.batches, batch.row
        offset = records.offset(record) if record < records.count else None
        base, last = batches.base_offset(row), batches.last_offset(row)
        if why == c.MAX_TIMESTAMP:
            if record == records.count:  # it may have begun in an earlier piece
                newest = self._state[2]
            else:
                of_batch = zip(records.batches, records.timestamps, strict=True)
                newest = max(time for at, time in of_batch if at == row)
            stated = batches.max_timestamp(row)
            message = _max_timestamp_words(newest, stated)
            yield batch.finding(
                "batch-max-timestamp", expected=newest, actual=stated, message=message
            )
        elif why == c.INNER_CRC:
            yield batch.finding("inner-crc-mismatch", offset=offset)
        elif why == c.LAST_OFFSET:
            yield _make_conditional(_wrapper_ends(batch, records, record))
        elif not batches.flags_of(row) & c.DELTA_COUNT:  # else reported already
            if why == c.OFFSET_ORDER:
                message = f"Record offset {offset:,} is not above that of the record before it."
            elif batches.is_wrapper(row):
                return  # then its last message is another, or they do not rise
            else:
                message = (
                    f"Record offset {offset:,} is outside its batch, {range_text(base, last)}."
                )
            yield _make_conditional(
                batch.finding(
                    "record-offset",
                    offset=offset,
                    actual=offset,
                    message=message,
                    consequences=self._explain_sums(batch),
                )
            )

    def _explain_sums(self, batch: BatchAt) -> tuple[str, ...]:
        """Say where a right checksum proves little: a cleaner looks at none, and makes new ones.

        It does so for a batch that loses records, which has fewer than its offsets from then on.
        """
        batches, row = batch.batches, batch.row
        last = batches.last_offset(row)
        holes = batches.records_count(row) <= last - batches.base_offset(row)
        if batches.is_legacy(row) or not holes or last >= self.partition.cleaner_offset():
            return ()
        words = (
            "The log cleaner rewrote this batch without checking its checksum: earlier "
            "damage may be hidden in it, here and elsewhere."
        )
        return (words,)

    def _undecodable(
        self, batch: BatchAt, reason: int, detail: str, decoded: int
    ) -> Iterator[Reported]:
        what = NOT_CHECKED.get(reason)
        if what is not None:
            self.not_checked[what] += 1
        if batch.batches.flags_of(batch.row) & (c.DELTA_COUNT | c.CODEC_UNKNOWN | c.MAGIC_UNKNOWN):
            return  # what is wrong with the header is reported already
        for reported in decode_findings(reason, detail, *batch, decoded):
            yield reported if what is not None else _make_conditional(reported)


def _wrapper_ends(batch: BatchAt, records: DecodedRecords, record: int) -> Finding:
    """Tell of a magic 0 wrapper that ends elsewhere; its messages have offsets of their own."""
    last = batch.batches.last_offset(batch.row)
    inside = records.offset(record - 1) if 0 < record <= records.count else None
    message = f"The wrapper's offset {last:,} is not the offset of its last message"
    consequences: tuple[str, ...] = ()
    if inside is not None:
        message += f", {inside:,}"
        words = "stops at this wrapper, which does not contain them"
        if inside > last:
            words = "skips this wrapper, which contains them"
        low, high = sorted((inside, last))
        consequences = (f"A broker that looks for offsets {range_text(low + 1, high)} {words}.",)
    return batch.finding(
        "wrapper-offset",
        expected=inside,
        actual=last,
        message=f"{message}.",
        consequences=consequences,
    )


def _overlap(batch: BatchAt, first: int, before: int) -> Reported:
    found = batch.finding(
        "wrapper-offset",
        offset=first,
        expected=before + 1,
        actual=first,
        message=f"The wrapper's first message has offset {first:,}, but the entry before "
        f"reaches {before:,}.",
    )
    position = batch.batches.position(batch.row)
    return Conditional(found, RestsOn(found.segment, max(position - 1, 0), position + 1))


def _make_conditional(found: Finding) -> Conditional:
    """Say that a finding follows where its batch stands in a wrong place altogether."""
    assert found.position is not None
    return Conditional(found, RestsOn(found.segment, found.position, found.position + 1))


def _max_timestamp_words(newest: int, stated: int) -> str:
    words = (
        f"The header gives {time_text(stated)} as the largest timestamp, but the newest record has "
        f"{time_text(newest)}."
    )
    if stated < newest:
        return f"{words} Lookups by time skip the records after {time_text(stated)}."
    return f"{words} A max-timestamp lookup may find no record."
