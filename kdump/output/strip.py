"""Draw which offsets each copy of a partition has, one line for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from kdump.output.column_widths import pad, width_of
from kdump.tuples import NamedTuple

_MOST_CELLS, _LEAST_CELLS = 64, 8
HAS, SOME, NONE = "█▒─"


class Extent(NamedTuple):
    """The offsets of a copy, `end` excluded, and spans of those that it lacks or has otherwise."""

    name: str
    start: int
    end: int
    missing: Sequence[tuple[int, int]] = ()
    differing: Sequence[tuple[int, int]] = ()

    def cell(self, first: int, last: int) -> str:
        """Return what stands for some offsets; one record that is missing is seen, too."""
        within = range(max(first, self.start), min(last, self.end - 1) + 1)
        if not within:
            return " "
        lacks = sum(_common(within, span) for span in self.missing)
        if lacks >= len(within):
            return NONE
        other = len(within) <= last - first or lacks
        other = other or any(_common(within, span) for span in self.differing)
        return SOME if other else HAS


def _common(within: range, span: tuple[int, int]) -> int:
    return max(0, min(within[-1], span[1]) - max(within[0], span[0]) + 1)


def strip_lines(
    extents: Sequence[Extent], width: int, *, high_watermark: int | None = None
) -> Iterator[str]:
    """Yield a line for each copy, and what the signs mean; none where all of them are alike."""
    held = [each for each in extents if each.start < each.end]
    low = min((each.start for each in held), default=0)
    high = max((each.end for each in held), default=0)
    names = max(width_of(each.name) for each in extents) + 2
    cells = min(_MOST_CELLS, width - names, high - low)
    is_same = all(
        (each.start, each.end) == (low, high) and not (each.missing or each.differing)
        for each in extents
    )
    if is_same or cells < min(_LEAST_CELLS, high - low) or high <= low:
        return
    edges = [low + (high - low) * number // cells for number in range(cells + 1)]
    drawn = set[str]()
    for each in extents:
        line = "".join(each.cell(first, end - 1) for first, end in pairwise(edges))
        drawn.update(line)
        yield pad(each.name, names) + (line.rstrip() or "no records")
    if high_watermark is not None and low < high_watermark <= high:
        at = max(number for number in range(cells) if edges[number] < high_watermark)
        text = f"high watermark {high_watermark}"
        if len(text) < at:
            text = f"{text} ▲".rjust(at + 1)
        elif at + 2 + len(text) <= width - names:
            text = " " * at + f"▲ {text}"
        yield " " * names + text
    meanings = {HAS: "whole", SOME: "partial or different", NONE: "missing"}
    said = [f"{sign} {meaning}" for sign, meaning in meanings.items() if sign in drawn]
    said = said if drawn & {SOME, NONE} else []
    span = f"offsets {low} to {high - 1}, {-(-(high - low) // cells):,} per character"
    legend = ", ".join([span, *said])
    fits = names + width_of(legend) <= width
    yield from (" " * names + line for line in ([legend] if fits else [span, ", ".join(said)]))
