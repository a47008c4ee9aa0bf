"""Handle the results of verify, for which findings are results and not messages.

Beside the rows, a run may end in one line for a monitoring plug-in, in a file of metrics, and in a
state file for the next run.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

from kdump.cli import status
from kdump.cli.results import Results
from kdump.errors import KdumpError, PathError
from kdump.findings.finding import Finding
from kdump.findings.rows import Row
from kdump.output.progress import Bar, PlannedTally
from kdump.output.terminal import wants_colour
from kdump.output.verify_sinks import FileReport, Report, RowReport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kdump.cli.run_context import Writing
    from kdump.engine.verify.state import VerifyState
    from kdump.engine.work.pace import Progress
    from kdump.output.items import Item
    from kdump.output.progress import Written
    from kdump.output.verify_textfile import Place

#: The state is written so often while a run goes on, so that a killed one loses little.
_STATE_SECONDS = 60.0
_UNKNOWN = 3  # of a monitoring plug-in: could not be done


class VerifyResults(Results):
    """Writes findings where other commands write rows, and counts them for the status."""

    def __init__(
        self,
        form: str,
        progress: Progress,
        writing: Writing,
        *,
        inputs: Iterable[str],
        all_notes: bool,
        nagios: bool,
        textfile: str | None,
        state: tuple[str, VerifyState] | None,
    ) -> None:
        sink_form = "jsonl" if form == "table" else form
        super().__init__(sink_form, writing._replace(quiet=False), inputs=inputs)
        self._nagios = nagios
        self._textfile = textfile
        self._state = state
        self._saved = time.monotonic()
        self._findings_only = writing.quiet
        self._errors: list[str] = []
        self._places: Counter[Place] = Counter()
        self._summary: Row | None = None
        self._plugin_status = _UNKNOWN
        self.tally = PlannedTally(progress)
        self._bar = Bar(sys.stderr, self.tally, inputs) if self._person_reads_errors else None
        progress.tick = self._tick
        self._report = self._make_report(form, progress, all_notes=all_notes)

    def _make_report(self, form: str, progress: Progress, *, all_notes: bool) -> Report:
        if self._nagios:
            from kdump.output.verify_nagios import least_told

            return FileReport(self._write_plugin_text, least_told(self._fail_on))
        if form != "table":
            wanted = {"recovery", "summary-by"} | ({"summary"} if form == "jsonl" else set())
            return RowReport(self._sink, frozenset() if self._findings_only else frozenset(wanted))
        from kdump.output.verify_table import VerifyTable

        on_terminal = self._to_person
        return VerifyTable(
            self._stream.write,
            width=shutil.get_terminal_size((100, 24)).columns if on_terminal else 100,
            colour=on_terminal and wants_colour(sys.stdout),
            quiet=self._findings_only,
            all_notes=all_notes,
            directories=lambda: progress.directories,
            status=self._status,
        )

    def take(self, items: Iterable[Item | Written | Finding | KdumpError]) -> int:
        """Move everything to where it belongs and return the exit status."""
        self._person_reads_errors = False  # what is summed up stands in the results
        reached = super().take(items)
        if not self._nagios and not self._keep_textfile():
            reached = status.first_of(reached, status.NOT_DONE)
        return self._plugin_status if self._nagios else reached

    def _keep_textfile(self) -> bool:
        """Write the metrics, where they are asked for; say whether that went well."""
        return self._textfile is None or self._write_textfile(self._textfile)

    def _pour(self, items: Iterable[Item | Written | Finding | KdumpError]) -> bool:
        try:
            kept = super()._pour(self._sorted_out(items))
        finally:
            if self._state is not None:
                self._save_state(*self._state)
        if not kept:  # the line did not arrive: what it says was not said
            self._plugin_status = _UNKNOWN
        return kept

    def _sorted_out(
        self, items: Iterable[Item | Written | Finding | KdumpError]
    ) -> Iterator[KdumpError]:
        """Hand findings and rows to the report; what is left over are errors."""
        try:
            for item in items:
                if isinstance(item, KdumpError):
                    self._errors.append(str(item))
                    yield item
                else:
                    self._report_item(item)
                self._tick()
        except KeyboardInterrupt:
            self._clear_bar()
            self._report.stop()
            self._stream.flush()
            raise
        self._clear_bar()
        self._report.finish()

    def _report_item(self, item: Item | Written | Finding) -> None:
        if isinstance(item, Finding):
            self.messages.findings[item.severity] += 1 + item.more
            if self._textfile is not None:
                self._count_place(item)
            self._report.finding(item)
        elif isinstance(item, Row):
            if item.row == "summary":
                self._summary = item
            self._report.row(item)

    def _count_place(self, finding: Finding) -> None:
        from kdump.output.verify_textfile import SERIES, place_of

        place = place_of(finding)
        if place is not None and (place in self._places or len(self._places) < SERIES):
            self._places[place] += 1 + finding.more

    def _clear_bar(self) -> None:
        if self._bar is not None:
            self._bar.clear()

    def _tick(self) -> None:
        super()._tick()
        if self._state is not None and time.monotonic() - self._saved > _STATE_SECONDS:
            self._save_state(*self._state)

    def _status(self) -> int:
        found = status.fails(self.messages.worst, self._fail_on)
        return status.first_of(*self.messages.statuses, status.FINDINGS if found else status.DONE)

    def _save_state(self, path: str, state: VerifyState) -> None:
        self._saved = time.monotonic()
        if state.changed:
            _write_file(path, state.lines())
            state.changed = False

    def _write_plugin_text(self, worst: Sequence[Finding], summary: Row | None) -> None:
        from kdump.output.verify_nagios import plugin_status, plugin_text

        self._keep_textfile()  # first: that it cannot be written belongs to the line
        why = self._errors[-1] if self._errors else ""
        self._plugin_status = plugin_status(summary, len(self._errors), self._fail_on)
        text = plugin_text(worst, summary, len(self._errors), why, self._fail_on)
        self._stream.write(text.encode("utf-8", "backslashreplace") + b"\n")

    def _write_textfile(self, path: str) -> bool:
        from kdump.output.verify_textfile import metrics

        try:
            before = _text_of(path)
            succeeded = self._summary is not None and not self._errors
            text = metrics(
                self._summary,
                now_s=int(time.time()),
                succeeded=succeeded,
                before=before,
                places=self._places,
            )
            _write_file(path, [text.encode("utf-8", "backslashreplace")])
        except KdumpError as error:
            self._errors.append(str(error))
            self.messages.error(error)
            return False
        return True


def read_state(path: str, tell: Callable[[str], None]) -> VerifyState:
    """Read a state file; one that cannot be believed is reported, and all is seen anew."""
    from kdump.engine.verify.state import SIZE_LIMIT, VerifyState
    from kdump.output.target import content_before

    now_s = int(time.time())
    try:
        before = content_before(path, SIZE_LIMIT + 1)
        if before is None:
            return VerifyState(now_s)
        if len(before) > SIZE_LIMIT:
            raise ValueError("is too large for one")
        return VerifyState.read(before, now_s)
    except OSError as error:
        raise PathError.from_os(path, error) from error
    except ValueError as error:
        tell(f"kdump: {path}: the state is not used, everything is verified anew: {error}")
        return VerifyState(now_s)


def _write_file(path: str, pieces: Iterable[bytes]) -> None:
    """Write a file beside its place and rename it: no reader ever sees half of one."""
    from kdump.output.target import OutputFile

    file = OutputFile(path)
    try:
        for piece in pieces:
            file.stream.write(piece)
        file.keep()
    except BaseException:
        file.drop()
        raise


def _text_of(path: str) -> str:
    from kdump.output.target import content_before

    try:
        return (content_before(path, 1 << 20) or b"").decode("utf-8", "replace")
    except OSError:
        return ""
