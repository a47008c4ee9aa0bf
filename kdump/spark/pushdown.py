"""What of a query's conditions the engine can use to pass over files and batches.

All of them go back to Spark as well, which tests every row: what is used here only needs to keep
every row that Spark would keep.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_INT64_MAX = (1 << 63) - 1


class Bounds(NamedTuple):
    """Partitions and ranges outside of which no row is asked for; `to_*` exclusive, None: none."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    from_offset: int | None = None
    to_offset: int | None = None
    from_time_ms: int | None = None
    to_time_ms: int | None = None

    def of_partitions(self) -> Bounds:
        """Return what says something about whole partitions only."""
        return Bounds(self.topics, self.partitions)

    def admits(self, topic: str | None, partition: int | None) -> bool:
        """Whether rows of a partition can be asked for."""
        if self.topics is not None and topic not in self.topics:
            return False
        return self.partitions is None or partition in self.partitions


def bounds_of(filters: Iterable[Any], known: Bounds | None = None) -> Bounds:
    """Read conditions that all have to hold, in the form of `pyspark.sql.datasource`."""
    bounds = known or Bounds()
    for condition in filters:
        word = type(condition).__name__
        name = ".".join(getattr(condition, "attribute", ()))
        value: Any = getattr(condition, "value", None)
        if name == "topic" and word in ("EqualTo", "In"):
            topics = frozenset(value if word == "In" else (value,))
            bounds = bounds._replace(topics=_both(bounds.topics, topics))
        elif name == "partition" and word in ("EqualTo", "In"):
            partitions = frozenset(value if word == "In" else (value,))
            bounds = bounds._replace(partitions=_both(bounds.partitions, partitions))
        elif name == "offset":
            bounds = _narrowed(bounds, "offset", word, value)
        elif name == "timestamp_ms":
            bounds = _narrowed(bounds, "time_ms", word, value)
        elif name == "timestamp" and isinstance(value, datetime) and value.tzinfo is not None:
            exact, rest = divmod(value - _EPOCH, _MILLISECOND)
            if rest and word == "LessThan":
                exact += 1  # the millisecond itself lies below
            bounds = _narrowed(bounds, "time_ms", word, exact)
    return bounds


def _both(known: frozenset[Any] | None, more: frozenset[Any]) -> frozenset[Any]:
    return more if known is None else known & more


def _narrowed(bounds: Bounds, what: str, word: str, value: object) -> Bounds:
    if not isinstance(value, int):
        return bounds
    low, high = getattr(bounds, f"from_{what}"), getattr(bounds, f"to_{what}")
    if word in ("EqualTo", "GreaterThan", "GreaterThanOrEqual"):
        low = value if low is None else max(low, value)
    if word in ("EqualTo", "LessThan", "LessThanOrEqual"):
        end = value if word == "LessThan" else value + 1
        if end <= _INT64_MAX:
            high = end if high is None else min(high, end)
    return bounds._replace(**{f"from_{what}": low, f"to_{what}": high})
