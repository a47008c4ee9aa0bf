"""Replay `__consumer_offsets` as a group coordinator does when it loads a partition (G2, G4).

What is held is what the topic holds once it is compacted: for each key its last record, and of
commits in open transactions one for each producer. Nothing is read but what the replay has to know:
the record type, the group, whether there is a value. `group_state.py` reads the rest, of what is
left at the end.

    log = OffsetsLog()
    for chunk in chunks:          # of records, in the order of the log
        log.take(chunk)
    log.commits, log.pending      # who committed what
    log.groups()                  # names of the groups there are
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump.kernels import columns as c
from kdump.replay import record_bytes
from kdump.replay.offset_holes import OffsetHoles
from kdump.replay.record_bytes import Stored
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.findings.rows import RecordChunk

TOPIC = "__consumer_offsets"

CLASSIC, CONSUMER, SHARE, STREAMS = "Classic", "Consumer", "Share", "Streams"

_COMMIT, _BEHIND_COMMITS = b"\0\1", b"\0\2"  # what keys of commits begin with, and what follows
_TYPE_BYTES = 2
_NAME_AT = 4  # behind the type and the size of the group's name
#: Record type -> the kind of group that has such records.
FAMILIES: dict[int, str] = {
    2: CLASSIC,
    **dict.fromkeys((*range(3, 9), 16), CONSUMER),
    **dict.fromkeys(range(9, 16), SHARE),
    **dict.fromkeys(range(17, 24), STREAMS),
}
#: Types of the record that is the group itself: its tombstone ends the group.
_GROUPS = frozenset((2, 3, 11, 17))
_ENDED_OF_KEY = 8  # commits that tombstones removed, of one key
_ENDED_KEPT = 10_000  # groups that ended, before those without commits are forgotten


class Change(NamedTuple):
    """A committed offset that became another.

    `now` is None where a tombstone ended it; `at_ms` is the time of the record, or of the marker
    that made a transactional commit count.
    """

    key: bytes
    before: Stored | None
    now: Stored | None
    at_ms: int
    source_offset: int
    producer_id: int  # -1: of no transaction


class GroupRecord(NamedTuple):
    """A record about a group itself, as it was taken up; a tombstone has no value."""

    key: bytes
    value: bytes | None
    at_ms: int
    source_offset: int


def group_of(key: bytes) -> bytes | None:
    """Return the group that a key names; None where it is malformed."""
    size = int.from_bytes(key[_TYPE_BYTES:_NAME_AT], "big", signed=True)
    end = _NAME_AT + size
    return key[_NAME_AT:end] if size >= 0 and end <= len(key) else None


def keys_of(group: str) -> bytes:
    """Return what all keys of a group begin with behind their type."""
    name = group.encode("utf-8", "surrogateescape")
    return len(name).to_bytes(_NAME_AT - _TYPE_BYTES, "big") + name


class OffsetsLog(OffsetHoles):
    """What one partition of the topic comes to, up to where it was replayed.

    `until_ms`: records above that time are passed over, and so are those of all groups but the one
    whose keys begin with `only` (see `keys_of`). `commits` and `pending` are by key, those of type
    0 as if they were of type 1, the latter by producer id; `records` are all others, by group.
    `unknown` counts records of types that nobody knows. `ended` has, if asked for, the commits that
    tombstones removed, by key in the order of the log, each with the time of its tombstone.
    """

    def __init__(
        self, until_ms: int | None = None, only: bytes = b"", *, keeps_ended: bool = False
    ) -> None:
        super().__init__()
        self.commits: dict[bytes, Stored] = {}
        self.pending: dict[int, dict[bytes, Stored]] = {}
        self.records: dict[bytes, dict[bytes, Stored]] = {}
        self.unknown = 0
        self.ended: dict[bytes, list[tuple[Stored | None, int]]] = {}
        self._keeps_ended = keeps_ended
        self._until_ms = until_ms
        self._only = only
        self._waiting: defaultdict[bytes, set[int]] = defaultdict(set)  # key -> producers
        self._gone: dict[bytes, int] = {}  # group -> offset of its last commit that is no more
        self._ended: dict[bytes, int] = {}  # group -> offset of its last tombstone

    def groups(self) -> set[bytes]:
        """Name the groups there are: a commit makes one as well, until the group is ended (G2)."""
        found = {group for group, held in self.records.items() if held}
        ended = self._ended
        for commits in (self.commits, *self.pending.values()):
            for key, stored in commits.items():
                group = group_of(key)
                if group is not None and stored[0] > ended.get(group, -1):
                    found.add(group)
        found |= self._gone.keys()
        return found

    def take(self, chunk: RecordChunk) -> None:
        """Take up records. Commits of no transaction, of which there are most, go in at once."""
        if not self.check_offsets(chunk):
            return
        keys = record_bytes.keys(chunk)
        if self._are_plain(chunk, keys):
            self._take_commits(chunk, keys, 0, len(keys))
            return
        first = 0
        for row in [*self._special_rows(chunk, keys), len(keys)]:
            if first < row:
                self._take_commits(chunk, keys, first, row)
            if row < len(keys):
                for _ in self._record(chunk, row, keys[row]):
                    pass
            first = row + 1

    def changes(self, chunk: RecordChunk) -> Iterator[Change | GroupRecord]:
        """Take up records one by one; yield what each does to the committed offsets, or itself."""
        if not self.check_offsets(chunk):
            return
        only = self._only
        may_be_marker = chunk.batches.flags & c.CONTROL
        for row, key in enumerate(record_bytes.keys(chunk)):
            if not only or key.startswith(only, _TYPE_BYTES) or may_be_marker:
                yield from self._record(chunk, row, key)

    def _are_plain(self, chunk: RecordChunk, keys: list[bytes]) -> bool:
        """Whether all are commits of no transaction, and of the time that is asked for."""
        records, until_ms = chunk.records, self._until_ms
        return (
            not chunk.batches.flags & (c.TRANSACTIONAL | c.CONTROL)
            and min(records.value_sizes) >= 0
            and min(keys) >= _COMMIT
            and max(keys) < _BEHIND_COMMITS
            and (until_ms is None or max(records.timestamps) <= until_ms)
        )

    def _special_rows(self, chunk: RecordChunk, keys: list[bytes]) -> list[int]:
        """Find the records that are not such commits."""
        records, batches, until_ms = chunk.records, chunk.batches, self._until_ms
        if until_ms is not None and max(records.timestamps) > until_ms:
            return list(range(len(keys)))
        other = c.TRANSACTIONAL | c.CONTROL
        has_others = batches.flags & other
        return [
            row
            for row, size in enumerate(records.value_sizes)
            if size < 0
            or not keys[row].startswith(_COMMIT)
            or (has_others and batches.flags_of(records.batch(row)) & other)
        ]

    def _take_commits(self, chunk: RecordChunk, keys: list[bytes], first: int, last: int) -> None:
        """Put plain commits in, at the speed of dictionaries: nothing is looked at in any."""
        records = chunk.records
        self.end_offset = max(self.end_offset, records.offset(last - 1) + 1)
        if self._only:
            only = self._only
            for row in range(first, last):
                if keys[row].startswith(only, _TYPE_BYTES):
                    value = records.payload(chunk.data, row) or b""
                    stored = records.offset(row), records.timestamp(row), value
                    self.commits[keys[row]] = stored
            return
        self.commits.update(
            zip(keys[first:last], record_bytes.read_stored(chunk, first, last), strict=True)
        )

    def _record(self, chunk: RecordChunk, row: int, key: bytes) -> Iterator[Change | GroupRecord]:
        """Take up one record of any type."""
        records, batches = chunk.records, chunk.batches
        if batches.flags_of(records.batch(row)) & c.CONTROL:
            yield from self._marker(chunk, row, chunk.control(row))
            return
        time_ms = records.timestamp(row)
        if self._until_ms is not None and time_ms > self._until_ms:
            return
        if self._only and not key.startswith(self._only, _TYPE_BYTES):
            return
        offset = records.offset(row)
        self.end_offset = max(self.end_offset, offset + 1)
        value = records.payload(chunk.data, row)
        stored = None if value is None else (offset, time_ms, value)
        type_id = int.from_bytes(key[:_TYPE_BYTES], "big", signed=True)
        if len(key) < _TYPE_BYTES:
            self.unknown += 1
        elif type_id in (0, 1):
            key = _COMMIT + key[_TYPE_BYTES:]
            batch = records.batch(row)
            producer_id = -1
            if batches.flags_of(batch) & c.TRANSACTIONAL:
                producer_id = batches.producer_id(batch)
            if stored is None:
                yield from self._end_commit(key, offset, time_ms)
            elif producer_id < 0:
                yield Change(key, self.commits.get(key), stored, time_ms, offset, -1)
                self.commits[key] = stored
            else:
                self.pending.setdefault(producer_id, {})[key] = stored
                self._waiting[key].add(producer_id)
        elif type_id in FAMILIES:
            self._group_record(type_id, key, offset, stored)
            yield GroupRecord(key, value, time_ms, offset)
        else:
            self.unknown += 1

    def _end_commit(self, key: bytes, offset: int, time_ms: int) -> Iterator[Change]:
        """Take up a tombstone: what is pending for the key ends with it (G4)."""
        before = self.commits.pop(key, None)
        if self._keeps_ended:
            kept = self.ended.setdefault(key, [])
            if before is not None or not kept:
                kept.append((before, time_ms))
                del kept[:-_ENDED_OF_KEY]
        ended = [] if before is None else [before]
        for producer_id in self._waiting.pop(key, ()):
            commits = self.pending[producer_id]
            ended.append(commits.pop(key))
            if not commits:
                del self.pending[producer_id]
        self._note_removed(key, ended)
        yield Change(key, before, None, time_ms, offset, -1)

    def _note_removed(self, key: bytes, ended: list[Stored]) -> None:
        """Remember that a group had commits: these made it (G2)."""
        group = group_of(key)
        newest = max((stored[0] for stored in ended), default=-1)
        if group is not None and newest > self._ended.get(group, -1):
            self._gone[group] = max(newest, self._gone.get(group, -1))

    def _group_record(self, type_id: int, key: bytes, offset: int, stored: Stored | None) -> None:
        group = group_of(key)
        if group is None:
            self.unknown += 1
            return
        held = self.records.get(group, {})
        if stored is not None:
            family = FAMILIES[type_id]
            if held and FAMILIES[next(iter(held))[1]] != family:
                held.clear()  # it was converted to another kind of group
            held[key] = stored
            self.records[group] = held
            return
        held.pop(key, None)
        if type_id in _GROUPS:
            held.clear()
            self._gone.pop(group, None)
            self._ended[group] = offset
            with_commits = len(self.commits) + len(self._waiting)
            if len(self._ended) >= max(_ENDED_KEPT, 2 * with_commits):
                self._forget_ended()
        if not held:
            self.records.pop(group, None)

    def _forget_ended(self) -> None:
        """Forget groups that ended and have no commits that this could be held against."""
        with_commits = set(map(group_of, self.commits))
        for commits in self.pending.values():
            with_commits.update(map(group_of, commits))
        self._ended = {group: at for group, at in self._ended.items() if group in with_commits}

    def _marker(
        self, chunk: RecordChunk, row: int, said: dict[str, object] | None
    ) -> Iterator[Change]:
        """Take up a transaction marker: a commit counts now, unless a later one is there (G4)."""
        records = chunk.records
        time_ms = records.timestamp(row)
        if said is None or (self._until_ms is not None and time_ms > self._until_ms):
            return
        if said["type"] not in ("COMMIT", "ABORT") or "malformed" in said:
            return
        self.end_offset = max(self.end_offset, records.offset(row) + 1)
        producer_id = chunk.batches.producer_id(records.batch(row))
        for key, stored in self.pending.pop(producer_id, {}).items():
            self._waiting[key].discard(producer_id)
            if not self._waiting[key]:
                del self._waiting[key]
            before = self.commits.get(key)
            if said["type"] == "ABORT" or (before is not None and before[0] > stored[0]):
                self._note_removed(key, [stored])
            else:
                yield Change(key, before, stored, time_ms, stored[0], producer_id)
                self.commits[key] = stored
