"""What a source of the timeline yields: an event with the time that one clock gave it."""

from __future__ import annotations

import json
import marshal

from kdump.tuples import NamedTuple

#: Whose clock wrote a time.
CONTROLLER, COORDINATOR, LEADER = "controller", "coordinator", "leader"
CLIENT, FILE, NO_CLOCK = "client", "file", "none"
RECORDED, DERIVED, INFERRED = "recorded", "derived", "inferred"


class RawEvent(NamedTuple):
    """An event, before the clocks are held against each other.

    `topic`, `partition` and `offset` are the place of what shows it, `epoch` the leader epoch of
    that record; `node` the broker whose disk alone shows it, None for what replicas share.
    `about` is the topic it is about, `group` the group. `file_from` and `file_to` bound it on the
    clock of `broker_id` by times of files.
    """

    what: str
    subject: str
    text: str
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    epoch: int = -1
    broker_id: int | None = None
    clock: str = NO_CLOCK
    clock_of: int | None = None
    at_ms: int | None = None
    path: str = ""
    segment: int | None = None
    position: int | None = None
    basis: str = RECORDED
    node: int | None = None
    about: str | None = None
    group: str | None = None
    file_from: int | None = None
    file_to: int | None = None

    def pack(self) -> bytes:
        """Write it as an entry of a spool: all that tell of the same event stand together.

        Of a commit that another replica knows to go back, the latter comes first.
        """
        family, rank = (
            ("commit", self.what == "commit") if self.what[:6] == "commit" else (self.what, 0)
        )
        same = (self.topic, self.partition, self.epoch, self.offset, family, self.subject)
        whose = self.node if self.topic is not None else self.path
        key = json.dumps((*same, whose), separators=(",", ":"))
        return b"%b\0%d" % (key.encode(), rank) + marshal.dumps(tuple(self))


def unpack(entry: bytes) -> tuple[bytes, RawEvent]:
    """Read what `pack` wrote: what identifies the event, and the event."""
    at = entry.index(b"\0")
    return entry[:at], RawEvent(*marshal.loads(entry[at + 2 :]))


class Spot(NamedTuple):
    """A place in a log: its topic, or the id of that, and partition; the offset and epoch there."""

    log: tuple[str, int]
    offset: int
    epoch: int


class Tie(NamedTuple):
    """Two times of which the first was surely written before the second, by two clocks.

    `by_file`: the second is the time of a file. The spots are those of the records.
    """

    first: int
    first_ms: int
    second: int
    second_ms: int
    why: str
    by_file: bool = False
    first_at: Spot | None = None
    second_at: Spot | None = None


class Open(NamedTuple):
    """A transaction that nothing ends; whose it is, coordinators know by the producer."""

    producer_id: int
    event: RawEvent


class Step(NamedTuple):
    """A record of a transactional id, which its markers lie before or behind."""

    producer_id: int
    producer_epoch: int
    state: str
    clock: int | None
    at_ms: int
    transactional_id: str
    partitions: tuple[str, ...]
    spot: Spot | None = None


class Marker(NamedTuple):
    """A transaction marker, dated by the leader of its partition."""

    producer_id: int
    producer_epoch: int
    clock: int
    at_ms: int
    partition: str
    spot: Spot | None = None
