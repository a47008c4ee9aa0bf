"""Filter batches and records of a chunk by what the user asked for.

Find the records whose key or value matches a pattern, by one search over many of them.

A search over the bytes of a whole block tells which records can match; only these are looked at.
It looks for bytes that every match holds, else for the pattern itself. The latter serves only where
a match in a value is one in the block too: not with anchors or what looks around, which see other
neighbours there, and not where a match has no longest size, or one search could take the square of
the block's size.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kdump import kernels
from kdump.findings.rows import BatchRow, RecordRow
from kdump.kernels import columns as c
from kdump.record.layout import DELETE_HORIZON_BIT, TIMESTAMP_TYPE_BIT
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kdump.kernels.columns import Data, DecodedRecords, RecordBatches

    Forms = Sequence[bytes | None]


_NO_TIMESTAMP = -1


class Filters(NamedTuple):
    """What is asked for. None means: no bound. `to_*` are exclusive."""

    from_offset: int | None = None
    to_offset: int | None = None
    from_time_ms: int | None = None
    to_time_ms: int | None = None
    key: bytes | None = None
    grep: re.Pattern[bytes] | None = None
    producer_id: int | None = None
    control: bool | None = None

    @property
    def on_batches(self) -> bool:
        """Whether the headers of some batches show that they hold nothing asked for."""
        return any(
            bound is not None
            for bound in (
                self.from_offset, self.to_offset, self.from_time_ms, self.producer_id, self.control,
            )
        )  # fmt: skip

    @property
    def _on_columns(self) -> bool:
        """Whether records are asked for by offset, time or key."""
        return any(
            bound is not None
            for bound in (
                self.from_offset, self.to_offset, self.from_time_ms, self.to_time_ms, self.key,
            )
        )  # fmt: skip

    @property
    def on_records(self) -> bool:
        """Whether records have to be looked at one by one."""
        return self._on_columns or self.grep is not None

    @property
    def content(self) -> Callable[[Forms, Forms], bool] | None:
        """What says whether a record is asked for by its key and value; None: not asked for so."""
        return None if self.key is None and self.grep is None else self.admits_content

    def admits_content(self, keys: Forms, values: Forms) -> bool:
        """Whether a record is asked for by its key and value, each of which has one form or more.

        Forms are the bytes, and the JSON text where they are decoded.
        """
        if self.key is not None and self.key not in keys:
            return False
        search = None if self.grep is None else self.grep.search
        return search is None or any(
            text is not None and search(text) is not None for text in (*keys, *values)
        )

    def admits_batch(self, batches: RecordBatches, row: int) -> bool:
        """Whether a batch can hold a record that is asked for, as far as its header tells.

        A wrapper's offset and time exclude nothing: `hides` says whether it has to be opened.
        """
        flags = batches.flags_of(row)
        if self.control is not None and bool(flags & c.CONTROL) != self.control:
            return False
        if self.producer_id is not None and (
            not batches.has_producer_fields(row) or batches.producer_id(row) != self.producer_id
        ):
            return False
        if flags & c.WRAPPER:
            # One time for all inside, where the broker gave it.
            has_one_time = batches.has_timestamps(row) and _is_append_time(batches, row)
            return not has_one_time or self._reaches(batches, row)
        if self.from_offset is not None and batches.last_offset(row) < self.from_offset:
            return False
        if self.to_offset is not None and batches.base_offset(row) >= self.to_offset:
            return False
        return self._reaches(batches, row)

    def hides(self, batches: RecordBatches, row: int) -> bool:
        """Whether a wrapper's own offset or time lies below what is asked for.

        What is inside may yet reach it, so it is opened before it is passed over.
        """
        if not batches.flags_of(row) & c.WRAPPER:
            return False
        if self.from_offset is not None and batches.last_offset(row) < self.from_offset:
            return True
        return self.from_time_ms is not None and batches.max_timestamp(row) < self.from_time_ms

    def may_reach(self, offset: int, time_ms: int) -> bool:
        """Whether records up to an offset and a time may be asked for."""
        if self.from_offset is not None and offset < self.from_offset:
            return False
        return self.from_time_ms is None or time_ms >= self.from_time_ms

    def _reaches(self, batches: RecordBatches, row: int) -> bool:
        """Whether a batch's greatest time reaches the bound."""
        has_time = batches.has_timestamps(row)
        greatest = batches.max_timestamp(row) if has_time else _NO_TIMESTAMP
        return self.from_time_ms is None or greatest >= self.from_time_ms

    def admits_pre08(self, row: RecordRow | BatchRow) -> bool:
        """Whether a row of a `.kafka` file is asked for, its offset aside.

        The format has no times, keys, producers or control records, so no such bound is met.
        """
        if self.producer_id is not None or self.control or self.from_time_ms is not None:
            return False
        if isinstance(row, BatchRow):
            return True
        return self.admits_content((), (row.value,))

    def select_headers(self, batches: RecordBatches) -> array[int] | None:
        """Return the rows of headers asked for, None for all."""
        if not self.on_batches and self.to_time_ms is None:
            return None
        to_time = self.to_time_ms
        return array(
            "q",
            (
                row
                for row in range(batches.count)
                if self.admits_batch(batches, row)
                and (to_time is None or _first_time(batches, row) < to_time)
            ),
        )

    def select_records(
        self, data: Data, records: DecodedRecords, admitted: bytearray | None
    ) -> array[int] | None:
        """Return the rows of records asked for, None for all.

        `admitted` marks the batches that passed; None: all did.
        """
        search = None
        if self.grep is not None:
            from kdump.engine.reading.filters import search_for

            search = search_for(self.grep)
        part = None if search is None else search.part
        rows = None
        if admitted is not None or part is not None or self._on_columns:
            offsets = self.from_offset, self.to_offset
            times = self.from_time_ms, self.to_time_ms
            rows = kernels.select_records(data, records, admitted, offsets, times, self.key, part)
        return rows if search is None else array("q", search.rows(data, records, rows))


