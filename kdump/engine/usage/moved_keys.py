"""Tell which keys are on several partitions, and since when: order per key does not hold there."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from heapq import nsmallest
from itertools import groupby
from typing import TYPE_CHECKING

from kdump.engine.work.spool import Bucket, Spool, find_repeated
from kdump.kernels import lay_out_keys, span_keys
from kdump.kernels.entries import SPAN_BYTES, span_of, topic_and_key
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.engine.work.pace import Pace
    from kdump.findings.rows import RecordChunk

#: Keys that are held, and their bytes; at first there is room for some.
_KEYS_HELD, _KEYS_BYTES = 100_000, 1 << 25
_FIRST_ROOM = _KEYS_HELD >> 5
#: Of a key, so much is shown.
SHOWN_BYTES = 256


class KeySpans:
    """Takes the keys of one partition, and leaves the first and the last record of each."""

    def __init__(self, spool: Spool, topic: int, partition: int) -> None:
        self._spool = spool
        self._topic, self._partition = topic, partition
        self._slots: dict[bytes, int] = {}
        self._spans = array("q", bytes(8 * 4 * _FIRST_ROOM))
        self._size = 0

    def add(self, chunk: RecordChunk) -> None:
        """Take the records of a chunk."""
        at, count = 0, len(chunk)
        while at < count:
            at, self._size = span_keys(
                chunk.data, chunk.records, chunk.rows, at, self._slots, self._spans, self._size,
                _KEYS_BYTES - 1,
            )  # fmt: skip
            if at < count:
                if 4 * len(self._slots) == len(self._spans) < 4 * _KEYS_HELD:
                    self._spans.extend(self._spans)
                else:
                    self.flush()

    def flush(self) -> None:
        """Hand over what is held."""
        block = lay_out_keys(self._slots, self._spans, self._topic, self._partition)
        self._spool.add_block(block)
        self._slots, self._size = {}, 0


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


def moves_of(bucket: Bucket, pace: Pace, *, topics: int, most: int) -> Moves:
    """Find the keys of a bucket that moved; of each of the topics the first moves are kept."""
    keys = array("q", bytes(8 * topics))
    found: dict[int, tuple[int, list[Move]]] = {}
    entries = find_repeated(bucket.runs, bucket.number, SPAN_BYTES, folds=True, keys=keys)
    for said, places in groupby(entries, topic_and_key):
        topic, key = int.from_bytes(said[:4], "big"), said[8:]
        moved, moves = found.get(topic, (0, []))
        moves.append(_move(key, [span_of(entry) for entry in places]))
        if len(moves) > 2 * most + 100:
            moves = nsmallest(most, moves)
        found[topic] = moved + 1, moves
    pace(bucket.size_bytes)
    nothing: tuple[int, list[Move]] = 0, []
    return {
        topic: (count, found.get(topic, nothing)[0], nsmallest(most, found.get(topic, nothing)[1]))
        for topic, count in enumerate(keys)
        if count
    }


def join_results(results: Iterator[Moves], most: int) -> Moves:
    """Put together what came of all buckets."""
    sums: Moves = {}
    for found in results:
        for topic, (keys, moved, moves) in found.items():
            before = sums.get(topic, (0, 0, []))
            first = nsmallest(most, [*before[2], *moves])
            sums[topic] = before[0] + keys, before[1] + moved, first
    return sums


def _move(key: bytes, spans: list[tuple[int, ...]]) -> Move:
    order = sorted((time, partition) for partition, _, time, *_ in spans)
    of = {span[0]: span for span in spans}
    former, second = of[order[0][1]], of[order[1][1]]
    _, offset, time, *_ = second
    partitions = tuple(partition for _, partition in order)
    return Move(time, key[:SHOWN_BYTES], len(key), partitions, offset, former[4] > time)
