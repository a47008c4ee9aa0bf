"""Check how dense the offset indexes of a partition are, and which are empty without reason."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump.engine.reading.damage import at_place

if TYPE_CHECKING:
    from kdump.engine.checks.proof import Proof
    from kdump.findings.finding import Finding

_EMPTY_FACTOR = 3  # an index is empty for no reason if its log has room for so many entries


class Spacing:
    """How far apart entries lie in the segments of a partition.

    An empty index is legal: a segment that was compacted, or written in a few large appends, has
    few entries or none (I9). So it is a note, and only where the neighbours are dense.
    """

    def __init__(self) -> None:
        self._densest: int | None = None  # bytes of log an entry
        self._empty: list[tuple[int, Finding]] = []

    def add(self, proof: Proof) -> None:
        """Take in one segment."""
        segment, index = proof.segment, proof.offsets
        if index is None:
            return
        if len(index) > 1:
            spacing = segment.end_position // len(index)
            self._densest = spacing if self._densest is None else min(self._densest, spacing)
        elif not index.entries and not segment.active:
            message = f"No entry stands for the {segment.end_position:,} bytes of the log."
            told = at_place("offset-index-empty", segment.place, path=index.path, message=message)
            self._empty.append((segment.end_position, told))

    def end(self) -> Iterator[Finding]:
        """Name the empty ones whose logs have room for several entries."""
        densest = self._densest
        if densest is not None:
            yield from (told for size, told in self._empty if size >= _EMPTY_FACTOR * densest)
