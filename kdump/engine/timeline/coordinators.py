"""The sources of the coordinators' topics: groups, commits and transactions, record by record."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump.broker.remote_log import COPY_FINISHED, DELETE_FINISHED
from kdump.engine.coordinators.partitions import Item, Records
from kdump.engine.timeline.raw_event import COORDINATOR, LEADER, Open, RawEvent, Step
from kdump.kernels import columns as c
from kdump.messages.records import decoder
from kdump.messages.table import Fields
from kdump.replay.group_lives import At, GroupLives, GroupRebalance, MemberJoin, MemberLeave
from kdump.replay.transactions import STATES
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.engine.timeline.replica import Replica
    from kdump.findings.rows import RecordChunk

_GROUP_RECORDS = {
    "group_metadata",
    "consumer_group_metadata",
    "consumer_group_member_metadata",
    "share_group_metadata",
    "share_group_member_metadata",
    "streams_group_metadata",
    "streams_group_member_metadata",
}
_MOST_PENDING = _MOST_STEPS = 100_000


class _At(NamedTuple):
    offset: int
    epoch: int
    at_ms: int
    clock: int | None
    path: str
    segment: int | None
    position: int
    producer_id: int


class _Log:
    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._decode = decoder(replica.item.topic)
        self._at = _At(0, -1, -1, None, "", None, 0, -1)

    def read(self) -> None:
        """Read all records, and hand over their events."""
        replica = self._replica
        item = Item(*replica.item[:3], False, replica.item.size_bytes)
        records = Records(item, replica.pace, replica.options.decompress_limit, self.note_loss)
        replica.read.reported += records.into(self._chunk)

    def _chunk(self, one: RecordChunk) -> None:
        records, data, known = one.records, one.data, -1
        for row in range(records.count):
            batch = records.batch(row)
            if batch != known:
                known, epoch = batch, one.batches.leader_epoch(batch)
                flags, clock = one.batches.flags_of(batch), self._replica.leader(epoch)
                producer = one.batches.producer_id(batch) if flags & c.TRANSACTIONAL else -1
                place = one.place.path, one.place.segment, one.batches.position(batch), producer
            self._at = _At(records.offset(row), epoch, records.timestamp(row), clock, *place)
            key = records.key(data, row)
            if flags & c.CONTROL:
                self.control(key)
            else:
                self.record(key, records.payload(data, row))

    def note_loss(self) -> None:
        """Take note that records are missing."""

    def control(self, key: bytes | None) -> None:
        """Take up a marker."""

    def record(self, key: bytes | None, value: bytes | None) -> None:
        """Take up a record."""
        read_key, read = self._decode(key, value)
        if read_key is None or read_key.data is None or read_key.type is None:
            return
        if value is None:
            self._add(read_key.type, read_key.data, None)
        elif read is not None and read.data is not None:
            self._add(read_key.type, read_key.data, read.data)

    def _add(self, kind: str, key: Fields, value: Fields | None) -> None:
        raise NotImplementedError

    def _event(self, what: str, subject: str, text: str, **more: str | None) -> RawEvent:
        at, item = self._at, self._replica.item
        return RawEvent(
            *(what, subject, text, item.topic, item.partition, at.offset, at.epoch, None),
            *(COORDINATOR, at.clock, at.at_ms, at.path, at.segment, at.position),
            about=more.get("about"),
            group=more.get("group"),
        )


class _Groups(_Log):
    """Members, generations, and commits: one in a transaction counts from its marker on."""

    def __init__(self, replica: Replica) -> None:
        super().__init__(replica)
        self._offsets: dict[tuple[str, str, int], int] = {}
        self._lives = GroupLives()
        self._pending: dict[int, list[tuple[tuple[str, str, int], int, RawEvent]]] = {}
        self._held = 0

    def note_loss(self) -> None:
        self._offsets.clear()
        self._lives.note_loss()

    def control(self, key: bytes | None) -> None:
        waiting = self._pending.pop(self._at.producer_id, ())
        self._held -= len(waiting)
        if key is not None and len(key) >= 4 and key[3] == 1:
            for name, offset, event in waiting:
                self._note_commit(name, offset, event)

    def _add(self, kind: str, key: Fields, value: Fields | None) -> None:
        group = str(key.get("group", key.get("groupId", "")))
        if kind == "offset_commit":
            self._commit(group, str(key["topic"]), int(key["partition"]), value)
        elif kind in _GROUP_RECORDS:
            what, text = self._group(kind, key, value)
            self._replica.take(self._event(what, group, text, group=group))

    def _commit(self, group: str, topic: str, partition: int, value: Fields | None) -> None:
        name = group, topic, partition
        if value is None:
            self._offsets.pop(name, None)
            return
        text = f"{topic}-{partition} at {value['offset']:,}"
        event = self._event("commit", group, text, about=topic, group=group)
        producer = self._at.producer_id
        if producer < 0:
            self._note_commit(name, int(value["offset"]), event)
        elif self._held < _MOST_PENDING:
            self._held += 1
            self._pending.setdefault(producer, []).append((name, int(value["offset"]), event))

    def _note_commit(self, name: tuple[str, str, int], offset: int, event: RawEvent) -> None:
        before = self._offsets.get(name)
        self._offsets[name] = offset
        if before is not None and offset < before:
            text = f"{name[1]}-{name[2]} back from {before:,} to {offset:,}"
            event = event._replace(what="commit-back", text=text)
        self._replica.take(event)

    def _group(self, kind: str, key: Fields, value: Fields | None) -> tuple[str, str]:
        at = At(self._at.at_ms, self._at.offset)
        events = list(self._lives.take(kind, key, value, at))
        came = [one.who for one in events if isinstance(one, MemberJoin)]
        went = [one.who.member_id for one in events if isinstance(one, MemberLeave)]
        if "member" in kind:
            member = key["memberId"]
            if value is None:
                return "member", f"{member} left"
            verb = "joined" if came else "changed its subscription"
            client = value.get("clientId", "")
            return "member", f"{member} {verb} ({client} at {value.get('clientHost', '')})"
        if value is None:
            return "group-empty", "the group was removed"
        members = value.get("members")
        if members is None:
            return "rebalance", f"group epoch {value.get('epoch')}"
        count = len(members)
        before = next((one.before for one in events if isinstance(one, GroupRebalance)), count)
        text = f"generation {value.get('generation')}, {count} member{'s' * (count != 1)}"
        if not members:
            return "group-empty", f"{text}: none left" if before else text
        if count != before:
            text += f" ({before} before)"
        # What there was before the first generation that is left is not known.
        if before or value["generation"] <= 1:
            text += "".join(f"; {one.member_id} joined" for one in came)
            text += "".join(f"; {name} left" for name in went)
        return "rebalance", text


_WORDS = {
    "Ongoing": ("transaction-begin", "began"),
    "PrepareCommit": ("transaction-commit", "is committed: markers follow"),
    "PrepareAbort": ("transaction-abort", "is aborted: markers follow"),
    "PrepareEpochFence": ("transaction-abort", "is aborted: its producer was fenced"),
}


class _Transactions(_Log):
    """Transaction coordinator: what became of each transactional id."""

    def __init__(self, replica: Replica) -> None:
        super().__init__(replica)
        self._last: dict[str, tuple[str, RawEvent]] = {}
        self._steps: deque[Step] = deque(maxlen=_MOST_STEPS)

    def read(self) -> None:
        super().read()
        read = self._replica.read
        read.steps += self._steps
        for state, event in self._last.values():
            if state == "Ongoing":
                text = f"{event.text}; no marker ends it"
                read.open.append(Open(-1, event._replace(what="transaction-hangs", text=text)))

    def _add(self, kind: str, key: Fields, value: Fields | None) -> None:
        name = str(key.get("transactionalId", ""))
        if value is None:
            self._last.pop(name, None)
            return
        number = int(value["transactionStatus"])
        state = STATES[number] if 0 <= number < len(STATES) else ""
        at = self._at
        self._steps.append(
            Step(
                *(value["producerId"], value["producerEpoch"], state, at.clock, at.at_ms, name),
                partitions=tuple(_partitions(value)),
                spot=self._replica.find_spot(at.offset, at.epoch),
            )
        )
        what, words = _WORDS.get(state, ("", ""))
        before = self._last.get(name, ("", None))[0]
        event = self._event(what, name, "")
        if what and state != before:
            where = ", ".join(_partitions(value)) or "no partition yet"
            text = f"producer {value['producerId']}/{value['producerEpoch']} {words}; {where}"
            event = event._replace(text=text)
            self._replica.take(event)
            self._last[name] = state, event
        elif state != before:
            self._last[name] = state, event


def _partitions(value: Fields) -> Iterator[str]:
    for topic in value.get("transactionPartitions") or ():
        for partition in topic["partitionIds"]:
            yield f"{topic['topic']}-{partition}"


_TIER_WORDS = {
    COPY_FINISHED: ("tier-copy", "was copied to remote storage"),
    DELETE_FINISHED: ("tier-delete", "was deleted from remote storage"),
}
_MOST_SEGMENTS = 1_000_000


class _Tiers(_Log):
    """Remote log metadata: which segments were copied and deleted, dated by the broker that did."""

    def __init__(self, replica: Replica) -> None:
        super().__init__(replica)
        self._ranges: dict[str, str] = {}

    def record(self, key: bytes | None, value: bytes | None) -> None:
        read = self._decode(key, value)[1]
        if read is None or read.data is None or "remoteLogSegmentId" not in read.data:
            return
        data, of = read.data, read.data["remoteLogSegmentId"]
        segment, place = str(of["id"]), of["topicIdPartition"]
        if "endOffset" in data and len(self._ranges) < _MOST_SEGMENTS:
            size = data["segmentSizeInBytes"]
            offsets = f"offsets {data['startOffset']:,} to {data['endOffset']:,}"
            self._ranges[segment] = f"segment {segment} ({offsets}, {size:,} bytes)"
        what, words = _TIER_WORDS.get(data["remoteLogSegmentState"], ("", ""))
        if not what:
            return
        topic, broker = place["name"], data["brokerId"]
        text = f"{self._ranges.get(segment, f'segment {segment}')} {words}"
        event = self._event(what, f"{topic}-{place['partition']}", text, about=topic)
        at_ms = data["eventTimestampMs"]
        self._replica.take(
            event._replace(broker_id=broker, clock=LEADER, clock_of=broker, at_ms=at_ms)
        )


def group_events(replica: Replica) -> None:
    """Hand over the events of groups."""
    _Groups(replica).read()


def transaction_events(replica: Replica) -> None:
    """Hand over the events of transactional ids."""
    _Transactions(replica).read()


def tier_events(replica: Replica) -> None:
    """Hand over the events of remote segments."""
    _Tiers(replica).read()
