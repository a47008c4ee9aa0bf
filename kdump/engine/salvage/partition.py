"""One partition of a salvage: its copies opened and put in order, and what was taken of them."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from kdump.broker.versions import Version, text_of
from kdump.engine.salvage.build import pieces
from kdump.engine.salvage.copies import Copy, Item
from kdump.engine.salvage.history import History, settle, survey
from kdump.engine.salvage.merge import Merge, MergedBatch, Ranges, add_range
from kdump.engine.salvage.options import SalvageOptions
from kdump.engine.work.pace import Pace, Progress
from kdump.errors import PathError, RefusedError
from kdump.rows.salvage import (
    BytesAt,
    CarvedGroup,
    FromPath,
    Mended,
    MendedField,
    Reencoded,
    Salvaged,
)
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.engine.salvage.carving import Piece
    from kdump.engine.salvage.split import RebuiltBatch


class OpenCopies(NamedTuple):
    """The copies of a partition, in the order in which they lead, and their one history."""

    item: Item
    topic: str | None
    copies: list[Copy]
    history: History
    topic_id: str | None
    options: SalvageOptions

    def merge(self, *, to_end: bool = False) -> Merge:
        """Begin to take the batches of the result, or all `to_end` of the copies."""
        for copy in self.copies:
            copy.diverged = []
        options = self.options._replace(to_offset=None) if to_end else self.options
        return Merge(self.copies, self.history, options)

    def refuse_deleted(self) -> None:
        """Raise where a log that was planned was deleted before it was read."""
        for copy in self.copies:
            for path in copy.gone:
                raise PathError(path, "was deleted before it was read")

    def close(self) -> None:
        """Give back the files of the copies."""
        for copy in self.copies:
            copy.close()


def open_selected(item: Item, options: SalvageOptions, progress: Progress) -> list[Copy]:
    """Open the copies of a partition, which reads the small files beside their logs."""
    pace = Pace(progress.slots, 0, None, progress.tick)
    return [found.open(pace, options.decompress_limit) for found in item.copies]


def open_copies(
    item: Item, options: SalvageOptions, progress: Progress, copies: list[Copy] | None = None
) -> OpenCopies:
    """Read the copies of a partition once: who leads, which epochs there were."""
    if copies is None:
        copies = open_selected(item, options, progress)
    if options.mend_headers:
        from kdump.engine.salvage.mending import mend_batches

        for copy in copies:
            copy.mend = mend_batches
    try:
        topic_id = _topic_id(item, copies, options)
        survey(copies)
        topic = options.names.get(item.topic or "", item.topic)
        history = settle(copies, options.prefer)
        opened = OpenCopies(item, topic, copies, history, topic_id, options)
        opened.refuse_deleted()
    except BaseException:
        for copy in copies:
            copy.close()
        raise
    return opened


def _topic_id(item: Item, copies: list[Copy], options: SalvageOptions) -> str | None:
    """Choose the topic id; copies of another topic of the same name are left out, or refused.

    A directory without records does not count: that of a topic that was just created again.
    """
    asked = options.topic_id
    if len({copy.topic_id for copy in copies if copy.topic_id is not None}) > 1:
        retired = [copy for copy in copies if copy.found.retirement is not None]
        with_records = [copy for copy in copies if copy.topic_id is None or not copy.is_empty]
        copies[:] = with_records or retired or copies
    ids = sorted({copy.topic_id for copy in copies if copy.topic_id is not None})
    if len(ids) > 1:
        if asked not in ids:
            of = "; ".join(
                f"{each} ({', '.join(one.path for one in copies if one.topic_id == each)})"
                for each in ids
            )
            raise RefusedError(
                item.path,
                f"has copies of several topics with the same name: {of}; give only the copies of "
                "one, or use --topic-id",
            )
        copies[:] = [copy for copy in copies if copy.topic_id in (None, asked)]
    return asked or (ids[0] if ids else None)


class Sums:
    """What the batches taken come to."""

    def __init__(self) -> None:
        self.batches = self.records_count = 0
        self.first: int | None = None
        self.last: int | None = None
        self.sum = hashlib.sha256()
        self.sources: dict[str, Ranges] = {}
        self.bytes: dict[str, Ranges] = {}  # of images
        self.reencoded: list[Reencoded] = []
        self.mended: list[Mended] = []

    def take(self, taken: MergedBatch) -> None:
        """Take note of the next batch."""
        contents = taken.contents
        self.batches += 1
        if contents.mended:
            self.mended.append(
                {
                    "path": taken.batch.path,
                    "position": taken.batch.position,
                    "from": contents.first,
                    "to": contents.last,
                    "records_count": contents.records_count,
                    "fields": [
                        MendedField(name=name, stored=stored, inferred=inferred)
                        for name, stored, inferred in contents.mended
                    ],
                }
            )
        self.records_count += contents.records_count
        if self.first is None:
            self.first = contents.first
        self.last = contents.last
        for piece in pieces(taken):
            self.sum.update(piece)
        ranges = self.sources.setdefault(taken.batch.copy.path, [])
        add_range(ranges, contents.first, contents.last)
        copy = taken.batch.copy
        if taken.split is not None:
            self._reencode(taken.split)
        else:
            for start, end in copy.pieces(taken.batch):
                add_range(self.bytes.setdefault(copy.path, []), start, end - 1)

    def _reencode(self, split: RebuiltBatch) -> None:
        """Take note of what was written anew; messages out of one wrapper are one entry."""
        first, last, count = split.contents.first, split.contents.last, split.contents.records_count
        new: Reencoded = {
            "path": split.torn.path,
            "position": split.torn.position,
            "from": first,
            "to": last,
            "records_count": count,
            "doubtful": not split.is_proved,
        }
        old = self.reencoded[-1] if self.reencoded else None
        same = {"from": first, "to": last, "records_count": count}
        if old and old["to"] + 1 == first and old | same == new:
            old["to"] = last
            old["records_count"] += count
        else:
            self.reencoded.append(new)


def row_of(
    opened: OpenCopies, merged: Merge, found: Sums, broker: Version | None = None
) -> Salvaged:
    """Say what the result of a partition is."""
    lost: list[list[int | None]] = [list(each) for each in merged.lost]
    if merged.open_end and lost:
        lost[-1][1] = None
    doubtful = any(one["doubtful"] for one in found.reencoded)
    undecided = any(conflict.chosen is None for conflict in merged.conflicts)
    return Salvaged(
        topic=opened.topic,
        partition=opened.item.partition,
        severity="damage" if lost or undecided or doubtful else None,
        records_count=found.records_count,
        batches=found.batches,
        first_offset=found.first,
        last_offset=found.last,
        from_=[
            FromPath(path=path, offsets=ranges, bytes=found.bytes[path])
            if path in found.bytes
            else FromPath(path=path, offsets=ranges)
            for path, ranges in found.sources.items()
        ],
        carved=_groups_of(opened.copies),
        reencoded=found.reencoded,
        mended=found.mended,
        lost=lost,
        conflicts=[
            {"from": one.first, "to": one.last, "paths": list(one.paths), "chosen": one.chosen}
            for one in merged.conflicts
        ],
        diverged=[
            {"path": copy.path, "offsets": copy.diverged} for copy in opened.copies if copy.diverged
        ],
        produced=None,
        sha256=found.sum.hexdigest(),
        broker_version=None if broker is None else text_of(broker),
    )


def _place(path: str, piece: Piece) -> BytesAt:
    return {"path": path, "bytes": [piece.position, piece.end - 1]}


def _groups_of(copies: list[Copy]) -> list[CarvedGroup]:
    """Say which groups of carved batches are in a partition, and what says so."""
    if not any(copy.found.is_carved for copy in copies):
        return []
    from kdump.engine.salvage.carved_copies import CarvedSource

    found = {
        copy.found.group: copy.found for copy in copies if isinstance(copy.found, CarvedSource)
    }
    return [
        {
            "group": group,
            "named_by": one.named_by,
            "named_at": None if one.named_at is None else _place(*one.named_at),
            "joined_by": list(one.joined_by),
            "joined_at": [_place(*page) for page in one.joined_at],
            "doubtful": one.is_doubtful,
            **one.facts,
        }
        for group, one in sorted(found.items(), key=lambda each: int(each[0][7:]))
    ]
