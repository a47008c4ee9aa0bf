"""Plan a comparison of mirrors: which partition of one cluster is which of the other (M7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from kdump.broker.lookup_records import BrokerError
from kdump.broker.partition import PartitionView
from kdump.broker.visibility import aborted_transactions
from kdump.engine.coordinators.partitions import Reported, cleaner_offset, furthest, gather, item_of
from kdump.engine.reading.options import DumpOptions
from kdump.errors import KdumpError
from kdump.storage.targets import Selection, Target, resolve
from kdump.tuples import NamedTuple

#: Topics of brokers and of MirrorMaker's own, which are never mirrored.
_INTERNAL = ("__*", "*.internal", "heartbeats", "*.heartbeats", "mm2-*")
_CHECKPOINTS = ".checkpoints.internal"


#: First and last offsets of aborted transactions by their producers, rising.
Aborted = dict[int, list[tuple[int, int]]]


class MirrorOptions(DumpOptions):
    """What is asked for, and how logs are read for it.

    `alias`: the name of the source, which stands before the names of topics at the target; None:
    found out. `groups`: committed offsets are translated, those of `group` if that is given.
    `shown` stretches of each partition are yielded. `ignore_times`: times are not compared.
    """

    alias: str | None = None
    groups: bool = False
    group: str | None = None
    shown: int = 20
    ignore_times: bool = False
    scratch: str | None = None

    @property
    def of_all(self) -> MirrorOptions:
        """The same for all topics: what is asked for are names at the source."""
        return MirrorOptions(**vars(self) | {"selection": Selection()})


class Pair(NamedTuple):
    """A partition and its mirror; `target` is None where that is not here.

    `is_cleaned`: the cleaner came over one of them. `starts` are where the two logs start.
    `aborted` are transactions of the source that a mirror of committed records leaves out.
    """

    topic: str
    partition: int
    source: str
    target_topic: str
    target: str | None
    is_cleaned: bool
    starts: tuple[int, int]
    aborted: Aborted


class Plan(NamedTuple):
    """The pairs, and the partitions of MirrorMaker's own topics on either side."""

    pairs: list[Pair]
    checkpoints: list[str]
    syncs: list[str]


def plan(source: str, target: str, options: MirrorOptions, planned: Plan) -> Iterator[Reported]:
    """Find the pairs, in the order of topics and partitions; yield what goes wrong."""
    sides: list[dict[tuple[str, int], Target]] = []
    for path in (source, target):
        found: list[Target] = []
        yield from gather(resolve([path], Selection(), None, listed=False), found)
        best = (one for one, _ in furthest(found))
        sides.append({(one.topic or "", one.partition or 0): one for one in best})
    here, there = sides
    for side in sides:
        for (topic, _), one in side.items():
            if fnmatchcase(topic, "mm2-offset-syncs.*.internal"):
                planned.syncs.append(one.path)
    planned.checkpoints.extend(
        one.path for (topic, _), one in there.items() if topic.endswith(_CHECKPOINTS)
    )
    alias = options.alias or _only_alias(topic for topic, _ in there)
    topics = {topic for topic, _ in there}
    for (topic, number), one in sorted(here.items()):
        name = None if _is_internal(topic) else _target_name(topic, topics, alias)
        if name is None or not options.selection.admits(topic, number):
            continue
        mirror = there.get((name, number))
        is_cleaned = any(
            cleaner_offset(item_of(each, retired=False)) > 0 for each in (one, mirror) if each
        )
        to = None if mirror is None else mirror.path
        starts = _start(one), _start(mirror)
        pair = Pair(topic, number, one.path, name, to, is_cleaned, starts, _collect_aborted(one))
        planned.pairs.append(pair)


def _collect_aborted(target: Target) -> Aborted:
    """Collect the aborted transactions of a partition that its transaction indexes name."""
    found: Aborted = {}
    for one in aborted_transactions(target.log.segments if target.log else ()):
        found.setdefault(one.producer_id, []).append((one.first_offset, one.last_offset))
    return found


def _start(target: Target | None) -> int:
    """Return where a log starts: deleted records may still be on the disk below."""
    try:
        return 0 if target is None else PartitionView(target, as_is=True).log_start
    except (BrokerError, KdumpError):
        return 0


def _only_alias(topics: Iterable[str]) -> str | None:
    """Return the source's name, as MirrorMaker's own topic has it, where there is one source."""
    found = {topic.removesuffix(_CHECKPOINTS) for topic in topics if topic.endswith(_CHECKPOINTS)}
    return found.pop() if len(found) == 1 else None


def _is_internal(topic: str) -> bool:
    return any(fnmatchcase(topic, pattern) for pattern in _INTERNAL)


def _target_name(topic: str, there: set[str], alias: str | None) -> str | None:
    """Return the name of a topic at the target; None if it has no mirror there."""
    if alias is not None and f"{alias}.{topic}" in there:
        return f"{alias}.{topic}"
    if topic in there:
        return topic
    found = [name for name in there if name.endswith(f".{topic}") and not _is_internal(name)]
    return found[0] if len(found) == 1 and alias is None else None
