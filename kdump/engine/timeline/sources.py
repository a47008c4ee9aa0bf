"""Every source of events: what it reads, what it gives, and by whose clock.

A source is a function that takes a `Replica` and hands it events; modules are named, not imported.
`timeline` merges what all that are listed here give, and `--what` knows their words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module

from kdump.replay.groups import TOPIC as GROUPS
from kdump.replay.transactions import TOPIC as TRANSACTIONS
from kdump.storage import names
from kdump.tuples import NamedTuple

#: The topic of what lies in a data directory itself.
NO_TOPIC = ""


class Source(NamedTuple):
    """Where events come from.

    `gives` names their kinds, `clocks` those that may date them, `subject` what they are about.
    `topic`: the one that it reads; None: each partition. `comes_first`: others build on it.
    """

    reads: str
    gives: str
    clocks: str
    subject: str
    topic: str | None = None
    comes_first: bool = False

    @property
    def function(self) -> Callable[..., None]:
        """The function that reads it."""
        return _function(self.reads)


@cache
def _function(reads: str) -> Callable[..., None]:
    module, _, member = reads.partition(":")
    found: Callable[..., None]
    found = getattr(import_module(f"kdump.engine.timeline.{module}"), member)
    return found


SOURCES = (
    Source("directories:format_events", "format", "file none", "broker", NO_TOPIC, True),
    Source(
        "metadata:metadata_events",
        "start-clean start-unclean stop fenced unfenced leader isr reassign topic-create"
        " topic-delete config acl quota user token feature",
        "controller", "what a record changes", names.CLUSTER_METADATA_TOPIC, True,
    ),
    Source(
        "coordinators:group_events", "member rebalance group-empty commit commit-back",
        "coordinator", "group", GROUPS,
    ),
    Source(
        "coordinators:transaction_events",
        "transaction-begin transaction-commit transaction-abort transaction-hangs",
        "coordinator", "transactional id", TRANSACTIONS,
    ),
    Source(
        "coordinators:tier_events", "tier-copy tier-delete",
        "leader", "partition", names.REMOTE_LOG_METADATA_TOPIC,
    ),
    Source(
        "segments:segment_events", "roll gap file-changed", "leader client file none", "partition"
    ),
    Source(
        "headers:header_events", "epoch damage time-jump transaction-hangs",
        "leader client none", "partition, or a transactional id",
    ),
    Source(
        "directories:checkpoint_events", "retention delete clean file-created",
        "file none", "partition",
    ),
    Source("records:record_events", "record", "leader client", "partition"),
)  # fmt: skip
#: The topics whose records are read.
DECODED = frozenset(one.topic for one in SOURCES if one.topic and not one.comes_first)


def sources(topic: str, *, first: bool) -> Iterator[Source]:
    """Yield the sources that read a topic."""
    for one in SOURCES:
        if one.comes_first == first and (one.topic == topic or (one.topic is None and topic)):
            yield one
