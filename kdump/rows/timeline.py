"""The rows of `timeline`."""

from __future__ import annotations

from typing import Annotated, TypedDict

from kdump.rows.row import Row
from kdump.rows.words import Duration, Int32, Time, Word


class Evidence(TypedDict):
    """Where an event can be seen: the file, and its segment and position where these are known."""

    path: str
    segment: int | None
    position: int | None


class Event(Row, kind="event"):
    """Something that happened to a cluster, as its disks show it."""

    at_ms: Annotated[Time | None, "when, by the clock that wrote it; null: the disk has no time"]
    at_earliest_ms: Annotated[Time | None, "no earlier than this, on the common clock"]
    at_latest_ms: Annotated[Time | None, "no later than this, on the common clock"]
    clock: Annotated[Word, "whose clock: controller, coordinator, leader, client, file, none"]
    clock_of: Annotated[Int32 | None, "the broker that has that clock; null: not known"]
    what: Annotated[Word, "topic-create, leader, commit-back and others"]
    subject: Annotated[str, "the partition, topic, group, broker or other thing that it is about"]
    topic: Annotated[str | None, "the topic of the record that shows it"]
    partition: Annotated[Int32 | None, "the partition of that record"]
    offset: Annotated[int | None, "the offset of that record"]
    broker_id: Annotated[Int32 | None, "the broker that it happened to"]
    text: Annotated[str, "what happened, in words"]
    evidence: Annotated[Evidence, "the file that shows it"]
    basis: Annotated[Word, "recorded, derived from other facts, or inferred"]


class ClockSkew(Row, kind="clock-skew", leads=True):
    """How far the clock of one broker is ahead of that of another."""

    broker_id: Annotated[Int32, "the broker"]
    against_broker_id: Annotated[Int32, "the broker whose clock all times are given on"]
    at_least_ms: Annotated[Duration | None, "at least so far ahead; below 0: behind"]
    at_most_ms: Annotated[Duration | None, "at most so far ahead"]
    pairs: Annotated[int, "pairs of times that bound it"]
    from_: Annotated[str, "the pairs that bound it most closely"]