def _first_time(batches: RecordBatches, row: int) -> int:
    """The time of a batch's first record, -1 where its header does not tell."""
    if batches.has_timestamps(row) and _is_append_time(batches, row):
        return batches.max_timestamp(row)
    if batches.flags_of(row) & c.WRAPPER or batches.attributes(row) & DELETE_HORIZON_BIT:
        return _NO_TIMESTAMP
    return batches.base_timestamp(row)


def _is_append_time(batches: RecordBatches, row: int) -> bool:
    return bool(batches.attributes(row) & TIMESTAMP_TYPE_BIT)


_LONGEST = 256  # bytes that a match may have, for a search over a block
_SHORT_LITERAL = 3  # bytes below which the pattern itself finds less
#: Parts of a pattern that match by themselves, whatever stands around them.
_FREE = frozenset(("LITERAL", "NOT_LITERAL", "ANY", "IN", "RANGE", "CATEGORY"))
_REPEATS = frozenset(("MAX_REPEAT", "MIN_REPEAT"))


class ContentSearch:
    """What is known of a pattern."""

    def __init__(self, pattern: re.Pattern[bytes]) -> None:
        self._pattern = pattern
        self._is_free = False
        self._literal = b""
        try:
            from re import _parser  # type: ignore[attr-defined]

            tree = _parser.parse(pattern.pattern, pattern.flags)
            if pattern.flags & re.IGNORECASE:
                return
            longest = tree.getwidth()[1]
            self._literal = _literal(tree)
        except (ImportError, AttributeError, TypeError, ValueError, KeyError):
            return  # another Python: no more than speed is lost
        self._is_free = longest <= _LONGEST and tree.getwidth()[0] > 0 and _is_free(tree)

    @property
    def part(self) -> bytes | None:
        """Bytes that every match holds, where to look for them pays; else None."""
        short = self._is_free and len(self._literal) < _SHORT_LITERAL
        return None if short or not self._literal else self._literal

    def rows(self, data: Data, records: DecodedRecords, rows: Iterable[int] | None) -> list[int]:
        """Return the rows that match, of some (those that hold `part`) or (None) of all."""
        candidates = range(records.count) if rows is None else rows
        if self._is_free and self.part is None:
            begins = frozenset(self._match_rows(data, records))
            candidates = [row for row in candidates if row in begins]
        return [row for row in candidates if self._matches(data, records, row)]

    def _match_rows(self, data: Data, records: DecodedRecords) -> Iterator[int]:
        """Yield the rows in which a match over the block begins, in order."""
        search, positions = self._pattern.search, records.positions
        last = records.count - 1
        if last < 0:
            return
        end = positions[last] + records.size_bytes(last)
        row = -1
        while row < last:
            found = search(data, positions[row + 1], end)
            if found is None:
                return
            row = bisect_right(positions, found.start()) - 1
            yield row

    def _matches(self, data: Data, records: DecodedRecords, row: int) -> bool:
        return any(
            text is not None and self._pattern.search(text) is not None
            for text in (records.key(data, row), records.payload(data, row))
        )


@lru_cache(maxsize=8)
def search_for(pattern: re.Pattern[bytes]) -> ContentSearch:
    """Look at a pattern once."""
    return ContentSearch(pattern)


def _literal(tree: Any) -> bytes:
    """Return the longest run of bytes that is in all that a parsed pattern matches."""
    best, run = b"", bytearray()
    for op, arg in tree:
        name, inner = str(op), b""
        if name == "LITERAL":
            run.append(arg)
            continue
        if name in _REPEATS and arg[0] > 0:
            inner = _literal(arg[2])
            if len(inner) == len(arg[2]):  # nothing but bytes, which go on what is before them
                run += inner
        elif name == "SUBPATTERN" and not arg[1] & re.IGNORECASE:
            inner = _literal(arg[3])
        best = max(best, bytes(run), inner, key=len)
        run.clear()
    return max(best, bytes(run), key=len)


def _is_free(tree: Any) -> bool:
    """Whether all parts of a parsed pattern match by themselves."""
    for op, arg in tree:
        name = str(op)
        if name in _REPEATS:
            inside = [arg[2]]
        elif name == "SUBPATTERN":
            inside = [arg[3]]
        elif name == "BRANCH":
            inside = arg[1]
        elif name in _FREE:
            inside = []
        else:
            return False
        if not all(map(_is_free, inside)):
            return False
    return True
