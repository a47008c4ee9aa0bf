"""Make rows of the lives of groups, and of what assignors would have given their members."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kdump.engine.groups.rows import TopicNames
from kdump.findings.rows import Row
from kdump.messages.records import decode
from kdump.messages.wire import text_of
from kdump.replay.group_lives import (
    TYPES,
    At,
    GroupLives,
    GroupRebalance,
    LifeEvent,
    MemberJoin,
    MemberLeave,
    OwnershipSpan,
)
from kdump.replay.groups import CLASSIC, CONSUMER, TOPIC, GroupRecord, group_of
from kdump.rows import groups as rows

if TYPE_CHECKING:
    from kdump.engine.coordinators.partitions import Marks
    from kdump.engine.groups.options import GroupOptions
    from kdump.replay.assignors.members import Place, Topics

#: More partitions of one topic than any cluster has: what broken records say is not computed.
_MOST_PARTITIONS = 100_000
#: The assignor of Kafka Streams, whose members say in their own words what they want.
_STREAMS = "stream"


class Lives:
    """The lives of the groups of one partition of `__consumer_offsets` that are asked for."""

    def __init__(self, partition: int, options: GroupOptions, marks: Marks) -> None:
        self._partition = partition
        self._options = options
        self._marks = marks
        self._lives = GroupLives()
        self._recorded_names: dict[str, str] = {}
        self._names = TopicNames(self._recorded_names, marks)
        self._last: dict[bytes, int] = {}  # offset of a group's last record
        self._is_lost = False

    def note_loss(self) -> None:
        """Forget all: records are missing."""
        self._lives.note_loss()
        self._last.clear()
        self._is_lost = True

    def rows(self, record: GroupRecord, hole_end: int, *, is_whole: bool) -> Iterator[Row]:
        """Take up a record about a group; yield its events, as far as they are asked for.

        `hole_end` is where the last hole so far ends, 0 where there is none; `is_whole`: it lies
        before all that was cleaned, or behind that.
        """
        group = group_of(record.key)
        if group is None or not self._options.wants_group(text_of(group)):
            return
        key, value = decode(TOPIC, record.key, record.value)
        if key is None or key.data is None or (value is not None and value.data is None):
            return
        data = None if value is None else value.data
        if key.type == "consumer_group_partition_metadata" and data:
            self._recorded_names |= {one["topicId"]: one["topicName"] for one in data["topics"]}
        if key.type not in TYPES:
            return
        before = self._last.get(group, -1)
        self._last[group] = record.source_offset
        # Where there is no hole, the cleaner removed nothing between two records of a group.
        is_known = before >= 0 or not self._is_lost
        is_certain = is_known and (is_whole or not hole_end or hole_end <= before)
        at = At(record.at_ms, record.source_offset, is_certain)
        for event in self._lives.take(key.type, key.data, data, at):
            if (row := self._row(text_of(group), event, at)) is not None:
                yield row

    def open_rows(self) -> Iterator[Row]:
        """Yield who has what at the end of the log."""
        for group, owned in self._lives.open():
            if (row := self._owner_row(group, owned)) is not None:
                yield row

    def _row(self, group: str, event: LifeEvent, at: At) -> Row | None:
        if isinstance(event, OwnershipSpan):
            return self._owner_row(group, event)
        if not self._options.is_of_time(at.ms) or not self._is_of_topics(event):
            return None
        where = self._partition, at.offset
        if isinstance(event, GroupRebalance):
            return self._rebalance_row(group, event, at)
        who = event.who
        names = group, who.member_id, who.instance_id, who.client_id, who.client_host
        if isinstance(event, MemberLeave):
            return rows.MemberLeave(at.ms, *names, who.joined_ms, event.epoch, event.total, *where)
        topics = None if who.topics is None else list(who.topics)
        return rows.MemberJoin(at.ms, *names, topics, who.regex, event.epoch, event.total, *where)

    def _is_of_topics(self, event: MemberJoin | MemberLeave | GroupRebalance) -> bool:
        """Whether it is about a topic that is asked for, or may be."""
        selection = self._options.selection
        if not selection.is_narrowed:
            return True
        if isinstance(event, GroupRebalance):
            places = self._places(event)
            found = {place for each in places.values() for place in each}
            return any(selection.admits(*place) for place in found) or not found
        number = selection.partition or 0
        topics = event.who.topics
        return topics is None or bool(event.who.regex) or any(
            selection.admits(topic, number) for topic in topics
        )  # fmt: skip

    def _owner_row(self, group: str, owned: OwnershipSpan) -> Row | None:
        name, number = owned.place
        topic = self._names.of(name) if owned.by_id else name
        to_ms = (1 << 63) - 1 if owned.to_ms is None else owned.to_ms
        if not self._options.selection.admits(topic, number):
            return None
        if not self._options.is_of_time(owned.from_ms, to_ms):
            return None
        who = owned.who
        return rows.PartitionOwner(
            group,
            topic,
            number,
            None if who is None else who.member_id,
            None if who is None else who.client_id,
            None if who is None else who.client_host,
            owned.from_ms,
            owned.to_ms,
            owned.epoch,
            self._partition,
        )

    def _rebalance_row(self, group: str, event: GroupRebalance, at: At) -> Row:
        places = self._places(event)
        explained = {}
        is_known = event.type in (CLASSIC, CONSUMER) and event.protocol != _STREAMS
        if self._options.explain and is_known and event.members:
            explained = self._explain(event)
        return rows.Rebalance(
            at.ms,
            group,
            event.type,
            event.epoch,
            event.protocol,
            event.leader,
            len(event.members) if event.type != CLASSIC else len(event.assigned),
            event.before,
            {name: _by_topic(some) for name, some in sorted(places.items())},
            self._partition,
            at.offset,
            **explained,
        )

    def _places(self, event: GroupRebalance) -> Mapping[str, list[Place]]:
        """Return what each member is to have, with the names of topics."""
        named = self._names.of if event.type != CLASSIC else str
        return {
            name: [(named(topic), number) for topic, number in places]
            for name, places in event.assigned.items()
        }

    # Explained.

    def _explain(self, event: GroupRebalance) -> dict[str, Any]:
        from kdump.replay.assignors.fitting import CLASSIC as OF_CLIENTS
        from kdump.replay.assignors.fitting import NEWER, fit_assignors

        members = event.members
        seen: dict[str, int] = {}  # how many partitions a topic has at least
        for place in (*_all(event.assigned.values()), *_all(one.owned for one in members)):
            seen[place[0]] = max(seen.get(place[0], 0), place[1] + 1)
        is_classic = event.type == CLASSIC
        ids = {} if is_classic else {self._names.of(topic): topic for topic in seen}
        wanted = dict.fromkeys(topic for one in members for topic in one.topics)
        known: dict[str, list[frozenset[str]]] = {}
        for topic in wanted:
            key = topic if is_classic else ids.setdefault(topic, self._marks.topic_id(topic) or "")
            if key and (racks := self._marks.racks(topic)):
                known[key] = racks
        if not is_classic:
            unnamed = [topic for topic in seen if self._names.of(topic) == topic]
            without_id = [topic for topic in wanted if not ids.get(topic)]
            if len(unnamed) == len(without_id) == 1:
                ids[without_id[0]] = unnamed[0]
            elif unnamed:  # nobody knows whose topics these are
                return {"fits": []}
            members = tuple(
                one._replace(topics=tuple(ids[name] for name in one.topics if ids.get(name)))
                for one in members
            )
        found = fit_assignors(
            event.assigned,
            members,
            _sizes(seen, known, {topic for one in members for topic in one.topics}),
            OF_CLIENTS if is_classic else NEWER,
            event.protocol,
        )
        named = str if is_classic else self._names.of
        return {
            "fits": list(found.fits),
            "nearest": found.nearest,
            "differences": [
                {"topic": named(topic), "partition": number, "member_id": has, "expected": other}
                for (topic, number), has, other in found.differences
            ],
        }


def _sizes(
    seen: Mapping[str, int], known: Mapping[str, list[frozenset[str]]], wanted: set[str]
) -> Iterator[Topics]:
    """Yield how large topics may have been: as the cluster says now, and as they were assigned."""
    nowhere: list[frozenset[str]] = [frozenset()]
    assigned = {
        topic: nowhere * count
        for topic, count in seen.items()
        if topic in wanted and count <= _MOST_PARTITIONS
    }
    now = assigned | {topic: racks for topic, racks in known.items() if topic in wanted}
    then = {topic: (now[topic] + some)[: len(some)] for topic, some in assigned.items()}
    yield now
    if {topic: len(some) for topic, some in then.items()} != {
        topic: len(some) for topic, some in now.items()
    }:
        yield then


def _all(lists: Iterable[Iterable[Place]]) -> Iterator[Place]:
    return (place for some in lists for place in some)


def _by_topic(places: Iterable[Place]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, number in sorted(places):
        found.setdefault(topic, []).append(number)
    return found
