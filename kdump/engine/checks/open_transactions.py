"""Report transactions that are still open at the log end, and those that hang (L7).

How old one is, the log tells and not the clock: a copy of a directory may be years old, and where
a log simply ends nothing is old. Markers carry a broker's time. Where none follows, what was
written outside of transactions has to do; that time is a producer's, so it has to be twice as
long. Only where a broker runs is the time of the file held against today's: its batches were
there by then. Where the coordinators' topic lies under the same paths, what no coordinator awaits
hangs at any age (T4).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from kdump.broker.open_transactions import open_transaction_of
from kdump.broker.visibility import transaction_words
from kdump.engine.reading.check import Conditional, Reported, RestsOn
from kdump.engine.reading.damage import at_place
from kdump.findings.commands import abort_command, producer_command
from kdump.findings.moments import span_text
from kdump.findings.shell import format_command
from kdump.storage import lock, places

if TYPE_CHECKING:
    from kdump.broker.producer_state import Producer, ProducerStates
    from kdump.engine.reading.partition_scan import PartitionScan, SegmentScan

_SHOWN = 100


class _Age(NamedTuple):
    """How old a transaction is at least, how old it may be, and by what that is known."""

    ms: int
    allowed_ms: int
    words: str

    @property
    def hangs(self) -> bool:
        """Whether it is older than any coordinator lets one become."""
        return self.ms > self.allowed_ms


def open_transactions(
    partition: PartitionScan, newest: SegmentScan, states: ProducerStates
) -> Iterator[Reported]:
    """Tell of each transaction that has no marker; the earliest holds readers back."""
    stable = states.last_stable_offset(newest.last_offset + 1)
    path = partition.log.path
    live = bool(states.open) and not places.is_uri(path) and bool(lock.is_held_around(path))
    name = partition.log.name
    retired = name is not None and name.retirement is not None  # no consumer reads there
    for producer_id, first in islice(states.open.items(), _SHOWN):
        producer = states.producers[producer_id]
        tail = newest.tail
        age = _by_log(partition, producer, states)
        if live and not age.hangs:
            by_file = _by_file(partition, first)
            age = by_file if by_file.hangs else age
        message = f"{transaction_words(producer_id, producer, first)}; {age.words}."
        is_left, words = partition.judged(open_transaction_of(states, producer_id), live)
        message += words
        # The marker may have been in what broke off.
        hangs = (age.hangs or (is_left and tail is None)) and not retired
        if age.hangs and hangs:
            message += f" {_limit_words(partition)}"
        if first == stable:
            message += _waiting_words(partition, newest, first)
        if hangs:
            message += _abort_words(newest, first)
        else:
            looks = producer_command(str(partition.log.path), producer_id, first)
            message += f" To look at it: {format_command(looks)}"
        more = len(states.open) - _SHOWN
        if first == stable and more > 0:
            message += f" {more:,} more transactions are open."
        found = at_place(
            "transaction-hanging" if hangs else "transaction-open",
            newest.place,
            offset=first,
            actual=producer.since_ms,
            message=message,
        )
        if tail is not None and not hangs:
            yield Conditional(found, RestsOn(newest.base_offset, tail.position, tail.position + 1))
        else:
            yield found


def _by_log(partition: PartitionScan, producer: Producer, states: ProducerStates) -> _Age:
    """How long the log goes on behind a transaction's first batch."""
    allowed = partition.settings.transaction_max_timeout_ms
    if producer.stamped_ms >= 0:
        age, allowed = states.newest_marker_ms - producer.stamped_ms, allowed
    else:
        age, allowed = states.newest_ms - producer.since_ms, 2 * allowed
        if min(producer.since_ms, states.newest_ms) < 0:
            age = 0
    return _Age(age, allowed, f"the log continues for {span_text(age)} behind it")


def _by_file(partition: PartitionScan, first: int) -> _Age:
    """How long ago the segment was last written that holds a transaction's first batch."""
    holds = [one for one in partition.segments if one.base_offset <= first]
    age = 0
    try:
        if holds:
            age = partition.now_ms - places.stat(holds[-1].path).st_mtime_ns // 1_000_000
    except OSError:
        pass  # it is gone: nothing holds readers back then
    words = f"a broker runs, and its segment was last written {span_text(age)} ago"
    return _Age(age, partition.settings.transaction_max_timeout_ms, words)


def _limit_words(partition: PartitionScan) -> str:
    settings = partition.settings
    stated = "transaction_max_timeout_ms" in settings.stated
    whose = "as --server-properties says" if stated else "Kafka's default"
    return (
        "No transaction may be open longer than transaction.max.timeout.ms, "
        f"{span_text(settings.transaction_max_timeout_ms)} ({whose}): it hangs."
    )


def _waiting_words(partition: PartitionScan, newest: SegmentScan, first: int) -> str:
    start = max(first, partition.segments[0].base_offset)
    count = max(0, newest.last_offset + 1 - start)
    return (
        f" read_committed consumers stop at offset {first:,}; up to {count:,} records wait "
        "after it."
    )


def _abort_words(newest: SegmentScan, first: int) -> str:
    place = newest.place
    if place.topic is None or place.partition is None:
        return ""
    command = format_command(abort_command(place.topic, place.partition, first))
    return f" On a running cluster this ends it: {command}"
