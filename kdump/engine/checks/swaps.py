"""Check `.swap` files: replacements by a cleaner or a split that were not completed (R6)."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

from kdump.engine.checks.missing_segments import Covered
from kdump.engine.reading.damage import at_place, gap_finding
from kdump.engine.reading.segment_pass import SegmentPass
from kdump.errors import PathError
from kdump.findings.finding import Finding
from kdump.findings.rows import Place
from kdump.record.frames import Gap
from kdump.storage import names, places
from kdump.storage.names import Kind
from kdump.storage.offsets import Offsets
from kdump.storage.segment_range import end_of
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.engine.reading.partition_scan import PartitionScan


class _Swap(NamedTuple):
    place: Place
    base_offset: int
    next_offset: int
    legacy: bool


def swaps(partition: PartitionScan, covered: list[Covered]) -> Iterator[Finding]:
    """Yield what a start would do with them, and add to `covered` the offsets they hold.

    They are read like any log: once they are in place there is no other.
    """
    found: list[_Swap] = []
    for name, path in partition.log.retired:
        if name.kind is Kind.LOG and name.suffix == names.SWAP and name.base_offset is not None:
            try:
                found.append((yield from _read(partition, path, name.base_offset)))
            except PathError as error:
                if places.lexists(path):
                    partition.errors.append(error)
    if not found:
        return
    covered.extend(Covered(swap.base_offset, swap.next_offset) for swap in found)
    start = min(swap.base_offset for swap in found)
    end = max(swap.next_offset for swap in found)
    replaced = [
        segment.base_offset for segment in partition.log.logs if start <= segment.base_offset < end
    ]
    yield at_place(
        "swap-left",
        found[0].place,
        actual=len(found),
        message=_words(found, replaced, _lost_at_start(partition, found)),
    )


def _read(partition: PartitionScan, path: str, base_offset: int) -> Generator[Finding, None, _Swap]:
    place = partition.place._replace(segment=base_offset, path=path)
    if partition.quick:
        bases = [segment.base_offset for segment in partition.log.logs]
        behind = min((base for base in bases if base > base_offset), default=names.OFFSET_MAX)
        return _Swap(place, base_offset, behind, legacy=False)
    offsets, legacy = Offsets(base_offset - 1, end_of(base_offset, None)), False
    with partition.open(path) as source:
        log = SegmentPass(source, offsets, limit=partition.limit, next_base=None)
        for item in log.items():
            legacy |= not isinstance(item, Gap) and item.batches.is_legacy(0)
            for gap in log.take(item):
                yield gap_finding(gap, place, source, active=False)
        for gap in offsets.release(None):
            yield gap_finding(gap, place, source, active=False)
    return _Swap(place, base_offset, offsets.last + 1, legacy)


def _lost_at_start(partition: PartitionScan, found: list[_Swap]) -> list[int]:
    """Swap files that a start deletes: those from the first `.cleaned` file on."""
    cleaned = [
        name.base_offset
        for name, _ in partition.log.retired
        if name.suffix == names.CLEANED and name.base_offset is not None
    ]
    return [swap.base_offset for swap in found if cleaned and swap.base_offset >= min(cleaned)]


def _words(found: list[_Swap], replaced: list[int], lost: list[int]) -> str:
    bases = _list([swap.base_offset for swap in found])
    if lost:
        return (
            f"Swap files of {bases} lie beside files still being cleaned: a start deletes those "
            f"of {_list(lost)}."
        )
    if replaced:
        return f"A start puts the swap files of {bases} in the place of segment {_list(replaced)}."
    words = (
        f"A start makes the swap files of {bases} segments; no other segment holds their offsets."
    )
    if any(swap.legacy for swap in found):
        words += " Brokers of 0.9.0 to 0.10.2 delete the segment before them as well."
    return words


def _list(bases: list[int]) -> str:
    shown = ", ".join(str(base) for base in bases[:5])
    return shown if len(bases) <= 5 else f"{shown} and {len(bases) - 5:,} more"
