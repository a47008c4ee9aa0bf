"""Collect differences between replicas: merge adjacent ones, and count them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kdump.engine.compare import kinds
from kdump.findings.code import Severity
from kdump.kernels import columns as c
from kdump.rows.compare import ReplicaDifference, Side

if TYPE_CHECKING:
    from kdump.engine.compare.cursor import Entry
    from kdump.engine.compare.replica import Replica, UnusableRange
    from kdump.findings.rows import Row

_SHOWN_KEY = 256  # bytes


@dataclass(slots=True)
class Difference:
    """Adjoining offsets at which two sides differ in one way."""

    kind: str
    first: int
    last: int  # below `first` where no offset is known to be concerned
    records_count: int
    left: Side
    right: Side
    fields: tuple[str, ...] = ()
    key: bytes | None = None
    copy_from: str | None = None
    reason: str | None = None
    step: int = 0

    @property
    def severity(self) -> Severity:
        """How bad it is."""
        return kinds.KINDS[self.kind][0]

    def row(self, topic: str | None, partition: int | None) -> Row:
        """Make the row of it."""
        severity, message = kinds.KINDS[self.kind][:2]
        return ReplicaDifference(
            topic,
            partition,
            self.kind,
            severity.value,
            self.first,
            None if self.last < self.first else self.last,
            self.records_count,
            list(self.fields),
            self.key,
            self.copy_from,
            self.reason,
            self.left,
            self.right,
            message,
        )


def side(
    replica: Replica,
    entry: Entry | None = None,
    hole: UnusableRange | None = None,
    also: Sequence[Replica] = (),
) -> Side:
    """Describe one side of a difference: its first batch there, or what stands in its place."""
    found = Side(
        path=replica.path,
        present=entry is not None,
        segment=None,
        position=None,
        size_bytes=None,
        base_offset=None,
        last_offset=None,
        crc=None,
        crc_valid=None,
        leader_epoch=None,
        code=None,
        detail=None,
        also=[other.path for other in also],
    )
    if entry is not None:
        batches, row = entry.batches, entry.row
        found |= {
            "segment": entry.place.segment,
            "position": batches.position(row),
            "size_bytes": batches.size_bytes(row),
            "base_offset": None if batches.is_wrapper(row) else batches.base_offset(row),
            "last_offset": batches.last_offset(row),
            "crc": batches.crc(row),
            "crc_valid": True,
            "leader_epoch": None if batches.is_legacy(row) else batches.leader_epoch(row),
        }
    elif hole is not None:
        found |= {
            "segment": hole.place.segment,
            "position": hole.finding.position,
            "size_bytes": hole.finding.size_bytes,
            "code": hole.finding.code,
            "detail": hole.finding.message,
        }
        if hole.header is not None:
            sound = not hole.header.flags & c.CRC_BAD
            found |= {"crc": hole.header.crc(0), "crc_valid": sound}
    return found


@dataclass
class DifferenceCollector:
    """The differences of one partition: some held, all counted.

    Of each severity so many are held as are shown. `step` grows with every stretch that was
    compared: what differs in two that follow each other adjoins.
    """

    limit: int
    step: int = 0
    found: list[Difference] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    records: Counter[str] = field(default_factory=Counter)
    first_divergent: int | None = None
    _open: dict[tuple[object, ...], Difference] = field(default_factory=dict)
    _held: Counter[Severity] = field(default_factory=Counter)

    def skip(self, count: int) -> None:
        """Note that so many records are the same in all."""
        self.step += count

    def has_room_for(self, kind: str) -> bool:
        """Whether a difference of this kind that begins now is held, and may be shown."""
        return self._held[kinds.KINDS[kind][0]] < self.limit

    def extend(
        self, key: tuple[object, ...], first: int, last: int, records: int, since: int
    ) -> Difference | None:
        """Make an open difference longer, if it reaches up to here; None where it does not."""
        known = self._open.get(key)
        if known is None or known.step < since - 1:
            return None
        known.first = min(known.first, first)
        known.last = max(known.last, last)
        known.records_count += records
        known.step = self.step
        self.records[known.kind] += records
        return known

    def add(self, key: tuple[object, ...] | None, difference: Difference) -> None:
        """Take up a difference that begins here."""
        severity, kind = difference.severity, difference.kind
        self.counts[kind] += 1
        self.records[kind] += difference.records_count
        if kind in kinds.DIVERGENT and (
            self.first_divergent is None or difference.first < self.first_divergent
        ):
            self.first_divergent = difference.first
        difference.step = self.step
        if difference.key is not None:
            difference.key = difference.key[:_SHOWN_KEY]
        if key is not None:
            self._open[key] = difference
        if self._held[severity] < self.limit:
            self._held[severity] += 1
            self.found.append(difference)

    def select_shown(self) -> list[Difference]:
        """The differences to be shown, the worst if there are too many, in order of offsets."""
        worst = sorted(self.found, key=lambda each: -each.severity.rank)[: self.limit]
        return sorted(worst, key=lambda each: (each.first, each.last))
