"""Compare the replicas of one partition and give a verdict, with its explanation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kdump.engine.compare import kinds
from kdump.engine.compare.cleaning import Lost
from kdump.engine.compare.cursor import Cursor
from kdump.engine.compare.differences import Difference, side
from kdump.engine.compare.epochs import beyond, common, lineage, span_fields
from kdump.engine.compare.explanation import explained
from kdump.engine.compare.listen import Listener
from kdump.engine.compare.replica import Replica
from kdump.engine.compare.walk import walk
from kdump.findings.code import Severity
from kdump.findings.rows import Row
from kdump.rows.compare import ReplicaComparison, ReplicaFacts

if TYPE_CHECKING:
    from kdump.engine.compare.plan import CompareOptions
    from kdump.engine.reading.background_source import Pace
    from kdump.storage.targets import Target

#: Leader epochs that a row names, the newest.
_EPOCHS_SHOWN = 20


def compare_partition(
    targets: Sequence[Target], pace: Pace, options: CompareOptions
) -> Iterator[Row]:
    """Yield the differences between replicas, then one `replica-comparison` row."""
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
            listener.left_alone()
            _clean(listener, replicas)
        finally:
            for replica in replicas:
                replica.close()
    collected = listener.collected
    for difference in collected.shown():
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
        odd=_odd(listener.odd, replicas),
        first_divergent_offset=collected.first_divergent,
        common_epoch=shared[0] if shared is not None else None,
        common_end_offset=ends,
        differences=dict(sorted(counts.items())),
        records_differing={
            name: collected.records[name] for name in sorted(counts) if name in damage
        },
        differences_shown=len(collected.shown()),
        records_count=max(one["records_count"] for one in rows),
    )
    yield row.replaced(explanation=explained(row, collected.records, old=old))


def _clean(listener: Listener, replicas: Sequence[Replica]) -> None:
    """Account for records that a cleaner may have removed, now that all was read."""
    add = listener.collected.add
    for number, cleaning in listener.cleaning.items():
        if not cleaning.count:
            continue
        replica = replicas[number]
        if not cleaning.resolve(replicas):
            listener.faulty.add(number)
            for lost in cleaning.lost(replicas):
                add(None, _lacking(kinds.MISSING, lost, replica, lost.holder.path))
        rest = cleaning.count - cleaning.unexplained
        if rest > 0:
            gone = Lost(cleaning.first, cleaning.last, rest, cleaning.holders[0])
            new = _lacking(kinds.COMPACTED, gone, replica, None)
            new.reason = "in 1 place" if cleaning.places == 1 else f"in {cleaning.places:,} places"
            if cleaning.unchecked:
                new.reason += f", {cleaning.unchecked:,} of them not looked for"
            add(None, new)


def _lacking(kind: str, lost: Lost, replica: Replica, copy_from: str | None) -> Difference:
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
    spans = beyond(replica.epochs.spans, common_end)
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


def _odd(odd: Counter[int], replicas: Sequence[Replica]) -> str | None:
    """Name the one replica that stands against the others; None where there is not just one."""
    if len(replicas) < 3 or not odd:
        return None
    ranked = odd.most_common(2)
    if len(ranked) > 1 and ranked[1][1] * 4 > ranked[0][1]:
        return None
    return replicas[ranked[0][0]].path
