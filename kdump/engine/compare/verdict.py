"""Compare the replicas of one partition and give a verdict, with its explanation.

Read the replicas of one partition side by side, in the order of their offsets.

Where all have the same headers (offsets, size, checksum, leader epoch), whole stretches of columns
are compared at once and nothing is opened: a checksum stands for the bytes below it. Where they
have not, the least run of batches that overlap each other is handed on to be compared record by
record. Held of each log is one block of headers, however far apart the logs are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kdump.engine.compare.cursor import START, Absence, Cursor, Entry
from kdump.engine.compare.differences import Difference, side
from kdump.engine.compare.epochs import common, cut_spans, lineage, span_fields
from kdump.engine.compare.replica import Replica
from kdump.findings.code import Severity
from kdump.findings.rows import Row
from kdump.rows.compare import ReplicaComparison, ReplicaFacts

if TYPE_CHECKING:
    from kdump.engine.compare.cleaning import LostRange
    from kdump.engine.compare.listener import Listener
    from kdump.engine.compare.plan import CompareOptions
    from kdump.engine.reading.background_source import Pace
    from kdump.kernels.columns import RecordBatches
    from kdump.storage.targets import Target


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
        bound = _find_bound(first, group, live, absences)
        count = min(cursor.below(bound) for cursor in group)
        if len(group) > 1:
            count = same_rows([cursor.at_hand for cursor in group], count)
        if not count:
            if not absences and len({cursor.last for cursor in group}) == 1:
                _pair(group, listener)
            else:
                _cluster(cursors, live, first, listener)
            continue
        if absences:
            listener.note_partial(group, count, absences)
        else:
            listener.note_equal()
        for cursor in group:
            _leave(cursor, listener)
            cursor.take(count)
    for cursor in cursors:
        _leave(cursor, listener)


def _find_bound(
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
        listener.note_passed(cursor)


def same_rows(places: Sequence[tuple[RecordBatches, int]], most: int) -> int:
    """Count the batches that are the same from all of some rows on, `most` at most."""
    (batches, row), *others = places
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
    listener.compare_overlap(found, [])


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
        listener.note_equal()
    else:
        listener.compare_overlap(found, missing)


#: Leader epochs that a row names, the newest.
_EPOCHS_SHOWN = 20


def compare_partition(
    targets: Sequence[Target], pace: Pace, options: CompareOptions
) -> Iterator[Row]:
    """Yield the differences between replicas, then one `replica-comparison` row."""
    from kdump.engine.compare import kinds
    from kdump.engine.compare.explanation import explain
    from kdump.engine.compare.listener import Listener

    topic, partition = targets[0].topic, targets[0].partition
    replicas = [
        Replica(number, target, target.log_dir(), pace=pace, limit=options.decompress_limit)
        for number, target in enumerate(targets)
    ]
    old = any(each.is_pre08 for target in targets if target.log for each in target.log.logs)
    listener = Listener([Cursor(replica) for replica in replicas], options.shown)
    if not old:
        try:
            walk(listener.cursors, listener)
            listener.note_lone_hole()
            _clean(listener, replicas)
        finally:
            for replica in replicas:
                replica.close()
    collected = listener.collected
    for difference in collected.select_shown():
        yield difference.row(topic, partition)
    counts = collected.counts
    verdict = "not-compared" if old else kinds.verdict_of(counts)
    logs = [
        (lineage(each.epochs.spans, each.written_epochs, each.end), each.end) for each in replicas
    ]
    too_many = any(each.epochs.too_many for each in replicas)
    shared = None if too_many else common(logs)
    ends = shared[1] if shared is not None else min(each.end for each in replicas)
    damage = {name for name in counts if kinds.KINDS[name][0] is Severity.DAMAGE}
    severity = kinds.severity_of(verdict)
    rows = [
        _replica(
            replica, epochs, ends, sound=not replica.holes and replica.number not in listener.faulty
        )
        for replica, (epochs, _) in zip(replicas, logs, strict=True)
    ]
    row = ReplicaComparison(
        topic=topic,
        partition=partition,
        verdict=verdict,
        severity=severity.value if severity is not None and not old else None,
        explanation="",
        replicas=rows,
        odd=_find_outlier(listener.odd, replicas),
        first_divergent_offset=collected.first_divergent,
        common_epoch=shared[0] if shared is not None else None,
        common_end_offset=ends,
        differences=dict(sorted(counts.items())),
        records_differing={
            name: collected.records[name] for name in sorted(counts) if name in damage
        },
        differences_shown=len(collected.select_shown()),
        records_count=max(one["records_count"] for one in rows),
    )
    yield row.replaced(explanation=explain(row, collected.records, old=old))


def _clean(listener: Listener, replicas: Sequence[Replica]) -> None:
    """Account for records that a cleaner may have removed, now that all was read."""
    from kdump.engine.compare import kinds
    from kdump.engine.compare.cleaning import LostRange

    add = listener.collected.add
    for number, cleaning in listener.cleaning.items():
        if not cleaning.count:
            continue
        replica = replicas[number]
        if not cleaning.resolve(replicas):
            listener.faulty.add(number)
            for lost in cleaning.find_lost(replicas):
                add(None, _lack(kinds.MISSING, lost, replica, lost.holder.path))
        rest = cleaning.count - cleaning.unexplained
        if rest > 0:
            gone = LostRange(cleaning.first, cleaning.last, rest, cleaning.holders[0])
            new = _lack(kinds.COMPACTED, gone, replica, None)
            new.reason = "in 1 place" if cleaning.places == 1 else f"in {cleaning.places:,} places"
            if cleaning.unchecked:
                new.reason += f", {cleaning.unchecked:,} of them not checked"
            add(None, new)


def _lack(kind: str, lost: LostRange, replica: Replica, copy_from: str | None) -> Difference:
    left, right = side(lost.holder), side(replica)
    left["present"] = True
    if replica.number < lost.holder.number:
        left, right = right, left
    return Difference(
        kind, lost.first, lost.last, lost.records_count, left, right, copy_from=copy_from
    )


def _replica(
    replica: Replica, epochs: Sequence[tuple[int, int]], common_end: int, *, sound: bool
) -> ReplicaFacts:
    spans = cut_spans(replica.epochs.spans, common_end)
    return ReplicaFacts(
        path=replica.path,
        node_id=replica.node_id,
        log_start=replica.start,
        log_end=replica.end,
        high_watermark=replica.high_watermark,
        segments=len(replica.segments),
        batches=replica.batches,
        records_count=replica.records_count,
        bytes=replica.bytes,
        last_epoch=epochs[-1][0] if epochs else None,
        epochs=[
            {"leader_epoch": epoch, "start_offset": start}
            for epoch, start in epochs[-_EPOCHS_SHOWN:]
        ],
        beyond_common=[span_fields(span) for span in spans[-_EPOCHS_SHOWN:]],
        sound=sound,
    )


def _find_outlier(odd: Counter[int], replicas: Sequence[Replica]) -> str | None:
    """Name the one replica that stands against the others; None where there is not just one."""
    if len(replicas) < 3 or not odd:
        return None
    ranked = odd.most_common(2)
    if len(ranked) > 1 and ranked[1][1] * 4 > ranked[0][1]:
        return None
    return replicas[ranked[0][0]].path
