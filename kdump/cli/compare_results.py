"""Handle the results of compare, whose rows have a severity as findings have."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

from kdump.cli.results import Results
from kdump.findings.code import Severity
from kdump.findings.rows import Row
from kdump.output.progress import Bar, PlannedTally
from kdump.output.terminal import wants_colour

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kdump.cli.run_context import Writing
    from kdump.engine.work.pace import Progress
    from kdump.errors import KdumpError
    from kdump.findings.finding import Finding
    from kdump.output.items import Item
    from kdump.output.progress import Written
    from kdump.output.sink import Sink


class CompareResults(Results):
    """Writes comparisons, and counts how bad they are for the status."""

    def __init__(
        self,
        form: str,
        progress: Progress,
        writing: Writing,
        *,
        inputs: Iterable[str],
    ) -> None:
        self._quiet_form = writing.quiet
        self._one_kind = form == "csv"  # rows of several kinds would break its readers
        super().__init__(form, writing._replace(quiet=False), inputs=inputs)
        self.tally = PlannedTally(progress)
        self._bar = Bar(sys.stderr, self.tally, inputs) if self._person_reads_errors else None
        progress.tick = self._tick

    def _make_sink(self, form: str, mode: int) -> Sink:
        if form != "table":
            return super()._make_sink(form, mode)
        from kdump.output.compare_table import CompareTable

        on_terminal = self._to_person
        return CompareTable(
            self._stream.write,
            width=shutil.get_terminal_size((100, 24)).columns if on_terminal else 100,
            colour=on_terminal and wants_colour(sys.stdout),
            quiet=self._quiet_form,
        )

    def take(self, items: Iterable[Item | Written | Finding | KdumpError]) -> int:
        """Move everything to where it belongs and return the exit status."""
        if self._person_reads_errors and self._bar is not None:
            self._person_reads_errors = False  # the table has a summary of its own
        return super().take(self._judged(items))

    def _judged(
        self, items: Iterable[Item | Written | Finding | KdumpError]
    ) -> Iterator[Item | Written | Finding | KdumpError]:
        for item in items:
            if isinstance(item, Row) and item.row == "replica-comparison":
                severity = item.fields["severity"]
                if severity is not None:
                    self.messages.findings[Severity(str(severity))] += 1
            if self._quiet_form and _is_usual(item):
                continue
            if self._one_kind and isinstance(item, Row) and item.row != "replica-difference":
                continue
            yield item


def _is_usual(item: object) -> bool:
    return isinstance(item, Row) and (
        item.row == "summary" or item.fields.get("severity") != Severity.DAMAGE.value
    )
