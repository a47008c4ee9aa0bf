"""Who led which partition when, as metadata logs tell: so whose clock dated a batch."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from kdump.engine.timeline.raw_event import Spot
from kdump.storage.names import CLUSTER_METADATA_TOPIC
from kdump.tuples import NamedTuple

_MOST_EPOCHS = 1_000_000
#: The metadata log is known by it, or by none: it is a topic in no metadata.
METADATA_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


class Term(NamedTuple):
    """A leader epoch of a partition: who led, and when and where which controller said so."""

    epoch: int
    leader: int
    controller: int | None
    at_ms: int | None
    spot: Spot | None = None


class Leaders:
    """Who led which partition in which epoch, as the metadata logs tell."""

    def __init__(self) -> None:
        self._terms: dict[tuple[str, int], list[Term]] = {}
        self._ids: dict[str, str] = {CLUSTER_METADATA_TOPIC: METADATA_ID}
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

    def find_term(
        self, topic: str, topic_id: str | None, partition: int, epoch: int
    ) -> Term | None:
        """Return the epoch of a partition; None where no metadata log has it."""
        terms = self._terms.get(self.log(topic, topic_id, partition))
        at = bisect_right(terms, epoch, key=lambda one: one.epoch) if terms else 0
        term = terms[at - 1] if terms and at else None
        return term if term is not None and term.epoch == epoch else None

    def log(self, topic: str, topic_id: str | None, partition: int) -> tuple[str, int]:
        """Return what distinguishes a partition from those of other topics that had its name."""
        return topic_id or self._ids.get(topic, topic), partition
