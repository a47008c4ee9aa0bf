"""Partitions of the coordinators' topics, written record by record."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import builders
from message_writing import message_bytes

from kdump.engine.dump.run import dump
from kdump.engine.reading.options import DumpOptions
from kdump.findings.rows import RecordChunk
from kdump.messages.table import message

START_MS = 1_700_000_000_000
#: Record type -> the name of its key and value in Kafka's specifications, without the last word.
NAMES = {
    0: "LegacyOffsetCommit", 1: "OffsetCommit", 2: "GroupMetadata", 3: "ConsumerGroupMetadata",
    5: "ConsumerGroupMemberMetadata", 6: "ConsumerGroupTargetAssignmentMetadata",
    8: "ConsumerGroupCurrentMemberAssignment", 10: "ShareGroupMemberMetadata",
    11: "ShareGroupMetadata", 16: "ConsumerGroupRegularExpression", 17: "StreamsGroupMetadata",
    19: "StreamsGroupMemberMetadata", 20: "StreamsGroupTargetAssignmentMetadata",
    22: "StreamsGroupCurrentMemberAssignment", 23: "StreamsGroupTopology",
}  # fmt: skip

Pair = tuple[bytes | None, bytes | None]


def pair(type_id: int, key: Iterable[object], value: Any = None, *, version: int = 0) -> Pair:
    """Write key and value of a record; without a value it is a tombstone."""
    name = NAMES[type_id]
    known = message(f"{name}Key")
    fields = dict(zip((field.name for field in known.fields), key, strict=True))
    written = type_id.to_bytes(2, "big") + message_bytes(known, 0, fields)
    if value is None:
        return written, None
    return written, version.to_bytes(2, "big") + message_bytes(
        message(f"{name}Value"), version, value
    )


def commit(group: str, place: str, offset: int | None, **more: Any) -> Pair:
    """Write a commit of an offset, None: its tombstone; `place` is `topic-partition`."""
    topic, _, partition = place.rpartition("-")
    version = more.pop("version", 3)
    value = {"offset": offset, "metadata": "", "commitTimestamp": START_MS, **more}
    key = (group, topic, int(partition))
    return pair(1, key, None if offset is None else value, version=version)


def classic(group: str, members: int | None, **more: Any) -> Pair:
    """Write a classic group with so many members, None: its tombstone."""
    if members is None:
        return pair(2, (group,))
    one = {"clientId": "c", "clientHost": "/h", "sessionTimeout": 9, "rebalanceTimeout": 9}
    value = {
        "protocolType": "consumer",
        "generation": 1,
        "protocol": "range" if members else None,
        "leader": "m0" if members else None,
        "currentStateTimestamp": START_MS,
        "members": [
            {**one, "memberId": f"m{number}", "subscription": b"", "assignment": b""}
            for number in range(members)
        ],
        **more,
    }
    return pair(2, (group,), value, version=3)


class Log:
    """Puts batches into a segment; the time rises by a second with each."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.next_offset = 0
        self.now_ms = START_MS

    def add(self, *pairs: Pair, producer_id: int = -1, skip: int = 0) -> int:
        """Append a batch; `skip` offsets before it are missing. Return its base offset."""
        base = self.next_offset + skip
        self.now_ms += 1000
        records = [builders.record(at, 0, *one) for at, one in enumerate(pairs)]
        transactional = {"producer_id": producer_id, "producer_epoch": 0, "attributes": 0x10}
        self.batches.append(
            builders.batch(
                records,
                base_offset=base,
                base_timestamp=self.now_ms,
                max_timestamp=self.now_ms,
                **(transactional if producer_id >= 0 else {}),
            )
        )
        self.next_offset = base + len(pairs)
        return base

    def end(self, producer_id: int, *, committed: bool) -> None:
        """Append a transaction marker."""
        self.now_ms += 1000
        self.batches.append(
            builders.marker(
                int(committed),
                base_offset=self.next_offset,
                producer_id=producer_id,
                timestamp=self.now_ms,
            )
        )
        self.next_offset += 1

    def write(self, directory: Path) -> Path:
        """Write the segment into a partition's directory."""
        directory.mkdir(parents=True)
        (directory / f"{0:020}.log").write_bytes(b"".join(self.batches))
        return directory


def chunks(directory: Path) -> Iterator[RecordChunk]:
    """Read a partition; the chunks may be kept."""
    for item in dump([str(directory)], DumpOptions()):
        if isinstance(item, RecordChunk):
            data = bytes(item.data)
            yield RecordChunk(
                item.place, data, item.batches, item.records, item.rows, item.controls
            )


def pieces(chunk: RecordChunk, cuts: Iterable[int]) -> Iterator[RecordChunk]:
    """Cut a chunk."""
    bounds = [0, *cuts, chunk.records.count]
    for first, last in pairwise(bounds):
        controls = None if chunk.controls is None else chunk.controls[first:last]
        records = chunk.records.slice(first, last)
        yield RecordChunk(chunk.place, chunk.data, chunk.batches, records, None, controls)
