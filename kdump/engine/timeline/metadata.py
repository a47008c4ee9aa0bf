"""The source of the metadata log: who led, what was created and changed, who came and went.

Every copy is read: of a log that has lost its beginning another may have it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kdump.engine.cluster.rows import change_row
from kdump.engine.timeline.happening import CONTROLLER, Happening
from kdump.replay import cluster_facts as c
from kdump.replay.cluster import read_replay
from kdump.storage.names import CLUSTER_METADATA_TOPIC

_MOST_EPOCHS = 1_000_000
#: The metadata log is known by it, or by none: it is a topic in no metadata.
_METADATA_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


class Term(NamedTuple):
    """A leader epoch of a partition: who led, and when which controller said so."""

    epoch: int
    leader: int
    controller: int | None
    at_ms: int | None


class Leaders:
    """Who led which partition in which epoch, as the metadata logs tell."""

    def __init__(self) -> None:
        self._terms: dict[tuple[str, int], list[Term]] = {}
        self._ids: dict[str, str] = {CLUSTER_METADATA_TOPIC: _METADATA_ID}
        self._count = 0

    def name(self, topic: str, topic_id: str) -> None:
        """Take note that a topic has an id; the last one that it had counts."""
        self._ids[topic] = topic_id

    def add(self, topic_id: str, partition: int, term: Term) -> None:
        """Take note of an epoch."""
        terms = self._terms.setdefault((topic_id, partition), [])
        at = bisect_left(terms, term.epoch, key=lambda one: one.epoch)
        if at < len(terms) and terms[at].epoch == term.epoch:
            if terms[at].at_ms is None:
                terms[at] = term
        elif self._count < _MOST_EPOCHS:
            self._count += 1
            terms.insert(at, term)

    def term(self, topic: str, topic_id: str | None, partition: int, epoch: int) -> Term | None:
        """Return the epoch of a partition; None where no metadata log has it."""
        terms = self._terms.get((topic_id or self._ids.get(topic, ""), partition))
        at = bisect_right(terms, epoch, key=lambda one: one.epoch) if terms else 0
        term = terms[at - 1] if terms and at else None
        return term if term is not None and term.epoch == epoch else None


def metadata_events(
    path: str, leaders: Leaders, take: Callable[[Happening], None], limit: int
) -> bool:
    """Hand over the events of one copy of the metadata log; say whether it is whole."""
    told = _Told(path, leaders, take)
    replay = read_replay(path, whole=True, limit=limit, on_change=told.change, tells_first=True)
    return not replay.holes


class _Told:
    def __init__(self, path: str, leaders: Leaders, take: Callable[[Happening], None]) -> None:
        self._path = path
        self._leaders = leaders
        self._take = take
        self._controllers: dict[int, int] = {}  # by epoch
        self._removed: tuple[str, int | None] = ("", None)

    def change(self, change: c.Change) -> None:
        at, after = change.at, change.after
        if isinstance(after, c.Leader):
            self._controllers[at.epoch] = after.leader_id
            self._leaders.add(_METADATA_ID, 0, Term(at.epoch, after.leader_id, None, None))
        controller = self._controllers.get(at.epoch)
        if isinstance(after, c.Topic):
            self._leaders.name(after.topic, after.topic_id)
        elif isinstance(after, c.Partition):
            before = change.before
            if not isinstance(before, c.Partition) or before.leader_epoch != after.leader_epoch:
                time_ms = at.known_ms
                term = Term(after.leader_epoch, after.leader, controller, time_ms)
                self._leaders.add(after.topic_id, after.partition, term)
        if at.offset is None:
            return  # a snapshot knows what is, not when it came about
        for what, subject, text, about, broker in self._events(change):
            self._take(
                Happening(
                    what,
                    subject,
                    text,
                    CLUSTER_METADATA_TOPIC,
                    0,
                    at.offset,
                    at.epoch,
                    broker,
                    CONTROLLER,
                    controller,
                    at.time_ms,
                    self._path,
                    about=about,
                )
            )

    def _events(self, change: c.Change) -> Iterator[tuple[str, str, str, str | None, int | None]]:
        fact, before, after = change.fact, change.before, change.after
        if isinstance(fact, c.Partition):
            if isinstance(before, c.Partition) and isinstance(after, c.Partition):
                yield from _partition(before, after)
        elif isinstance(fact, c.Broker):
            yield from _broker(before, after)
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
            text = f"{fact.key} {_words(change)}"
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


def _words(change: c.Change) -> str:
    return str(change_row(change, secrets=False).get("text"))


def _partition(
    before: c.Partition, after: c.Partition
) -> Iterator[tuple[str, str, str, str | None, int | None]]:
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
        f"{name.replace('_', ' ')} {_list(getattr(before, name))} to {_list(getattr(after, name))}"
        for name in ("replicas", "adding_replicas", "removing_replicas")
        if getattr(before, name) != getattr(after, name)
    ]
    if moved:
        yield "reassign", subject, "; ".join(moved), after.topic, None


def _broker(
    before: c.Fact | None, after: c.Fact | None
) -> Iterator[tuple[str, str, str, str | None, int | None]]:
    if not isinstance(after, c.Broker):
        return
    number = after.broker_id
    if not isinstance(before, c.Broker) or before.epoch != after.epoch:
        clean = not isinstance(before, c.Broker) or before.in_controlled_shutdown
        first = " for the first time" if before is None else ""
        text = f"registered{first}; broker epoch {after.epoch}"
        if not clean:
            text += ": it had not said that it would stop"
        yield "start-clean" if clean else "start-unclean", str(number), text, None, number
        return
    if after.fenced != before.fenced:
        what, text = ("fenced", "leads nothing") if after.fenced else ("unfenced", "may lead again")
        yield what, str(number), f"{what}: it {text}", None, number
    if after.in_controlled_shutdown and not before.in_controlled_shutdown:
        yield "stop", str(number), "asked to stop in order", None, number
    elif after.fenced and not before.fenced and not after.in_controlled_shutdown:
        text = "fenced: no heartbeat came for broker.session.timeout.ms"
        yield "stop", str(number), text, None, number


def _list(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers)) or "none"
