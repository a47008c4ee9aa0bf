"""What `why` makes of its rows beside writing them: a table of topics, and metrics."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kdump.cli import status
from kdump.errors import KdumpError
from kdump.findings.rows import Row
from kdump.output.report import Report

if TYPE_CHECKING:
    from kdump.output.report import Result
    from kdump.output.sink import Sink
    from kdump.output.text_report import Page
    from kdump.output.why_textfile import Gauges


class WhyReport(Report):
    """Draws topics in the place of segments for a person; writes a file of metrics."""

    has_summary = True

    def __init__(self, textfile: str | None) -> None:
        self._textfile = textfile
        self._gauges: Gauges | None = None
        if textfile is not None:
            from kdump.output.why_textfile import Gauges

            self._gauges = Gauges()

    def sink(self, form: str, page: Page) -> Sink | None:
        """Return the table."""
        if form != "table":
            return None
        from kdump.output.why_table import WhyTable

        return WhyTable(page, quiet=self.quiet)

    def takes(self, item: Result) -> bool:
        """Take up a row for the metrics; with `-q` none is written."""
        if self._gauges is not None and isinstance(item, Row):
            self._gauges.add(item)
        return not (self.quiet and isinstance(item, Row))

    def status(self, reached: int) -> int:
        """Write the metrics, and say whether that went well."""
        if self._textfile is None or self._gauges is None:
            return reached
        from kdump.output.target import text_before, write_whole

        try:
            before = text_before(self._textfile)
            text = self._gauges.text(int(time.time()), before, succeeded=not self.messages.statuses)
            write_whole(self._textfile, [text.encode("utf-8", "backslashreplace")])
        except KdumpError as error:
            self.messages.error(error)
            return status.first_of(reached, status.NOT_DONE)
        return reached
