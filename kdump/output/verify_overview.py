"""Sum up many findings of `verify` in a table, and choose those that are shown in full."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from kdump.findings.finding import Severity
from kdump.output.amounts import number_text
from kdump.output.column_widths import Column, amount, folding_column
from kdump.output.escape import visible
from kdump.output.grid import table_lines
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.findings.finding import Finding

#: With more findings than this, the table comes first, and so many follow in full.
IN_FULL = 10
_PARTITIONS = 40


class PlaceFindings(NamedTuple):
    """What was found in one partition, or in one file outside of partitions."""

    name: str
    damage: int
    rebuild: int
    lost_at_least: int
    lost_at_most: int | None  # None: not known
    first_offset: int | None

    @property
    def badness(self) -> tuple[int, ...]:
        """Order places: the worst has the most of what is worst."""
        return self.damage, self.lost_at_least, self.rebuild


def worst_of(findings: Iterable[Finding]) -> list[Finding]:
    """Choose the findings to show in full."""
    return sorted(findings, key=_badness, reverse=True)[:IN_FULL]


def overview_lines(findings: Sequence[Finding], width: int) -> Iterator[str]:
    """Yield a table with a row per partition, the worst first; of very many the worst."""
    places: dict[str, list[Finding]] = {}
    for finding in findings:
        is_outside = finding.topic is None
        name = finding.path if is_outside else f"{finding.topic}-{finding.partition}"
        places.setdefault(name, []).append(finding)
    rows = [_sum_findings(name, found) for name, found in places.items()]
    rows.sort(key=lambda row: row.badness, reverse=True)
    yield from table_lines(_COLUMNS, rows[:_PARTITIONS], width)
    if len(rows) > _PARTITIONS:
        yield f"and {len(rows) - _PARTITIONS:,} more, none worse; --format jsonl lists them"


def _sum_findings(name: str, found: list[Finding]) -> PlaceFindings:
    severities = [one.severity for one in found]
    losses = list(_apart(one for one in found if one.lost_at_least is not None))
    mosts = [one.lost_at_most for one in losses]
    known = [most for most in mosts if most is not None]
    return PlaceFindings(
        visible(name),
        severities.count(Severity.DAMAGE),
        severities.count(Severity.REBUILD),
        sum(one.lost_at_least or 0 for one in losses),
        sum(known) if len(known) == len(mosts) else None,
        min((one.offset for one in losses if one.offset is not None), default=None),
    )


def _apart(losses: Iterable[Finding]) -> Iterator[Finding]:
    """Leave out losses within the records that the next start removes: it counts them too."""
    several = list(losses)
    removed = (one.offset for one in several if one.code == "start-loses-records")
    first = min((offset for offset in removed if offset is not None), default=None)
    for one in several:
        is_within = first is not None and one.offset is not None and one.offset >= first
        if one.code == "start-loses-records" or not is_within:
            yield one


def _badness(finding: Finding) -> tuple[int, bool, int]:
    return (*finding.urgency, finding.lost_at_least or 0)


def _lost_text(row: PlaceFindings) -> str:
    if row.lost_at_most is None:
        return f"{row.lost_at_least:,}+"
    if row.lost_at_least == row.lost_at_most:
        return number_text(row.lost_at_least or None, "-")
    return f"{row.lost_at_least:,}\N{EN DASH}{row.lost_at_most:,}"


_COLUMNS: tuple[Column[PlaceFindings], ...] = (
    folding_column("partition", lambda row: row.name, 16),
    amount("damage", lambda row: number_text(row.damage or None, "-")),
    amount("rebuild", lambda row: number_text(row.rebuild or None, "-")),
    amount("records lost", _lost_text),
    amount("first offset", lambda row: number_text(row.first_offset, "-")),
)
