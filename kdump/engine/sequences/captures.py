"""Follow the sequence numbers in the produce requests of a capture.

Requests number their batches from offset 0 each. In the rows, `offset` counts the records that the
capture holds for the partition; nothing is missing between them, so that every jump is a gap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump import kernels
from kdump.engine.frames.sent_sets import SentSet, read_sent_sets
from kdump.engine.sequences.replay import SequenceReplay, SequenceSums
from kdump.errors import KdumpError, PathError
from kdump.findings.finding import Finding, Severity
from kdump.findings.rows import Place, Row
from kdump.kernels import columns as c
from kdump.record.frames import Oversize
from kdump.storage.file_records import DEFAULT_LIMIT

if TYPE_CHECKING:
    from kdump.storage.names import Kind
    from kdump.storage.targets import Selection

_MOST_PARTITIONS = 1 << 16  # that are followed
_BATCHES_AT_ONCE = 4096


class _Partition:
    """The producers of one partition, and how many records of theirs were seen."""

    def __init__(self, replay: SequenceReplay) -> None:
        self.replay, self.offset = replay, 0

    def take(self, path: str, one: SentSet) -> None:
        """Follow the batches of a request, as far as they are sound."""
        data, place = one.data, Place(one.topic, one.partition, None, path)
        batches, _, _ = kernels.walk(data, 0, len(data), 0, -1, True, _BATCHES_AT_ONCE)
        wrong = c.WRONG & ~c.OFFSET_NOT_RISING  # each of several batches begins at 0
        sound = next((r for r in range(batches.count) if batches.flags_of(r) & wrong), None)
        if sound is not None:
            batches = batches.slice(0, sound)
        if not self.replay.counts(batches):
            return
        for row in range(batches.count):
            span = max(batches.last_offset(row) - batches.base_offset(row), 0)
            position = one.position_of(batches.position(row))
            end = self.offset + span
            batches.put(row, base_offset=self.offset, last_offset=end, position=position)
            self.offset = end + 1
        self.replay.take(place, Oversize(batches))
        if sound is not None:
            self.replay.forget()


def follow_capture(
    path: str, kind: Kind, selection: Selection, expiration_ms: int, *, explained: bool
) -> tuple[tuple[Row, ...], tuple[Finding | KdumpError, ...], SequenceSums]:
    """Read a capture: rows, what is reported, sums. Missing bytes make every producer new."""
    partitions: dict[tuple[str | None, int | None], _Partition] = {}
    reported: list[Finding | KdumpError] = []
    left_out = set()
    for item in read_sent_sets(path, kind, selection, DEFAULT_LIMIT):
        if isinstance(item, SentSet):
            key = item.topic, item.partition
            partition = partitions.get(key)
            if partition is None and len(partitions) < _MOST_PARTITIONS:
                replay = SequenceReplay(item.topic, expiration_ms, explained=explained, sent=True)
                replay.forget(damaged=False)  # what was sent before is not known
                partition = partitions[key] = _Partition(replay)
            if partition is None:
                left_out.add(hash(key))
            else:
                partition.take(path, item)
            continue
        reported.append(item)
        if isinstance(item, PathError) or item.severity is Severity.DAMAGE:
            for partition in partitions.values():
                partition.replay.forget()
    rows: list[Row] = []
    sums = SequenceSums(partitions_not_followed=len(left_out))
    for partition in partitions.values():
        rows.extend(partition.replay.rows)
        sums = sums.plus(partition.replay.sums())
    return tuple(rows), tuple(reported), sums
