"""Count in words what the records of a part of a metadata log changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from kdump.errors import PathError
from kdump.replay.cluster import read_replay
from kdump.replay.cluster_facts import Change, Partition, kind_of


def changes_in(path: str, parts: Mapping[int, tuple[int, int]]) -> Counter[tuple[str, str]]:
    """Count the changes of some leader epochs, each between two offsets, both included.

    What a change is comes in two pieces, `("topic", "created")`, of which the first has a plural.
    Nothing is counted of a log that cannot be read.
    """
    found: Counter[tuple[str, str]] = Counter()

    def take(change: Change) -> None:
        first, last = parts.get(change.at.epoch, (0, -1))
        if change.at.offset is not None and first <= change.at.offset <= last:
            found[_words(change)] += 1

    try:
        read_replay(path, whole=True, on_change=take)
    except PathError:
        return Counter()
    return found


def _words(change: Change) -> tuple[str, str]:
    before, after = change.before, change.after
    if isinstance(before, Partition) and isinstance(after, Partition):
        if before.leader != after.leader:
            return "leader change", ""
        if before.isr != after.isr:
            return "ISR change", ""
        moved = before.replicas != after.replicas or before.directories != after.directories
        return ("reassignment" if moved else "other partition change"), ""
    kind = kind_of(change.fact).replace("-", " ")
    if kind == "leader":
        return "election of a controller", ""
    if kind == "producer ids":
        return "block of producer ids", "given out"
    return kind, "created" if before is None else "deleted" if after is None else "changed"
