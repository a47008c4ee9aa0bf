"""Copies of partitions that were carved out of images, and how each came to its name.

A name is given only by what says so: the user; batches that a named copy has too; a checkpoint in
an image, whose offset is the end of one log alone and of no other partition; records of internal
topics, by what they say. All else is a partition of its own, `carved-1` and so on, by where it
begins.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Set
from contextlib import suppress
from dataclasses import dataclass
from functools import partial, reduce
from itertools import accumulate
from operator import or_
from typing import TYPE_CHECKING

from kdump import kernels
from kdump.engine.compare.replica import Block, Replica, UnusableRange
from kdump.engine.reading.background_source import BackgroundSource
from kdump.engine.salvage.carved_joins import At, Group, Joins
from kdump.engine.salvage.carved_names import (
    Directory,
    Proposal,
    directories_of,
    propose,
    starts_of,
)
from kdump.engine.salvage.carved_records import internal_topic, sample_keys, topics_by_id
from kdump.engine.salvage.carving import Extent, ImageContents, Piece, carve
from kdump.engine.salvage.copies import Batch, Copy, CopySource, Groups, Stretch
from kdump.errors import KdumpError, PathError, attempt
from kdump.findings.rows import Place, Row
from kdump.kernels.members import codec_name
from kdump.record.frames import Gap
from kdump.record.layout import CODEC_MASK, MAX_INT64
from kdump.rows.salvage import CarvedImage, GroupFacts
from kdump.storage import names
from kdump.storage.local_log import LogSegment
from kdump.storage.raw_image import RawImage
from kdump.storage.source import Source
from kdump.storage.targets import Selection

if TYPE_CHECKING:
    from kdump.engine.salvage.options import SalvageOptions
    from kdump.engine.work.pace import Pace

    Name = tuple[str, int]

BY_USER, BY_COPY, BY_CHECKPOINT, BY_RECORDS = "topic-map", "copy", "checkpoint", "records"


@dataclass(frozen=True)
class CarvedSource(CopySource):
    """Extents of an image that are one copy of a partition."""

    extents: tuple[Extent, ...]
    group: str
    named_by: str | None
    named_at: At | None  # where what names it stands in an image
    joined_by: tuple[str, ...]
    joined_at: tuple[At, ...]  # pages of indexes that join it
    is_doubtful: bool
    facts: GroupFacts  # what tells a person whose it is
    is_carved = True

    def files(self) -> list[str]:
        """Return the image."""
        return [self.path]

    def count_bytes(self) -> int:
        """Return how many bytes its batches have."""
        return sum(one.size_bytes for one in self.extents)

    def open(self, pace: Pace, limit: int) -> Copy:
        """Open it for reading."""
        return CarvedCopy(self, pace, limit)


class CarvedCopy(Copy):
    """A copy whose batches lie here and there in an image."""

    found: CarvedSource
    replica: _Pieces

    def items(self) -> Iterator[Batch | Stretch]:
        """Read the batches; behind the last a torn one says how far the log went on at least."""
        for item in super().items():
            yield from (item,) if isinstance(item, Batch) else item.batches()
        torn = self.found.extents[-1].torn
        if torn is not None and torn.last_offset >= self.end:
            self.tail = torn.last_offset

    def end_count(self, ends: Set[int]) -> None:
        """Take note that there is no further batch: a hole before the last is like any other."""
        held, self._held = self._held, None
        if held is not None:
            self._count(held)

    def pieces(self, batch: Batch) -> list[Piece]:
        """Say where in the image a batch lies."""
        return self.replica.pieces(batch.position, batch.size_bytes)

    def _open(self) -> tuple[str | None, set[int]]:
        return None, set()

    def _replica(self) -> _Pieces:
        return _Pieces(self.found, self._pace, self.limit)

    def _joins(self, last: int, segment: int | None) -> bool:
        return segment == last + 1


class _Pieces(Replica):
    """The batches of a carved copy, read like a replica that has no files beside its log.

    A batch in pieces has a position behind the end of the image.
    """

    def __init__(self, found: CarvedSource, pace: Pace, limit: int) -> None:
        self.path = found.path
        self.segments = [LogSegment(found.extents[0].first)]
        self.written_epochs = []
        self.gone = []
        self.high_watermark = None
        self.claims = {}
        self.cleaned_to = 0
        self._found = found
        self._carve_pace = pace
        self._limit = limit
        with Source(found.path) as source:
            self._end = source.size
        self._split = [extent for extent in found.extents if len(extent.pieces) > 1]
        sizes = (extent.size_bytes for extent in self._split)
        self._starts = list(accumulate(sizes, initial=self._end))
        self._source: Source | None = None

    def blocks(self) -> Iterator[Block | UnusableRange]:
        """Read the extents in the order of their offsets."""
        found = self._found
        with BackgroundSource(self.path, self._carve_pace) as source:
            image = RawImage(source, limit=self._limit)
            for extent in found.extents:
                place = Place(found.topic, found.partition, extent.first, self.path)
                if len(extent.pieces) > 1:
                    at = self._starts[self._split.index(extent)]
                    data = self.read(self.path, at, extent.size_bytes)
                    yield Block(place, kernels.walk(data, 0, len(data), at, -1, True, 1)[0])
                    continue
                for item in image.walk(
                    extent.position, extent.end, max(extent.first - 1, -MAX_INT64 - 1)
                ):
                    if not isinstance(item, Gap):
                        yield Block(place, item.batches)

    def pieces(self, position: int, size: int) -> list[Piece]:
        """Say where in the image some bytes of one batch lie."""
        if position < self._end:
            return [Piece(position, position + size)]
        number = bisect_right(self._starts, position) - 1
        position -= self._starts[number]
        found = []
        for piece in self._split[number].pieces:
            length = piece.end - piece.position
            start, end = max(position, 0), min(position + size, length)
            if start < end:
                found.append(Piece(piece.position + start, piece.position + end))
            position -= length
        return found

    def read(self, path: str, position: int, size: int) -> bytes:
        """Read bytes of one batch."""
        parts = self.pieces(position, size)
        return b"".join(
            Replica.read(self, path, one.position, one.end - one.position) for one in parts
        )


class ImageSet:
    """What is carved out of some images, and the copies that come of it."""

    def __init__(self, options: SalvageOptions, pace: Pace, *, has_others: bool) -> None:
        self.has_others = has_others
        self.failed: list[KdumpError] = []
        self._options = options
        self._pace = pace
        self._images: list[ImageContents] = []

    def carve(self, path: str) -> None:
        """Read an image."""
        self._images.append(carve(path, self._pace, self._options.decompress_limit))

    def join(self) -> Iterator[Row]:
        """Join what was found; yield a row for each image."""
        joins = Joins(self._images)
        self._known = joins.known
        self._extents = joins.extents
        groups = joins.groups()
        self._groups = [one for one in groups if not one.extents[0].is_snapshot]
        topics = self._topics(groups)
        for image in self._images:
            here = [extent for extent in joins.extents if extent.path == image.path]
            apart = [len(extent.pieces) for extent in here if len(extent.pieces) > 1]
            yield CarvedImage(
                path=image.path,
                size_bytes=image.size_bytes,
                batches=sum(extent.batches for extent in here),
                batches_bytes=sum(extent.size_bytes for extent in here),
                extents=len(here),
                in_two_pieces=apart.count(2),
                in_more_pieces=len(apart) - apart.count(2),
                torn=len(joins.torn[image.path]),
                topic_ids=[
                    {
                        "topic_id": topic_id,
                        "topic": topics.get(topic_id),
                        "bytes": [piece.position, piece.end - 1],
                    }
                    for topic_id, piece in image.topic_ids
                ],
            )

    def _topics(self, groups: list[Group]) -> dict[str, str]:
        """Names of topics by id, as metadata of a cluster in the images says them."""
        if not any(image.topic_ids for image in self._images):
            return {}
        limit = self._options.decompress_limit
        found: dict[str, str] = {}
        for group in groups:
            is_log = internal_topic(group.extents[0], limit) == (names.CLUSTER_METADATA_TOPIC, 0)
            if is_log or group.extents[0].is_snapshot:
                found |= topics_by_id(group.extents, limit)
        return found

    def name_copies(self, copies: Groups, selection: Selection) -> Iterator[CarvedSource]:
        """Yield copies of partitions, in each of which offsets rise; `copies` are those at hand."""
        by_extent = {id(extent): group for group in self._groups for extent in group.extents}
        of_copies = self._match_copies(copies, by_extent)
        of_checkpoints = self._match_checkpoints()
        proposals = propose(self._groups, self._directories())
        for number, group in enumerate(self._groups, 1):
            word = f"carved-{number}"
            named_at: At | None = None
            if word in self._options.names:
                (topic, partition), named_by = self._ask_user(word, group), BY_USER
            elif group in of_copies:
                (topic, partition), named_by = of_copies[group], BY_COPY
            elif group in of_checkpoints:
                ((topic, partition), named_at), named_by = of_checkpoints[group], BY_CHECKPOINT
            elif internal := internal_topic(group.extents[0], self._options.decompress_limit):
                (topic, partition), named_by = internal, BY_RECORDS
            else:
                (topic, partition), named_by = (word, 0), None
            facts = self._facts(group, proposals.get(number - 1))
            if not selection.admits(topic, partition):
                continue
            for layer in group.layers():
                path = layer[0].path
                yield CarvedSource(
                    path,
                    path,
                    topic,
                    partition,
                    tuple(layer),
                    word,
                    named_by,
                    named_at,
                    tuple(group.joined_by),
                    tuple(group.pages),
                    group.is_doubtful,
                    facts,
                )

    def _directories(self) -> list[Directory]:
        """What directory blocks and checkpoints say of where the logs of a partition end."""
        blocks = [block for image in self._images for block in image.directories]
        found = {one.name: one for one in directories_of(blocks)}
        for image in self._images:
            for (topic, partition), offsets in image.said.items():
                name = names.directory_name(topic, partition)
                old = found.get(name, Directory(name, frozenset(), frozenset()))
                found[name] = old._replace(snapshots=old.snapshots | offsets.keys())
        return [found[name] for name in sorted(found)]

    def _facts(self, group: Group, proposal: Proposal | None) -> GroupFacts:
        """What tells a person whose a group may be."""
        extents = group.extents
        codecs = reduce(or_, (one.codecs for one in extents), 0)
        times = [time_ms for one in extents for time_ms in (one.first_ms, one.last_ms)]
        times = [time_ms for time_ms in times if time_ms >= 0]
        return {
            "codecs": [codec_name(at) for at in range(CODEC_MASK + 1) if codecs >> at & 1],
            "first_timestamp_ms": min(times, default=None),
            "last_timestamp_ms": max(times, default=None),
            "size_bytes": sum(one.size_bytes for one in extents),
            "segments": starts_of(group),
            "keys": sample_keys(extents[0], self._options.decompress_limit),
            "proposed": [] if proposal is None else list(proposal.names),
            "proposed_by": None if proposal is None else proposal.why,
        }

    def _ask_user(self, word: str, group: Group) -> Name:
        asked = names.parse_directory(self._options.names[word])
        if asked is None or asked.retirement is not None:
            raise PathError(
                group.place[0],
                f"{word} is one partition; in --topic-map, write {word},TOPIC-PARTITION",
            )
        return asked.topic, asked.partition

    def _match_copies(self, copies: Groups, by_extent: dict[int, Group]) -> dict[Group, Name]:
        """Find groups that have batches of copies whose partition is known; of one alone."""
        votes: dict[Group, Counter[Name]] = defaultdict(Counter)
        for (topic, number), group in copies.items():
            if topic is None or number is None:
                continue
            for found in group.values():
                vote = partial(self._vote, found, (topic, number), by_extent, votes)
                with suppress(PathError):  # said where the copy is read
                    attempt(found.path, vote, None, self.failed, topic=topic, partition=number)
        return {group: next(iter(each)) for group, each in votes.items() if len(each) == 1}

    def _vote(
        self,
        found: CopySource,
        name: Name,
        by_extent: dict[int, Group],
        votes: dict[Group, Counter[Name]],
    ) -> None:
        copy = found.open(self._pace, self._options.decompress_limit)
        try:
            for batch in copy.batches():
                told = (batch.last, batch.crc, batch.size_bytes, batch.layout)
                number = self._known.get(hash(told))
                if number is not None and id(self._extents[number]) in by_extent:
                    votes[by_extent[id(self._extents[number])]][name] += 1
        finally:
            copy.close()

    def _match_checkpoints(self) -> dict[Group, tuple[Name, At]]:
        """Find groups that end where checkpoints say of one partition alone that it did."""
        said: dict[int, dict[Name, At]] = defaultdict(dict)
        for image in self._images:
            for name, offsets in image.said.items():
                last = max(offsets)
                said[last].setdefault(name, (image.path, offsets[last]))
        ends: dict[int, list[Group]] = defaultdict(list)
        for group in self._groups:
            if not group.is_doubtful:
                ends[group.end].append(group)
        return {
            groups[0]: next(iter(said[end].items()))
            for end, groups in ends.items()
            if len(groups) == 1 and len(said.get(end, ())) == 1
        }
