"""Translate committed offsets: by MirrorMaker's own topics where they are, and by records."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import Any

from kdump.engine.coordinators.partitions import Reported
from kdump.engine.dump.split_reader import SplitReader
from kdump.engine.groups.options import GroupOptions
from kdump.engine.groups.run import groups
from kdump.engine.mirror.plan import MirrorOptions, Pair, Plan
from kdump.engine.reading.options import DumpOptions
from kdump.engine.work.splits import plan as plan_splits
from kdump.errors import KdumpError, NothingToDo
from kdump.findings.finding import Finding
from kdump.findings.rows import RecordChunk
from kdump.rows.compare import TranslatedOffset
from kdump.rows.groups import CommittedOffset
from kdump.tuples import NamedTuple
from kdump.values.decoder import Decoder
from kdump.values.decoders.mirror import decoder

_CHECKPOINT, _SYNC = "checkpoint", "offset-sync"
#: Takes what a record of MirrorMaker's says.
_Take = Callable[[dict[str, Any]], None]


class SourceOffset(NamedTuple):
    """A committed offset of the source."""

    group: str
    pair: int
    offset: int


class Sync(NamedTuple):
    """An offset of the source, and the one of the target that stands for it."""

    upstream: int
    downstream: int


class Translations:
    """The committed offsets of the source, and what MirrorMaker says of them."""

    def __init__(self, pairs: list[Pair], options: MirrorOptions) -> None:
        self._pairs = pairs
        self._options = options
        self._numbers = {(one.topic, one.partition): at for at, one in enumerate(pairs)}
        self._there = {(one.target_topic, one.partition): at for at, one in enumerate(pairs)}
        self._committed: dict[int, list[SourceOffset]] = {}
        self._wanted: dict[int, list[int]] = {}
        self._checkpoints: dict[tuple[str, int], Sync] = {}
        #: Of each offset of `wanted_offsets`, the last sync between the one before and this.
        self._syncs: dict[int, list[Sync | None]] = {}
        self._last_upstream: dict[int, int] = {}

    def gather(self, source: str, planned: Plan) -> Iterator[Reported]:
        """Read committed offsets, checkpoints and offset syncs; yield what goes wrong."""
        options = GroupOptions(group=self._options.group)
        for one in groups([source], options):
            if isinstance(one, (Finding, KdumpError)):
                if not isinstance(one, NothingToDo):
                    yield one
            elif isinstance(one, CommittedOffset) and one.offset is not None and not one.pending:
                pair = self._numbers.get((one.topic, one.partition))
                if pair is not None:
                    commit = SourceOffset(one.group, pair, one.offset)
                    self._committed.setdefault(pair, []).append(commit)
        yield from self._read(planned.checkpoints, "a.checkpoints.internal", self._checkpoint)
        yield from self._read(planned.syncs, "mm2-offset-syncs.a.internal", self._sync)

    def _read(self, paths: list[str], topic: str, take: _Take) -> Iterator[Reported]:
        decode = decoder(topic)
        for split in plan_splits(paths, DumpOptions()) if paths else ():
            if isinstance(split, KdumpError):
                yield split
                continue
            for item in SplitReader(split.uncut(), DumpOptions(), as_stored=True).items():
                if isinstance(item, (Finding, KdumpError)):
                    yield item
                elif isinstance(item, RecordChunk) and item.controls is None:
                    self._decode(item, decode, take)

    def _decode(self, chunk: RecordChunk, decode: Decoder, take: _Take) -> None:
        data = memoryview(chunk.data)
        for row in chunk.numbers:
            key, value = chunk.records.key(data, row), chunk.records.payload(data, row)
            if key is None or value is None:
                continue
            of_key = decode.read_key(bytes(key))
            of_value = decode.read_value(of_key, bytes(value))
            if isinstance(of_key, dict) and isinstance(of_value, dict):
                take(of_key["data"] | of_value["data"])

    def _checkpoint(self, said: dict[str, Any]) -> None:
        pair = self._there.get((said["of_topic"], said["of_partition"]))
        if pair is not None:
            self._checkpoints[said["group"], pair] = _sync_of(said)

    def _sync(self, said: dict[str, Any]) -> None:
        """Keep a sync for the committed offset behind it; one that goes back ends all before."""
        pair = self._numbers.get((said["of_topic"], said["of_partition"]), -1)
        sync, wanted = _sync_of(said), self.wanted_offsets(pair)
        if sync.upstream < self._last_upstream.get(pair, sync.upstream):
            self._syncs.pop(pair, None)
        self._last_upstream[pair] = sync.upstream
        at = bisect_left(wanted, sync.upstream)
        if at < len(wanted):
            self._syncs.setdefault(pair, [None] * len(wanted))[at] = sync

    def _nearest(self, pair: int, offset: int) -> Sync | None:
        """Return the nearest sync that is not above a committed offset (G9)."""
        at = bisect_right(self.wanted_offsets(pair), offset)
        syncs = self._syncs.get(pair, [])[:at]
        return next((sync for sync in reversed(syncs) if sync is not None), None)

    def wanted_offsets(self, pair: int) -> list[int]:
        """Return the offsets of a partition that are translated, rising."""
        if pair not in self._wanted:
            self._wanted[pair] = sorted({one.offset for one in self._committed.get(pair, ())})
        return self._wanted[pair]

    def rows(self, pair: int, found: dict[int, int]) -> Iterator[TranslatedOffset]:
        """Yield the translated offsets of a partition; `found` are those by the records."""
        said = self._pairs[pair]
        for one in sorted(self._committed.get(pair, ())):
            checkpoint = self._checkpoints.get((one.group, pair))
            sync = self._nearest(pair, one.offset)
            by_records = found.get(one.offset)
            offset, basis = by_records, "records"
            by_sync = None
            if sync is not None:
                by_sync = sync.downstream + (sync.upstream < one.offset)
                offset, basis = by_sync, _SYNC
            if checkpoint is not None and checkpoint.upstream == one.offset:
                offset, basis = checkpoint.downstream, _CHECKPOINT
            yield TranslatedOffset(
                one.group,
                said.target_topic,
                said.partition,
                offset,
                None if offset is None else basis,
                said.topic,
                one.offset,
                by_records,
                by_sync,
                None if checkpoint is None else checkpoint.downstream,
                None if checkpoint is None else checkpoint.upstream,
            )


def _sync_of(said: dict[str, Any]) -> Sync:
    return Sync(said["upstream_offset"], said["downstream_offset"])
