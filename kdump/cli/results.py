"""Handle one run's results: sink, messages, progress, and the exit status."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kdump.cli import status
from kdump.errors import KdumpError, UsageError
from kdump.output.messages import Messages
from kdump.output.process_tuning import prepare_for_bulk
from kdump.output.progress import Bar, LookupTally, PlannedTally, Tally, answering_progress_signal
from kdump.output.sink import NullSink, Sink, WithoutHeaders, pour
from kdump.output.stream import standard_output
from kdump.output.terminal import is_terminal, wants_colour
from kdump.output.values import BYTES_MODES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kdump.cli.run_context import Writing
    from kdump.engine.work.pace import Progress
    from kdump.findings.finding import Finding
    from kdump.output.items import Item
    from kdump.output.progress import Written
    from kdump.output.target import OutputFile

_BINARY_FORMS = ("parquet", "arrow")
#: Forms in which rows of another kind among records would break the reader.
_ONE_KIND = ("csv", "parquet", "arrow")
_SUFFIXES = {".parquet": "parquet", ".arrow": "arrow", ".csv": "csv", ".jsonl": "jsonl"}


def form_of(writing: Writing) -> str:
    """Return the form of the results: as asked for, else by the file's name, else by who reads."""
    form, output = writing.form, writing.output
    if form is None and output is not None:
        form = _SUFFIXES.get(output[output.rfind(".") :], "jsonl")
    if form is None:
        form = "table" if is_terminal(sys.stdout) else "jsonl"
    if writing.csv_safe and form != "csv":
        raise UsageError("--csv-safe goes with --format csv")
    if form not in writing.forms:
        raise UsageError(f"--output {output}: there is no {form} form of these rows")
    if form in _BINARY_FORMS and output is None:
        raise UsageError(f"--format {form} needs --output FILE")
    return form


class Results:
    """Takes what a command yields, and turns it into output and an exit status."""

    def __init__(
        self,
        form: str,
        writing: Writing,
        *,
        inputs: Iterable[str],
        records: bool = False,
        headers: bool = True,
        elsewhere: bool = False,
    ) -> None:
        """`records`: those are the rows, `headers` of batches that cannot be read among them.

        `elsewhere`: workers write them to files of their own.
        """
        output, quiet = writing.output, writing.quiet
        self._records = records
        self._fail_on = writing.fail_on
        self._quiet = quiet
        self._file: OutputFile | None = None
        if output is not None and not quiet:
            from kdump.output.target import OutputFile, refuse_input_as_output
            from kdump.output.writable import need_writable

            refuse_input_as_output(output, inputs)
            need_writable(output, "--output")
            self._file = OutputFile(output)
            self._stream = self._file.stream
        else:
            self._stream = standard_output(sys.stdout.buffer)
        self._to_person = (
            self._file is None and not quiet and not elsewhere and is_terminal(sys.stdout)
        )
        self._person_reads_errors = is_terminal(sys.stderr)
        self.tally = Tally()
        self._bar: Bar | None = None
        if self._person_reads_errors and not self._to_person:
            self._bar = Bar(sys.stderr, self.tally, inputs)
        self.messages = Messages(
            sys.stderr,
            as_json=writing.form == "jsonl" or not self._person_reads_errors,
            colour=wants_colour(sys.stderr),
            before=self._settle,
        )
        mode = BYTES_MODES.index(writing.bytes_mode)
        self._wide = writing.wide
        self._csv_safe = writing.csv_safe
        try:
            self._sink = NullSink() if quiet or elsewhere else self._make_sink(form, mode)
            if records and (form in _ONE_KIND or not headers):
                self._sink = WithoutHeaders(self._sink)
        except KdumpError:
            if self._file is not None:
                self._file.drop()
            raise

    def _make_sink(self, form: str, mode: int) -> Sink:
        """Import and make the sink of a form; each is paid for only where it is used."""
        write = self._stream.write
        if form == "jsonl":
            from kdump.output.jsonl import JsonLines

            return JsonLines(write, mode)
        if form == "csv":
            from kdump.output.delimited import Delimited

            return Delimited(write, mode, terminal=self._to_person, safe=self._csv_safe)
        if form in _BINARY_FORMS:
            from kdump.output.arrow import arrow_sink

            assert self._file is not None
            sink = arrow_sink(form, self._file.file, self._file.path)
            self._file.before_drop = sink.abandon
            return sink
        if form == "reset-csv":
            from kdump.output.reset_csv import ResetCsv

            return ResetCsv(write, self.messages)
        if form == "kafka":
            from kdump.output.kafka_text import KafkaText

            return KafkaText(write, self.messages.line, terminal=self._to_person)
        from kdump.output.table import Table

        return Table(write, sys.stdout, mode, headers_among_records=self._records, wide=self._wide)

    def follow(self, progress: Progress) -> None:
        """Show how far several workers have come, while none of them hands anything over."""

        def tick() -> None:
            self.tally.follow(progress)
            self._tick()

        progress.tick = tick

    def follow_lookups(self, progress: Progress) -> None:
        """Show how many partitions were asked for; also beside a table, until it begins."""
        self.tally = LookupTally(progress)
        self._bar = Bar(sys.stderr, self.tally, ()) if self._person_reads_errors else None
        self.follow(progress)

    def follow_plan(self, progress: Progress, word: str) -> None:
        """Show how far several workers have come; also beside a table, which comes last."""
        self.tally = PlannedTally(progress, word)
        self._bar = Bar(sys.stderr, self.tally, ()) if self._person_reads_errors else None
        progress.tick = self._tick

    def rows_begin(self) -> None:
        """Take the bar away for good where rows go to the same terminal."""
        if self._to_person and self._bar is not None:
            self._bar.clear()
            self._bar = None

    def take(self, items: Iterable[Item | Written | Finding | KdumpError]) -> int:
        """Move all items to where they belong and return the exit status."""
        prepare_for_bulk()
        kept = False
        try:
            with answering_progress_signal(self.tally):
                kept = self._pour(items)
        finally:
            if self._bar is not None:
                self._bar.clear()
            if self._file is not None and not kept:
                self._file.drop()
        if self._person_reads_errors and not self._quiet:
            self.messages.summary(self.tally)
        found = status.fails(self.messages.worst, self._fail_on)
        return status.first_of(*self.messages.statuses, status.FINDINGS if found else status.DONE)

    def _pour(self, items: Iterable[Item | Written | Finding | KdumpError]) -> bool:
        """Move the items; say whether an output file is worth keeping."""
        try:
            pour(items, self._sink, self.messages, self.tally, self._tick)
            if self._file is not None:
                self._file.keep()
            else:
                self._stream.flush()
        except KeyboardInterrupt:
            if self._to_person:  # rows held back for looks were found all the same
                self._sink.settle()
                self._stream.flush()
            raise
        except KdumpError as error:
            self.messages.error(error)
            return False
        return True

    def _tick(self) -> None:
        if self._to_person:
            self._stream.flush()
        else:
            self._stream.tick()
        if self._bar is not None:
            self._bar.tick()

    def _settle(self) -> None:
        """Make room on standard error: results first, and no bar in the way."""
        self._stream.flush()
        if self._bar is not None:
            self._bar.clear()
