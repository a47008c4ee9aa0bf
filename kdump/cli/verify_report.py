"""What `verify` makes of its results, of which findings are a part.

Beside the rows, a run may end in one line for a monitoring plug-in, in a file of metrics, and in a
state file for the next run.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from kdump.cli import status
from kdump.errors import KdumpError
from kdump.findings.finding import Finding
from kdump.output.report import Report
from kdump.rows.verify import Recovery, VerifySummary, WayPast

if TYPE_CHECKING:
    from kdump.api.verify_state import StateFile
    from kdump.engine.work.pace import Progress
    from kdump.output.damage_plan import DamagePlan
    from kdump.output.report import Page, Result
    from kdump.output.sink import Sink
    from kdump.output.verify_textfile import Place

#: The state is written so often while a run goes on, so that a killed one loses little.
_STATE_SECONDS = 60.0
_UNKNOWN = 3  # of a monitoring plug-in: could not be done


class VerifyReport(Report):
    """Findings are results; what is counted of them goes to metrics and to a plug-in's status."""

    has_findings = True
    has_summary = True

    def __init__(
        self,
        progress: Progress,
        *,
        fail_on: str,
        all_notes: bool,
        all_findings: bool,
        nagios: bool,
        textfile: str | None,
        state: StateFile | None,
    ) -> None:
        self.progress, self.fail_on, self.all_notes = progress, fail_on, all_notes
        self.all_findings = all_findings
        self.nagios, self.textfile, self.state = nagios, textfile, state
        self._saved = time.monotonic()
        self._errors: list[str] = []
        self._places: Counter[Place] = Counter()
        self._summary: VerifySummary | None = None
        self._plugin_status = _UNKNOWN
        self._plan: DamagePlan | None = None
        self._needs_ways = False  # a table has the plan with -q, too

    def sink(self, form: str, page: Page) -> Sink | None:
        """Return what writes the plug-in's text, or the table."""
        if self.nagios:
            from kdump.output.verify_nagios import PluginText

            return PluginText(page.write, self.fail_on, self._plugin_text)
        self._needs_ways = form in ("table", "reset-csv")
        if form == "reset-csv":
            from kdump.output.damage_plan import DamagePlan

            self._plan = DamagePlan(page.write, self.messages)
            return self._plan
        if form != "table":
            return None
        from kdump.cli.reports import again
        from kdump.findings.shell import FILE
        from kdump.output.verify_table import VerifyTable

        return VerifyTable(
            page,
            quiet=self.quiet,
            all_notes=self.all_notes,
            all_findings=self.all_findings,
            directories=lambda: self.progress.directories,
            status=lambda: status.exit_status(self.messages, self.fail_on),
            plan=again("--format", "reset-csv", "--output", FILE, without="--force"),
        )

    def takes(self, item: Result) -> bool:
        """Take note of an item; with `-q` findings are written and nothing else."""
        if isinstance(item, KdumpError):
            self._errors.append(str(item))
        elif isinstance(item, Finding):
            if self.textfile is not None:
                self._count_place(item)
            return True
        elif isinstance(item, VerifySummary):
            self._summary = item
        elif isinstance(item, WayPast) and self._needs_ways:
            return True
        # A partition set aside takes records from readers, and no finding says so.
        return not self.quiet or (isinstance(item, Recovery) and item.outcome == "stray")

    def _count_place(self, finding: Finding) -> None:
        from kdump.output.verify_textfile import SERIES, place_of

        place = place_of(finding)
        if place is not None and (place in self._places or len(self._places) < SERIES):
            self._places[place] += 1 + finding.more

    def tick(self) -> None:
        """Save the state now and then."""
        if time.monotonic() - self._saved > _STATE_SECONDS:
            self._save_state()

    def end(self, *, kept: bool) -> None:
        """Save the state; where the plug-in's line did not arrive, what it says was not said."""
        self._save_state()
        if not kept:
            self._plugin_status = _UNKNOWN

    def status(self, reached: int) -> int:
        """Write the metrics, which a plug-in's line has said already, and return the status."""
        if self.nagios:
            return self._plugin_status
        if self._plan is not None:
            self._plan.sum_up()
        return reached if self._keep_textfile() else status.first_of(reached, status.NOT_DONE)

    def _save_state(self) -> None:
        if self.state is not None:
            self._saved = time.monotonic()
            self.state.save()

    def _plugin_text(self, worst: list[Finding]) -> str:
        from kdump.output.verify_nagios import plugin_status, plugin_text

        self._keep_textfile()  # first: that it cannot be written belongs to the line
        why = self._errors[-1] if self._errors else ""
        summary, errors, fail_on = self._summary, len(self._errors), self.fail_on
        self._plugin_status = plugin_status(summary, errors, fail_on)
        return plugin_text(worst, summary, errors, why, fail_on)

    def _keep_textfile(self) -> bool:
        """Write the metrics, where they are asked for; say whether that went well."""
        if self.textfile is None:
            return True
        from kdump.output.target import text_before, write_whole
        from kdump.output.verify_textfile import metrics

        try:
            text = metrics(
                self._summary,
                now_s=int(time.time()),
                succeeded=self._summary is not None and not self._errors,
                before=text_before(self.textfile),
                places=self._places,
            )
            data = text.encode("utf-8", "backslashreplace")
            write_whole(self.textfile, [data], "--textfile")
        except KdumpError as error:
            self._errors.append(str(error))
            self.messages.error(error)
            return False
        return True
