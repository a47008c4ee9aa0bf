"""Read the replicas of one partition side by side, in the order of their offsets.

Where all have the same headers (offsets, size, checksum, leader epoch), whole stretches of columns
are compared at once and nothing is opened: a checksum stands for the bytes below it. Where they
have not, the least run of batches that overlap each other is handed on to be compared record by
record. Held of each log is one block of headers, however far apart the logs are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kdump.engine.compare.cursor import START, Absence, Cursor, Entry

if TYPE_CHECKING:
    from kdump.engine.compare.listen import Listener
    from kdump.kernels.columns import RecordBatches

#: Batches of one replica that are compared with others at once; more are cut off.
_CLUSTER_BATCHES = 4096
#: Columns in which batches agree that are the same; that which differs most often comes first.
_OF_SAME = ("crcs", "last_offsets", "leader_epochs", "sizes", "base_offsets", "layouts")


def walk(cursors: Sequence[Cursor], listener: Listener) -> None:
    """Read all logs to their ends."""
    while True:
        live = [cursor for cursor in cursors if cursor.fill()]
        if not live:
            break
        firsts = [cursor.first for cursor in live]
        first = min(firsts)
        group = [cursor for cursor, begins in zip(live, firsts, strict=True) if begins == first]
        absences = [cursor.absent(first) for cursor in cursors if cursor not in group]
        bound = _bound(first, group, live, absences)
        count = min(cursor.below(bound) for cursor in group)
        if len(group) > 1:
            count = _same(group, count)
        if not count:
            if not absences and len({cursor.last for cursor in group}) == 1:
                _pair(group, listener)
            else:
                _cluster(cursors, live, first, listener)
            continue
        if absences:
            listener.only(group, count, absences)
        else:
            listener.equal()
        for cursor in group:
            _leave(cursor, listener)
            cursor.take(count)
    for cursor in cursors:
        _leave(cursor, listener)


def _bound(
    first: int, group: Sequence[Cursor], live: Sequence[Cursor], absences: Sequence[Absence]
) -> int | None:
    """The offset below which nothing changes in who has what."""
    bounds = [cursor.first for cursor in live if cursor not in group]
    for absence in absences:
        replica = absence.cursor.replica
        if absence.why == START:
            bounds.append(replica.start)
        elif absence.cursor.done and first < replica.end:
            bounds.append(replica.end)
    return min(bounds, default=None)


def _leave(cursor: Cursor, listener: Listener) -> None:
    if cursor.holes:
        listener.passed(cursor)


def _same(group: Sequence[Cursor], most: int) -> int:
    """Count the batches from here on that are the same in all of the group, `most` at most."""
    (batches, row), *others = (cursor.at_hand for cursor in group)
    for other, at in others:
        same, step = 0, 1
        while same < most and step:
            step = min(step, most - same)
            if _equal(batches, row + same, other, at + same, step):
                same += step
                step *= 4
            elif step == 1:
                break
            else:
                most = same + step  # the first that differs is among these
                step = max(1, step // 4)
        most = same
    return most


def _equal(one: RecordBatches, row: int, other: RecordBatches, at: int, count: int) -> bool:
    return all(
        getattr(one, name)[row : row + count] == getattr(other, name)[at : at + count]
        for name in _OF_SAME
    )


def _pair(group: Sequence[Cursor], listener: Listener) -> None:
    """Take the batches at hand, which all replicas have from the same offset to the same."""
    found = []
    for cursor in group:
        found.append((cursor, [cursor.entry()]))
        _leave(cursor, listener)
        cursor.take(1)
    listener.cluster(found, [])


def _cluster(
    cursors: Sequence[Cursor], live: Sequence[Cursor], first: int, listener: Listener
) -> None:
    """Take the batches that overlap, from the lowest on, until all logs have a boundary there."""
    taken: dict[int, list[Entry]] = {}
    holders: list[Cursor] = []
    end, grew = first, True
    absences = {cursor.replica.number: cursor.absent(first) for cursor in cursors}
    while grew:
        grew = False
        for cursor in live:
            while cursor.fill() and cursor.first <= end:
                entries = taken.setdefault(cursor.replica.number, [])
                if len(entries) >= _CLUSTER_BATCHES:
                    break
                entry = cursor.entry()
                if not entries:
                    holders.append(cursor)
                    _leave(cursor, listener)
                entries.append(entry)
                end, grew = max(end, entry.last), True
                cursor.take(1)
    found = [
        (cursor, taken[cursor.replica.number])
        for cursor in sorted(holders, key=lambda cursor: cursor.replica.number)
    ]
    missing = [each for number, each in absences.items() if number not in taken]
    lists = [[entry.identity for entry in entries] for _, entries in found]
    if not missing and all(each == lists[0] for each in lists[1:]):
        listener.equal()
    else:
        listener.cluster(found, missing)
