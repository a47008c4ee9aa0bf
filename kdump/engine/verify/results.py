"""The result of verifying one partition."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kdump.errors import KdumpError
from kdump.findings.finding import Finding, Severity
from kdump.rows.verify import Recovery
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.engine.checks.survey import PartitionFacts


class Counts(NamedTuple):
    """What was looked at; `not_checked` says what was not, and how much of it."""

    segments: int = 0
    batches: int = 0
    records_count: int = 0
    bytes: int = 0
    not_checked: tuple[tuple[str, int], ...] = ()
    tails: int = 0  # segments of which only indexes and tail were looked at

    def plus(self, other: Counts) -> Counts:
        """Add two of them, but for what was not checked."""
        sums = {
            name: getattr(self, name) + getattr(other, name)
            for name in self._fields
            if name != "not_checked"
        }
        return Counts(**sums)


class FindingCounts:
    """Counts findings by severity and by code."""

    def __init__(self) -> None:
        self._severities: Counter[str] = Counter()
        self._codes: Counter[str] = Counter()

    def add(self, finding: Finding) -> None:
        """Count a finding, and those that it stands for."""
        self._severities[finding.severity.value] += 1 + finding.more
        self._codes[finding.code] += 1 + finding.more

    def by_severity(self) -> dict[str, int]:
        """Give the counts, the worst first."""
        return {word.value: self._severities[word.value] for word in reversed(Severity)}

    def by_code(self) -> dict[str, int]:
        """Give the counts by code."""
        return dict(sorted(self._codes.items()))


class Result(NamedTuple):
    """What one partition came to."""

    findings: tuple[Finding, ...] = ()
    counts: Counts = Counts()
    errors: tuple[KdumpError, ...] = ()
    verified: frozenset[int] = frozenset()  # base offsets of logs that were read to their end
    facts: PartitionFacts | None = None  # for what is looked at when all results are in
    recovery: Recovery | None = None  # what the next start would do
    replayed: int = 0  # logs that others had read in pieces

    @property
    def was_looked_at(self) -> bool:
        """Whether anything but an error came of it."""
        is_read = bool(self.counts.segments or self.counts.tails)
        return not self.errors or self.facts is not None or bool(self.findings) or is_read
