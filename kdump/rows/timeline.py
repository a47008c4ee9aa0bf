"""The rows of `timeline`."""

from __future__ import annotations

from typing import Annotated, TypedDict

from kdump.rows.row import Row
from kdump.rows.words import Duration, Int32, Time, Word


class Evidence(TypedDict):
    """The file that shows an event, with segment and position if known."""

    path: str
    segment: int | None
    position: int | None


class Event(Row, kind="event"):
    """Something that happened to a cluster, as its disks show it."""

    at_ms: Annotated[Time | None, "time by the clock that wrote it; null: not on disk"]
    at_earliest_ms: Annotated[Time | None, "earliest possible time on the common clock"]
    at_latest_ms: Annotated[Time | None, "latest possible time on the common clock"]
    clock: Annotated[Word, "kind of clock: controller, coordinator, leader, client, file, none"]
    clock_of: Annotated[Int32 | None, "the broker with that clock; null: unknown"]
    what: Annotated[Word, "topic-create, leader, commit-back, and others"]
    subject: Annotated[str, "the partition, topic, group, broker, or other subject"]
    topic: Annotated[str | None, "topic of the record that shows it"]
    partition: Annotated[Int32 | None, "partition of that record"]
    offset: Annotated[int | None, "offset of that record"]
    broker_id: Annotated[Int32 | None, "the broker concerned"]
    text: Annotated[str, "description of what happened"]
    evidence: Annotated[Evidence, "the file that shows it"]
    basis: Annotated[Word, "recorded, derived from other facts, or inferred"]


class ClockSkew(Row, kind="clock-skew", leads=True):
    """How far one broker's clock is ahead of another's."""

    broker_id: Annotated[Int32, "the broker"]
    against_broker_id: Annotated[Int32, "the broker whose clock is used for all times"]
    at_least_ms: Annotated[Duration | None, "how far it is ahead at least; negative: behind"]
    at_most_ms: Annotated[Duration | None, "how far it is ahead at most"]
    pairs: Annotated[int, "number of pairs of times that bound it"]
    from_: Annotated[str, "the pairs that bound it most closely"]
