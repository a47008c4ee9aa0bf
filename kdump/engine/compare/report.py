"""Report differences by kind, with both sides, and ranges that no replica can read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from kdump.engine.compare import kinds
from kdump.engine.compare.cursor import END, HOLE, INSIDE, START, Absence, Cursor, Entry
from kdump.engine.compare.differences import Difference, DifferenceCollector, side
from kdump.engine.compare.replica import Replica, UnusableRange

Side = tuple[Cursor, Entry | None, UnusableRange | None]
#: Of a difference that is not held no row is made.
_NOT_HELD: list[Any] = [{}, {}]


class Report:
    """Takes differences between the replicas that these cursors read.

    Of two replicas the left side is the one named first. Of more it is the one that most agree
    with, or that has what another lacks; `odd` counts how often each stood against the most.
    `faulty` are the numbers of those that are damaged, or lack what they should have.
    """

    def __init__(self, cursors: Sequence[Cursor], limit: int) -> None:
        self.cursors = cursors
        self.collected = DifferenceCollector(limit)
        self.odd: Counter[int] = Counter()
        self.faulty: set[int] = set()
        self._holes: dict[int, tuple[int, int | None, UnusableRange]] = {}  # those left behind last
        # Of these it is not known yet whether others have one too.
        self._waiting: list[tuple[int, int, Cursor, UnusableRange]] = []

    def add(
        self,
        kind: str,
        span: tuple[int, int, int],
        left: Side,
        right: Side,
        *,
        also: tuple[Sequence[Cursor], Sequence[Cursor]] = ((), ()),
        key: bytes | None = None,
        since: int | None = None,
    ) -> Difference:
        """Add offsets to the difference that they adjoin, or make one."""
        collected = self.collected
        numbers = (left[0].replica.number, right[0].replica.number)
        name = (kind, *numbers, left[1] is None, right[1] is None)
        known = collected.extend(name, *span, collected.step if since is None else since)
        if known is not None:
            return known
        if collected.has_room_for(kind):
            sides = [
                side(cursor.replica, entry, hole, [each.replica for each in others])
                for (cursor, entry, hole), others in zip((left, right), also, strict=True)
            ]
        else:
            sides = _NOT_HELD
        new = Difference(kind, *span, sides[0], sides[1], key=key)
        collected.add(name, new)
        return new

    def absent(
        self,
        absence: Absence,
        first: int,
        last: int,
        records: int,
        entry: Entry,
        present: Sequence[Cursor],
        hole: UnusableRange | None = None,
        key: bytes | None = None,
    ) -> None:
        """Account for offsets that one replica does not have."""
        cursor = absence.cursor
        kind, reason = _kind_of(absence)
        if absence.why in (HOLE, END) and cursor.holes:
            cursor.reported = True
        if hole is None and cursor.holes and absence.why in (HOLE, END):
            hole = cursor.holes[0]
        sides = [(present[0], entry, None), (cursor, None, hole)]
        also: list[Sequence[Cursor]] = [present[1:], ()]
        if len(self.cursors) == 2 and cursor.replica.number < present[0].replica.number:
            sides.reverse()
            also.reverse()
        difference = self.add(
            kind, (first, last, records), sides[0], sides[1], also=(also[0], also[1]), key=key
        )
        difference.reason = reason or difference.reason
        if kind in (kinds.DAMAGED, kinds.MISSING, kinds.TRUNCATED):
            difference.copy_from = present[0].replica.path
            self.faulty.add(cursor.replica.number)

    def note_minority(self, some: Sequence[Replica], others: Sequence[Replica]) -> None:
        """Note who stands against the most of three or more."""
        if len(self.cursors) < 3 or len(some) == len(others):
            return
        for replica in others if len(some) > len(others) else some:
            self.odd[replica.number] += 1

    def note_passed(self, cursor: Cursor) -> None:
        """Account for the holes that a replica is about to leave behind, or has ended with."""
        first = cursor.last_offset + 1
        end = None if cursor.done else cursor.first - 1
        others = [other for other in self.cursors if other is not cursor]
        hole = cursor.holes[0]
        codes = {each.finding.code: each.finding.entry for each in cursor.holes}
        reported, cursor.reported = cursor.reported, True
        if all(entry.ends_log for entry in codes.values()):
            if "torn-tail" in codes and not reported:
                # Inside a log nothing cuts it off any more.
                kind = kinds.TORN_TAIL if cursor.done else kinds.DAMAGED
                self.hole(kind, first, first - 1, cursor, hole)
            return
        self._holes[cursor.replica.number] = (first, end, hole)
        shared = [self._holes.get(other.replica.number) for other in others]
        known = [each for each in shared if each is not None]
        low = max([first, *(each[0] for each in known)])
        ends = [each for each in (end, *(each[1] for each in known)) if each is not None]
        high = min(ends, default=low - 1)
        # Bytes without any offset to them are the same hole where they follow the same batch.
        empty = not ends or (high == low - 1 and all(each[0] == first for each in known))
        waiting, self._waiting = self._waiting, []
        if len(known) == len(others) and (low <= high or empty):
            span = (low, high, high - low + 1)
            theirs = (others[0], None, known[0][2])
            self._of_nobody(kinds.EVERYWHERE, span, (cursor, None, hole), theirs)
            return
        self._waiting = waiting
        self.note_lone_hole()
        if not reported:
            self._waiting = [(first, first - 1, cursor, hole)]
        if not any(other.holes for other in others):
            self.note_lone_hole()

    def note_lone_hole(self) -> None:
        """Tell of a hole for which no other replica has one."""
        for alone in self._waiting:
            self.hole(kinds.DAMAGED, *alone)
        self._waiting = []

    def hole(self, kind: str, first: int, last: int, cursor: Cursor, hole: UnusableRange) -> None:
        """Report bytes of one replica that hold nothing of use."""
        other = next(other for other in self.cursors if other is not cursor)
        if kind != kinds.TORN_TAIL:
            self.faulty.add(cursor.replica.number)
        self._of_nobody(kind, (first, last, 0), (cursor, None, hole), (other, None, None))

    def _of_nobody(self, kind: str, span: tuple[int, int, int], *sides: Side) -> None:
        left, right = sorted(sides, key=lambda each: each[0].replica.number)
        self.add(kind, span, left, right)


def _kind_of(absence: Absence) -> tuple[str, str | None]:
    """Say what it means that a replica has nothing somewhere, and what tells so."""
    cursor, replica = absence.cursor, absence.cursor.replica
    codes = {hole.finding.code: hole.finding.entry for hole in cursor.holes}
    damaged = [code for code, entry in codes.items() if not entry.ends_log]
    if absence.why == START:
        return kinds.STARTS, None
    if absence.why == INSIDE:
        return kinds.MISSING, None
    if absence.why == HOLE or damaged:
        return kinds.DAMAGED, ", ".join(sorted(damaged or codes)) or None
    if "torn-tail" in codes:
        return kinds.TRUNCATED, "torn-tail"
    if any(entry.live for entry in codes.values()):
        return kinds.BEHIND, None
    claims = dict(replica.claims)
    if replica.written_epochs:
        claims["leader epoch"] = replica.written_epochs[-1][1]
    above = {what: offset for what, offset in claims.items() if offset > replica.end}
    if above:
        text = " and ".join(f"{what} is {offset}" for what, offset in above.items())
        return kinds.TRUNCATED, f"its {text}"
    return kinds.BEHIND, None
