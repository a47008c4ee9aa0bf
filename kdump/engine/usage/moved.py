"""Tell which keys are on several partitions, and since when: order per key does not hold there."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nsmallest
from itertools import groupby
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from kdump.engine.work.spool import Bucket, Spool, merged

if TYPE_CHECKING:
    from kdump.engine.work.pace import Pace

#: Checksum, topic, size of the key; the key; where it lies.
_START = Struct(">III")
_SPAN = Struct(">Iqqqq")
_KEYS_HELD = 100_000
#: Of a key, so much is shown.
SHOWN_BYTES = 256


class KeySpans:
    """Takes the keys of one partition, and leaves the first and the last record of each."""

    def __init__(self, spool: Spool, topic: int, partition: int) -> None:
        self._spool = spool
        self._topic, self._partition = topic, partition
        self._held: dict[bytes, list[int]] = {}
        self._size = 0

    def add(self, key: bytes, offset: int, timestamp: int) -> None:
        """Take a record."""
        span = self._held.get(key)
        if span is not None:
            span[2:] = offset, timestamp
            return
        self._size += len(key)
        if len(self._held) >= _KEYS_HELD or self._size >> 25:
            self.flush()
            self._size = len(key)
        self._held[key] = [offset, timestamp, offset, timestamp]

    def flush(self) -> None:
        """Hand over what is held."""
        held, self._held = self._held, {}
        for key, span in held.items():
            start = _START.pack(crc32(key, self._topic), self._topic, len(key))
            self._spool.add(start + key + _SPAN.pack(self._partition, *span))


class Move(NamedTuple):
    """A key that went on, or began, on a second partition."""

    timestamp: int
    key: bytes
    key_size: int
    partitions: tuple[int, ...]  # in the order of its first records there
    offset: int  # of the first record on the second
    interleaved: bool  # a later record lies on the partition before


#: Topic -> keys, keys that moved, and the first moves.
Moves = dict[int, tuple[int, int, list[Move]]]


def moves_of(bucket: Bucket, pace: Pace, *, most: int) -> Moves:
    """Find the keys of a bucket that moved; of each topic the first moves are kept."""
    found: Moves = {}
    for said, entries in groupby(merged(bucket.runs, bucket.number), _key):
        topic, key = int.from_bytes(said[:4], "big"), said[8:]
        keys, moved, moves = found.get(topic, (0, 0, []))
        spans: dict[int, list[tuple[int, int, int]]] = {}
        for entry in entries:
            partition, offset, first, _, last = _SPAN.unpack_from(entry, len(entry) - _SPAN.size)
            spans.setdefault(partition, []).append((first, offset, last))
        if len(spans) > 1:
            moved += 1
            moves.append(_move(key, spans))
            if len(moves) > 2 * most + 100:
                moves = nsmallest(most, moves)
        found[topic] = keys + 1, moved, moves
    pace(bucket.size_bytes)
    return {topic: (*rest, nsmallest(most, moves)) for topic, (*rest, moves) in found.items()}  # type: ignore[misc]


def joined(results: Iterator[Moves], most: int) -> Moves:
    """Put together what came of all buckets."""
    sums: Moves = {}
    for found in results:
        for topic, (keys, moved, moves) in found.items():
            before = sums.get(topic, (0, 0, []))
            first = nsmallest(most, [*before[2], *moves])
            sums[topic] = before[0] + keys, before[1] + moved, first
    return sums


def _move(key: bytes, spans: dict[int, list[tuple[int, int, int]]]) -> Move:
    firsts = {partition: min(each)[:2] for partition, each in spans.items()}
    order = sorted(firsts, key=lambda partition: (firsts[partition][0], partition))
    time, offset = firsts[order[1]]
    ended = max(last for _, _, last in spans[order[0]])
    return Move(time, key[:SHOWN_BYTES], len(key), tuple(order), offset, ended > time)


def _key(entry: bytes) -> bytes:
    return entry[4 : len(entry) - _SPAN.size]
