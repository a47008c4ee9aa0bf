"""Classify what a walk over replicas finds: usual between brokers, or a difference."""

from __future__ import annotations

from collections.abc import Sequence

from kdump.engine.compare import kinds
from kdump.engine.compare.cleaning import CleanerLosses
from kdump.engine.compare.cursor import INSIDE, Absence, Cursor, Entry
from kdump.engine.compare.epochs import records_in
from kdump.engine.compare.records import Record, Stream, find_differing_fields, side_by_side
from kdump.engine.compare.replica import first_offset
from kdump.engine.compare.report import Report


class Listener(Report):
    """Takes what a walk (`walk.py`) finds, in the order of the offsets."""

    def __init__(self, cursors: Sequence[Cursor], limit: int) -> None:
        super().__init__(cursors, limit)
        self.cleaning = {cursor.replica.number: CleanerLosses(cursor.replica) for cursor in cursors}

    def note_equal(self) -> None:
        """Note that some batches are the same in all replicas."""
        self.collected.step += 1

    def note_partial(
        self, present: Sequence[Cursor], count: int, absences: Sequence[Absence]
    ) -> None:
        """Account for the next `count` batches, which these replicas have and the others not."""
        cursor = present[0]
        batches, row = cursor.at_hand
        entry = cursor.entry()
        inside = (each for each in absences if each.why == INSIDE)
        if any(self.cleaning[each.cursor.replica.number].may_lack(entry.first) for each in inside):
            entries = [(one, _entries(one, count)) for one in present]
            self.compare_overlap(entries, absences)
            return
        self.collected.step += 1
        last = batches.last_offset(row + count - 1)
        records = records_in(batches.slice(row, row + count), cursor.last_offset)[0]
        self.note_minority(
            [one.replica for one in present], [one.cursor.replica for one in absences]
        )
        for absence in absences:
            self.absent(absence, entry.first, last, records, entry, present)

    def compare_overlap(
        self, present: Sequence[tuple[Cursor, list[Entry]]], absences: Sequence[Absence]
    ) -> None:
        """Compare batches that overlap each other and are not the same.

        They are compared record by record, if they differ in more than their leader epochs.
        """
        if not absences and self._epochs_alone(present):
            return
        collected = self.collected
        began, before = collected.step + 1, sum(collected.counts.values())
        extended = sum(collected.records.values())
        lacked = sum(cleaning.count for cleaning in self.cleaning.values())
        streams = [Stream(cursor, entries) for cursor, entries in present]
        everywhere = len(streams) == len(self.cursors)
        for offset, records in side_by_side(streams, collected.skip if everywhere else None):
            collected.step += 1
            self._offset(offset, streams, records, absences)
        for stream in streams:
            for entry, hole in stream.find_holes():
                self.hole(kinds.DAMAGED, entry.first, entry.first - 1, stream.cursor, hole)
        unopened = self._note_unopened(streams, began)
        if (
            not unopened
            and not absences
            and before == sum(collected.counts.values())
            and extended == sum(collected.records.values())
            and lacked == sum(cleaning.count for cleaning in self.cleaning.values())
        ):
            self._rewritten(present, began)

    def _epochs_alone(self, present: Sequence[tuple[Cursor, list[Entry]]]) -> bool:
        """Account for batches that differ in their leader epochs only; False: in more than that."""
        lists = [[each.without_epoch for each in entries] for _, entries in present]
        if any(each != lists[0] for each in lists[1:]):
            return False
        for entries in zip(*(entries for _, entries in present), strict=True):
            self.collected.step += 1
            groups: dict[int, list[tuple[Cursor, Entry]]] = {}
            for (cursor, _), entry in zip(present, entries, strict=True):
                groups.setdefault(entry.leader_epoch, []).append((cursor, entry))
            most = max(groups.values(), key=len)
            for group in groups.values():
                if group is not most:
                    mine = most[0][1]
                    span = (mine.first, mine.last, records_of_entries([mine]))
                    self._differ(("leader_epoch",), span, most, group)
        return True

    def _offset(
        self,
        offset: int,
        streams: Sequence[Stream],
        records: Sequence[Record | None],
        absences: Sequence[Absence],
    ) -> None:
        """Compare what the replicas have at one offset."""
        groups: list[list[tuple[Cursor, Record]]] = []
        for stream, record in zip(streams, records, strict=True):
            if record is None:
                continue
            for group in groups:
                # Those that are not equal may be the same all the same, in another format.
                known = group[0][1]
                if known.values == record.values or not find_differing_fields(known, record):
                    group.append((stream.cursor, record))
                    break
            else:
                groups.append([(stream.cursor, record)])
        most = max(groups, key=len)  # the first of those as large
        if len(most) == len(self.cursors):
            return
        for group in groups:
            if group is not most:
                self._differ(
                    find_differing_fields(most[0][1], group[0][1]),
                    (offset, offset, 1),
                    [(cursor, record.entry) for cursor, record in most],
                    [(cursor, record.entry) for cursor, record in group],
                    most[0][1].key,
                )
        present = [cursor for cursor, _ in most]
        record = most[0][1]
        lacking = [
            (stream.absent(offset), stream.holes(offset))
            for stream, mine in zip(streams, records, strict=True)
            if mine is None and stream.knows(offset)
        ]
        lacking += [(each.cursor.absent(offset), tuple(each.cursor.holes)) for each in absences]
        for absence, holes in lacking:
            number = absence.cursor.replica.number
            if absence.why == INSIDE and self.cleaning[number].may_lack(offset):
                self.cleaning[number].lacks(record, present[0].replica)
            else:
                self.note_minority([one.replica for one in present], [absence.cursor.replica])
                hole = holes[0] if holes else None
                self.absent(absence, offset, offset, 1, record.entry, present, hole, record.key)

    def _differ(
        self,
        fields: Sequence[str],
        span: tuple[int, int, int],
        most: Sequence[tuple[Cursor, Entry]],
        group: Sequence[tuple[Cursor, Entry]],
        key: bytes | None = None,
    ) -> None:
        """Account for fields in which some replicas differ from the most."""
        sides = [each for each, _ in most], [each for each, _ in group]
        self.note_minority(*([cursor.replica for cursor in side] for side in sides))
        difference = self.add(
            kinds.EPOCH if "leader_epoch" in fields else kinds.RECORD,
            span,
            (*most[0], None),
            (*group[0], None),
            also=(sides[0][1:], sides[1][1:]),
            key=key,
        )
        if not set(difference.fields).issuperset(fields):
            difference.fields = tuple(dict.fromkeys((*difference.fields, *fields)))

    def _note_unopened(self, streams: Sequence[Stream], since: int) -> bool:
        """Account for batches that could not be decoded."""
        bad = [(stream, each) for stream in streams for each in stream.unopened]
        sound = [stream for stream in streams if not stream.unopened]
        for stream, each in bad:
            other = sound[0] if sound else stream
            if each.damaged and not sound and len(streams) > 1:
                kind = kinds.BATCH
                other = next(one for one in streams if one is not stream)
                if other.cursor.replica.number < stream.cursor.replica.number:
                    continue  # reported once
            else:
                kind = kinds.DAMAGED if each.damaged else kinds.NOT_COMPARED
            entry = each.entry
            span = (entry.first, entry.last, entry.last - entry.first + 1)
            theirs = None if other is stream else next(iter(other.entries), None)
            sides = [(stream.cursor, entry, None), (other.cursor, theirs, None)]
            if other is stream:
                idle = next(one for one in self.cursors if one is not stream.cursor)
                sides[1] = (idle, None, None)
            sides.sort(key=lambda each: each[0].replica.number)
            difference = self.add(kind, span, sides[0], sides[1], since=since)
            difference.reason = each.reason
            if each.damaged:
                self.faulty.add(stream.cursor.replica.number)
            if kind == kinds.DAMAGED and sound:
                difference.copy_from = sound[0].cursor.replica.path
        return bool(bad)

    def _rewritten(self, present: Sequence[tuple[Cursor, list[Entry]]], since: int) -> None:
        (cursor, mine), (other, theirs) = present[0], present[1]
        span = (mine[0].first, mine[-1].last, records_of_entries(mine))
        self.add(
            kinds.REWRITTEN, span, (cursor, mine[0], None), (other, theirs[0], None), since=since
        )


def _entries(cursor: Cursor, count: int) -> list[Entry]:
    """Give the next batches of a replica, without going past them."""
    head = cursor.entry()
    batches, row = cursor.at_hand
    found, last = [head], head.last
    for number in range(row + 1, row + count):
        found.append(Entry(head.place, batches, number, first_offset(batches, number, last)))
        last = found[-1].last
    return found


def records_of_entries(entries: Sequence[Entry]) -> int:
    """Count the records of some batches, a wrapper's by its offsets."""
    total = 0
    for entry in entries:
        count = entry.batches.records_count(entry.row)
        total += count if count >= 0 else entry.last - entry.first + 1
    return total
