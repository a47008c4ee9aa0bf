"""Find the records whose key or value matches a pattern, by one search over many of them.

A search over the bytes of a whole block tells which records can match; only these are looked at.
It looks for bytes that every match holds, else for the pattern itself. The latter serves only where
a match in a value is one in the block too: not with anchors or what looks around, which see other
neighbours there, and not where a match has no longest size, or one search could take the square of
the block's size.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kdump.kernels.columns import Data, DecodedRecords

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
            begins = frozenset(self._where_it_begins(data, records))
            candidates = [row for row in candidates if row in begins]
        return [row for row in candidates if self._matches(data, records, row)]

    def _where_it_begins(self, data: Data, records: DecodedRecords) -> Iterator[int]:
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
