"""Spans of batches with one leader epoch, and whether one contradicts its neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kdump.engine.reading.damage import at_place
from kdump.findings.finding import Finding

if TYPE_CHECKING:
    from kdump.findings.rows import Place


class Span(NamedTuple):
    """Consecutive batches of one epoch: `position` and `size_bytes` are of the first."""

    epoch: int
    first_offset: int
    last_offset: int
    batches: int
    place: Place
    position: int
    size_bytes: int
    doubtful: bool = False  # among batches whose offsets are not in order
    shown: bool = True  # not left out of a dump


def lies_apart(epoch: int, before: int, after: int) -> bool:
    """Whether the epoch of one batch is not between those around it, which do not fall."""
    return before <= after and not before <= epoch <= after


def odd_finding(span: Span, before: Span | None, after: Span | None) -> Finding:
    """Say that a batch's epoch is not that of its place."""
    neighbours = [
        f"{one.epoch} {where}"
        for one, where in ((before, "before"), (after, "behind"))
        if one is not None
    ]
    beside = before or after
    message = (
        f"The batch at offset {span.first_offset:,} has leader epoch {span.epoch}, between "
        f"{' and '.join(neighbours) or 'none'}. The field lies outside the checksum; the records "
        "are whole."
    )
    return at_place(
        "leader-epoch-odd",
        span.place,
        position=span.position,
        size_bytes=span.size_bytes,
        offset=span.first_offset,
        expected=None if beside is None else beside.epoch,
        actual=span.epoch,
        message=message,
    )
