"""What is asked of a cluster's metadata, and which facts and changes answer it."""

from __future__ import annotations

from collections.abc import Iterator

from kdump.replay import cluster_facts as c
from kdump.replay.cluster import END, Until
from kdump.storage.targets import EVERYTHING, Selection
from kdump.tuples import NamedTuple

#: Words of `--what`, in the order of the rows -> kinds of facts.
WHAT: dict[str, tuple[str, ...]] = {
    "features": ("feature", "zk-migration"),
    "brokers": ("broker",),
    "controllers": ("controller", "leader"),
    "topics": ("topic",),
    "partitions": ("partition",),
    "configs": ("config",),
    "quotas": ("quota",),
    "users": ("scram-user", "delegation-token"),
    "acls": ("acl",),
    "producer-ids": ("producer-ids",),
}


def to_until(moment: tuple[int | None, int | None] | None) -> Until:
    """Return the last record of a moment, which is an offset or a time; None: the end."""
    return END if moment is None else Until(*moment)


class ClusterOptions(NamedTuple):
    """What is asked for; `diff` are the two moments, of which the later one is `at` as well."""

    selection: Selection = EVERYTHING
    broker: int | None = None
    server_properties: str | None = None
    decompress_limit: int = 64 << 20
    at: Until = END
    diff_from: Until | None = None
    history: bool = False
    view: str | None = None
    what: tuple[str, ...] = ()
    show_secrets: bool = False

    @property
    def wants_changes(self) -> bool:
        """Whether changes are asked for, not facts."""
        return self.history or self.diff_from is not None

    def kinds(self) -> frozenset[str]:
        """Return the kinds of facts that are asked for."""
        return frozenset(kind for word in self.what or WHAT for kind in WHAT[word])

    def admits(self, fact: c.Fact) -> bool:
        """Whether a fact is asked for."""
        if c.kind_of(fact) not in self.kinds():
            return False
        if self.selection.is_narrowed:  # then only for what is said of topics
            return self._of_topic(fact)
        return self.broker is None or _of_broker(fact, self.broker)

    def _of_topic(self, fact: c.Fact) -> bool:
        if isinstance(fact, c.Config) and fact.resource_type == "topic":
            name: str | None = fact.resource
        elif isinstance(fact, c.Topic | c.Partition):
            name = fact.topic
        else:
            return False
        number = fact.partition if isinstance(fact, c.Partition) else self.selection.partition
        if not self.selection.admits(name, number):
            return False
        return self.broker is None or _of_broker(fact, self.broker)

    def admits_change(self, change: c.Change) -> bool:
        """Whether a change is asked for."""
        if not self.admits(change.fact):
            return False
        if self.broker is not None and isinstance(change.fact, c.Partition):
            return _role(change.before, self.broker) != _role(change.after, self.broker)
        return True


def _of_broker(fact: c.Fact, broker: int) -> bool:
    if isinstance(fact, c.Broker):
        return fact.broker_id == broker
    if isinstance(fact, c.Config):
        return fact.resource_type == "broker" and fact.resource == str(broker)
    # One that leaves a partition is told by what was before.
    return isinstance(fact, c.Partition)


def _role(fact: c.Fact | None, broker: int) -> tuple[bool, ...]:
    """What a broker is to a partition."""
    if not isinstance(fact, c.Partition):
        return (False, False, False, False)
    return (
        broker in fact.replicas,
        broker in fact.isr,
        broker == fact.leader,
        broker in fact.adding_replicas,
    )


def has_replica_on(fact: c.Fact, broker: int | None) -> bool:
    """Whether a partition has a replica on a broker; what is no partition is not asked."""
    return broker is None or not isinstance(fact, c.Partition) or broker in fact.replicas


def is_after(change: c.Change, start: Until) -> bool:
    """Whether a change was said behind a moment."""
    at = change.at
    if start.offset is not None:
        said = at.offset if at.offset is not None else at.below - 1
        return said > start.offset
    return start.time_ms is not None and at.time_ms > start.time_ms


class Folds:
    """Makes of several changes of one thing one, from what was before to what came of it."""

    def __init__(self) -> None:
        self._folds: dict[object, c.Change] = {}

    def add(self, change: c.Change) -> None:
        """Take up the next change; things stand in the order of their last ones."""
        key = c.identity(change.fact)
        first = self._folds.pop(key, None)
        self._folds[key] = change if first is None else change._replace(before=first.before)

    def changes(self) -> Iterator[c.Change]:
        """Yield what is different in the end."""
        for change in self._folds.values():
            before, after = change.before, change.after
            if before is None or after is None:
                if before is not after:
                    yield change
            elif c.content(before) != c.content(after):
                yield change
