"""Find out what a filter of Arrow's leaves possible, without reading the filter.

Arrow itself says whether a filter can hold for rows of which something is known: it prunes the
fragments of a dataset so. Each question is such a dataset here, whose files are never opened. What
DuckDB and Polars make of a condition is theirs to choose, so no expression is taken apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, reduce
from operator import and_
from typing import Any

from kdump.tuples import NamedTuple

#: Pieces that a range is cut into, again and again, to find its ends.
_PIECES = 16
LEAST, GREATEST = -(1 << 63), (1 << 63) - 1


class Range(NamedTuple):
    """The least and the greatest number that a column may have; None: any, or null."""

    low: int | None = None
    high: int | None = None


class Pruner:
    """What is possible under a filter; all is, where there is none or Arrow cannot tell."""

    def __init__(self, condition: Any, schema: Any) -> None:
        self._condition, self._schema = condition, schema

    @cached_property
    def columns(self) -> frozenset[str]:
        """The columns that the filter looks at."""
        if self._condition is None:
            return frozenset()
        names = frozenset(self._schema.names)
        return frozenset(name for name in names if not self._matches_without(name))

    def _matches_without(self, name: str) -> bool:
        import pyarrow as pa

        schema = pa.schema([field for field in self._schema if field.name != name])
        try:
            filter_rows(schema.empty_table(), self._condition)
        except (pa.ArrowException, ValueError, KeyError):
            return False
        return True

    def possible(self, guarantees: Sequence[Any]) -> list[int]:
        """Return the numbers of the guarantees under which the filter may hold for a row."""
        if self._condition is None:
            return list(range(len(guarantees)))
        import pyarrow as pa
        from pyarrow import dataset, fs

        form, system = dataset.IpcFileFormat(), fs.LocalFileSystem()
        fragments = [
            form.make_fragment(str(number), system, guarantee)
            for number, guarantee in enumerate(guarantees)
        ]
        every = dataset.FileSystemDataset(fragments, self._schema, form, system)
        try:
            return sorted(int(one.path) for one in every.get_fragments(self._condition))
        except pa.ArrowException:
            return list(range(len(guarantees)))

    def among(self, places: Sequence[dict[str, object]]) -> list[int]:
        """Return the numbers of the places whose values of columns a row may have.

        A value may be a range of numbers; None is null.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        def parts(place: dict[str, object]) -> Iterator[Any]:
            for name, value in place.items():
                field, kind = pc.field(name), self._schema.field(name).type
                if isinstance(value, Range):
                    yield field >= pa.scalar(value.low, kind)
                    if value.high is not None:
                        yield field <= pa.scalar(value.high, kind)
                else:
                    yield field.is_null() if value is None else field == pa.scalar(value, kind)

        return self.possible([reduce(and_, parts(place)) for place in places])

    def range_of(self, name: str) -> Range:
        """Return between which numbers a column of int64 or of times lies where the filter holds.

        None sets no bound: rows without a number may match.
        """
        if name not in self.columns or self.among([{name: None}]):
            return Range()
        import pyarrow as pa
        import pyarrow.compute as pc

        field, kind = pc.field(name), self._schema.field(name).type
        low = self._nearest(lambda end: field <= pa.scalar(end, kind), LEAST, GREATEST)
        high = -self._nearest(lambda end: field >= pa.scalar(-end, kind), -GREATEST, -LEAST)
        return Range(None if low == LEAST else low, None if high == GREATEST else high)

    def _nearest(self, bound: Callable[[int], Any], low: int, high: int) -> int:
        """Return the least of some numbers within whose bound the filter may hold."""
        while low < high:
            ends = [*range(low, high, max((high - low) // _PIECES, 1)), high]
            found = self.possible([bound(end) for end in ends])
            if not found:
                return high
            low, high = (ends[found[0] - 1] + 1 if found[0] else low), ends[found[0]]
        return high


def filter_rows(table: Any, condition: Any) -> Any:
    """Return the rows of a table for which a filter holds, in their order."""
    from pyarrow import acero

    plan = acero.Declaration.from_sequence(
        [
            acero.Declaration("table_source", acero.TableSourceNodeOptions(table)),
            acero.Declaration("filter", acero.FilterNodeOptions(condition)),
        ]
    )
    return plan.to_table(use_threads=False)
