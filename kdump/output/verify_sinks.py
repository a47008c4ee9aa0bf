"""The sinks of `verify` for programs, where findings are rows like any other."""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING, Protocol

from kdump.findings.rows import Row

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kdump.findings.finding import Finding, Severity
    from kdump.output.sink import Sink


_WORST = 10


class Report(Protocol):
    """One form of what verify found."""

    def finding(self, finding: Finding) -> None:
        """Take a finding."""

    def row(self, row: Row) -> None:
        """Take a recovery, or the summary, which comes last."""

    def finish(self) -> None:
        """Write what was held back."""

    def stop(self) -> None:
        """The run was interrupted: write what is of use all the same."""


class RowReport:
    """Passes findings on as rows to a sink; `kinds` are the other rows that are wanted."""

    def __init__(self, sink: Sink, kinds: frozenset[str]) -> None:
        self._sink = sink
        self._kinds = kinds

    def finding(self, finding: Finding) -> None:
        """Write a finding as a row."""
        self._sink.write(Row("finding", finding.fields()))

    def row(self, row: Row) -> None:
        """Write a row, if its kind is wanted."""
        if row.row in self._kinds:
            self._sink.write(row)

    def finish(self) -> None:
        """Write what the sink held back."""
        self._sink.finish()

    def stop(self) -> None:
        """Every row was written when it came."""


class FileReport:
    """Takes the summary and hands it to a function at the end: for forms of one piece.

    With it go the worst ten of the findings that are at least as severe as `least`.
    """

    def __init__(
        self, write: Callable[[Sequence[Finding], Row | None], None], least: Severity
    ) -> None:
        self._write = write
        self._least = least
        self._worst: list[Finding] = []
        self._summary: Row | None = None

    def finding(self, finding: Finding) -> None:
        """Keep the worst, of those as urgent the first."""
        if finding.severity.rank >= self._least.rank:
            insort(self._worst, finding, key=lambda one: [-number for number in one.urgency])
            del self._worst[_WORST:]

    def row(self, row: Row) -> None:
        """Keep the summary."""
        if row.row == "summary":
            self._summary = row

    def finish(self) -> None:
        """Write it all."""
        self._write(self._worst, self._summary)

    def stop(self) -> None:
        """Half a run has no outcome."""
