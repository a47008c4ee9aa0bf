"""Replay `__share_group_state`: where the share groups stand in each partition (G5).

A snapshot says all; updates behind it say what changed. Deliveries of single records are not kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.kernels import columns as c
from kdump.messages.records import decode
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.findings.rows import RecordChunk

TOPIC = "__share_group_state"
_UNCHANGED = -1


class SharePartition(NamedTuple):
    """How far a share group is in a partition; `start_offset` None: not initialised."""

    start_offset: int | None
    leader_epoch: int | None
    write_ms: int
    source_offset: int


class ShareLog:
    """What one partition of the topic comes to: by group, topic id and partition."""

    def __init__(self, until_ms: int | None = None) -> None:
        self.partitions: dict[tuple[str, str, int], SharePartition] = {}
        self.unknown = 0
        self._until_ms = until_ms

    def take(self, chunk: RecordChunk) -> None:
        """Take up records."""
        records, batches = chunk.records, chunk.batches
        for row in range(records.count):
            if batches.flags_of(records.batch(row)) & c.CONTROL:
                continue
            if self._until_ms is None or records.timestamp(row) <= self._until_ms:
                self._record(
                    records.key(chunk.data, row),
                    records.payload(chunk.data, row),
                    records.timestamp(row),
                    records.offset(row),
                )

    def _record(self, key: bytes | None, value: bytes | None, time_ms: int, offset: int) -> None:
        read_key, read_value = decode(TOPIC, key, value)
        if read_key is None or read_key.data is None:
            self.unknown += 1
            return
        names = tuple(read_key.data.values())
        if read_value is None:
            self.partitions.pop(names, None)
            return
        data = read_value.data
        if data is None:
            self.unknown += 1
            return
        start, epoch = data["startOffset"], data["leaderEpoch"]
        before = self.partitions.get(names)
        if read_key.type == "share_update":
            if before is None:
                return  # an update of what is not there is passed over
            start = before.start_offset if start == _UNCHANGED else start
            epoch = before.leader_epoch if epoch == _UNCHANGED else epoch
        self.partitions[names] = SharePartition(
            None if start == _UNCHANGED else start,
            None if epoch == _UNCHANGED else epoch,
            time_ms,
            offset,
        )
