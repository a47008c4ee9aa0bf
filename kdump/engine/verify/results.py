"""The result of verifying one partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kdump.errors import KdumpError

if TYPE_CHECKING:
    from kdump.engine.checks.survey import PartitionFacts
    from kdump.findings.finding import Finding
    from kdump.findings.rows import Row


class Counts(NamedTuple):
    """What was looked at; `not_checked` says what was not, and how much of it."""

    segments: int = 0
    batches: int = 0
    records_count: int = 0
    bytes: int = 0
    not_checked: tuple[tuple[str, int], ...] = ()
    tails: int = 0  # segments of which only indexes and tail were looked at


class Result(NamedTuple):
    """What one partition came to."""

    findings: tuple[Finding, ...]
    counts: Counts
    errors: tuple[KdumpError, ...] = ()
    verified: frozenset[int] = frozenset()  # base offsets of logs that were read to their end
    facts: PartitionFacts | None = None  # for what is looked at when all results are in
    recovery: Row | None = None  # what the next start would do
    replayed: int = 0  # logs that others had read in pieces

    @property
    def was_looked_at(self) -> bool:
        """Whether anything but an error came of it."""
        return not self.errors or self.facts is not None or bool(self.findings)
