"""The source of the metadata log: who led, what was created and changed, who came and went.

Every copy is read: of a log that has lost its beginning another may have it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump.engine.cluster.rows import change_row
from kdump.engine.reading.damage import at_place
from kdump.engine.timeline.leaders import METADATA_ID, Term
from kdump.engine.timeline.raw_event import CONTROLLER, RawEvent, Spot
from kdump.errors import PathError
from kdump.findings.rows import Place
from kdump.replay import cluster_facts as c
from kdump.replay.cluster import read_replay
from kdump.storage.names import CLUSTER_METADATA_TOPIC

if TYPE_CHECKING:
    from kdump.engine.timeline.replica import Replica

#: What an event is, its subject, its text, the topic that it is about, the broker it happened to.
_Words = tuple[str, str, str, str | None, int | None]


def metadata_events(replica: Replica) -> None:
    """Hand over the events of one copy of the metadata log, and who led."""
    item, limit, reported = replica.item, replica.options.decompress_limit, replica.read.reported
    told = _EventCollector(replica).change
    try:
        replay = read_replay(item.path, whole=True, limit=limit, on_change=told, tells_first=True)
    except PathError as error:
        reported.append(error)
        return
    if replay.holes:
        message = "Part of this copy of the metadata log is missing or cannot be read: its events "
        message += "are listed only where another copy has them."
        place = Place(item.topic, item.partition, None, item.path)
        reported.append(at_place("replay-incomplete", place, message=message))


class _EventCollector:
    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._leaders = replica.leaders
        self._controllers: dict[int, int] = {}  # by epoch
        self._removed: tuple[str, int | None] = ("", None)
        self._led_until: dict[int, int] = {}  # when brokers lost what they led
        self._let_go: dict[int, bool] = {}

    def change(self, change: c.Change) -> None:
        at, after = change.at, change.after
        if isinstance(after, c.Leader):
            self._controllers[at.epoch] = after.leader_id
            self._leaders.add(METADATA_ID, 0, Term(at.epoch, after.leader_id, None, None))
        controller = self._controllers.get(at.epoch)
        if isinstance(after, c.Topic):
            self._leaders.name(after.topic, after.topic_id)
        elif isinstance(after, c.Partition):
            before = change.before
            if isinstance(before, c.Partition) and before.leader != after.leader:
                self._led_until[before.leader] = at.time_ms
            if not isinstance(before, c.Partition) or before.leader_epoch != after.leader_epoch:
                time_ms = at.known_ms
                log = METADATA_ID, 0
                spot = None if at.offset is None else Spot(log, at.offset, at.epoch)
                term = Term(after.leader_epoch, after.leader, controller, time_ms, spot)
                self._leaders.add(after.topic_id, after.partition, term)
        if at.offset is None:
            return  # a snapshot knows what is, not when it came about
        for what, subject, text, about, broker in self._events(change):
            place = CLUSTER_METADATA_TOPIC, 0, at.offset, at.epoch, broker
            dated = CONTROLLER, controller, at.time_ms, self._replica.item.path
            self._replica.take(RawEvent(what, subject, text, *place, *dated, about=about))

    def _events(self, change: c.Change) -> Iterator[_Words]:
        fact, before, after = change.fact, change.before, change.after
        if isinstance(fact, c.Partition):
            if isinstance(before, c.Partition) and isinstance(after, c.Partition):
                yield from _partition(before, after)
        elif isinstance(fact, c.Broker):
            yield from self._broker(before, after, change.at.time_ms)
        elif isinstance(fact, c.Leader):
            text = f"node {fact.leader_id} is the active controller, epoch {fact.epoch}"
            yield "leader", f"{CLUSTER_METADATA_TOPIC}-0", text, None, fact.leader_id
        elif isinstance(fact, c.Topic):
            if after is None:
                self._removed = fact.topic, change.at.offset
                yield "topic-delete", fact.topic, f"deleted; id {fact.topic_id}", fact.topic, None
            elif before is None:
                yield "topic-create", fact.topic, f"created; id {fact.topic_id}", fact.topic, None
        elif isinstance(fact, c.Config):
            if (fact.resource, change.at.offset) == self._removed:
                return  # they went with their topic
            of_topic = fact.resource_type == "topic"
            name = fact.resource or "cluster"
            subject = name if of_topic or not fact.resource else f"{fact.resource_type} {name}"
            text = f"{fact.key} {'' if after else 'no longer set: it '}{_words(change)}"
            yield "config", subject, text, fact.resource if of_topic else None, None
        elif isinstance(fact, c.Feature):
            yield "feature", fact.name, _words(change), None, None
        elif isinstance(fact, c.Quota):
            yield "quota", c.entity_text(fact.entity), f"{fact.key} {_words(change)}", None, None
        elif isinstance(fact, c.Acl):
            text = f"{fact.operation} {fact.resource_type} {fact.resource}: {_words(change)}"
            about = fact.resource if fact.resource_type == "TOPIC" else None
            yield "acl", fact.principal, text, about, None
        elif isinstance(fact, c.ScramUser):
            yield "user", fact.name, f"{fact.mechanism} {_words(change)}", None, None
        elif isinstance(fact, c.DelegationToken):
            yield "token", fact.owner, f"{fact.token_id} {_words(change)}", None, None

    def _broker(self, before: c.Fact | None, after: c.Fact | None, at_ms: int) -> Iterator[_Words]:
        """Tell of a broker; that it stopped may not have been announced: see M8."""
        if not isinstance(after, c.Broker):
            return
        number, let_go = after.broker_id, self._let_go
        if not isinstance(before, c.Broker) or before.epoch != after.epoch:
            clean = not isinstance(before, c.Broker) or before.in_controlled_shutdown
            likely = let_go.pop(number, False)
            text = "registered" if before else "registered for the first time"
            text += f"; broker epoch {after.epoch}"
            if not clean:
                text += f": it had {'probably' if likely else 'not'} requested to stop"
            clean = clean or likely
            yield "start-clean" if clean else "start-unclean", str(number), text, None, number
            return
        if after.fenced != before.fenced:
            what = "fenced" if after.fenced else "unfenced"
            text = f"{what}: it {'leads no partition' if after.fenced else 'may lead again'}"
            yield what, str(number), text, None, number
        if after.in_controlled_shutdown:
            text = "" if before.in_controlled_shutdown else "requested a controlled shutdown"
        elif before is after:
            text = "fenced again: it had probably requested to stop" if number in let_go else ""
            let_go[number] = bool(text)
        elif not after.fenced or before.fenced:
            text = ""
        elif self._led_until.get(number) == at_ms:
            text = "fenced: no heartbeat came for broker.session.timeout.ms"
        else:
            let_go[number] = False
            text = "fenced while it led no partition: it requested to stop, or sent no heartbeat"
        if text:
            yield "stop", str(number), text, None, number


def _words(change: c.Change) -> str:
    return str(change_row(change, secrets=False).get("text"))


def _partition(before: c.Partition, after: c.Partition) -> Iterator[_Words]:
    subject = c.subject_of(after)
    if before.leader != after.leader:
        unclean = before.recovery_state != after.recovery_state and after.leader >= 0
        more = f", ISR {_list(after.isr)}"
        if unclean and after.recovery_state == c.RECOVERY_STATES[1]:
            more += ": an unclean election, records may be lost"
        now = "no leader" if after.leader < 0 else f"leader {after.leader}"
        was = "none" if before.leader < 0 else str(before.leader)
        text = f"{now} (was {was}), epoch {after.leader_epoch}{more}"
        yield "leader", subject, text, after.topic, None
    if set(before.isr) != set(after.isr):
        text = f"ISR {_list(before.isr)} to {_list(after.isr)}"
        yield "isr", subject, text, after.topic, None
    moved = [
        f"{name.replace('_', ' ')}: {_list(getattr(before, name))} to {_list(getattr(after, name))}"
        for name in ("replicas", "adding_replicas", "removing_replicas")
        if getattr(before, name) != getattr(after, name)
    ]
    if moved:
        yield "reassign", subject, "; ".join(moved), after.topic, None


def _list(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers)) or "none"
