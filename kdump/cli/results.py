"""Handle one run's results: sink, messages, progress, and the exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TextIO, cast

from kdump.cli import status
from kdump.cli.run_context import Engine, OutputSpec, wrong_usage
from kdump.engine.registry import COMMANDS
from kdump.engine.work.pace import Progress
from kdump.errors import KdumpError, PathError, UsageError, mask_login, mask_members
from kdump.findings.rows import BatchChunk, Row
from kdump.output.amounts import count_text
from kdump.output.escape import TerminalDoor, is_terminal, wants_colour
from kdump.output.forms import FORMS, FORMS_OF_DUMP, Place, form_of_name, make_sink
from kdump.output.messages import Messages
from kdump.output.process_tuning import KERNEL, prepare_for_bulk
from kdump.output.progress import Bar, PlannedTally, Tally, answer_progress_signal
from kdump.output.report import Page, Report, pour
from kdump.output.sink import RowCounter, Sink, Without
from kdump.output.stream import ByteStream, standard_output
from kdump.output.values import BYTES_MODES

if TYPE_CHECKING:
    from kdump.output.kind_directory import KindDirectory
    from kdump.output.pager import PagedStream
    from kdump.output.report import Result
    from kdump.output.target import OutputFile

#: To read more than this, the pure kernel takes long enough for a person to ask why.
_LARGE_BYTES = 64 << 20


def form_of(writing: OutputSpec) -> str:
    """Return the form of the results: as asked for, else by the file's name, else by who reads."""
    form, output = writing.form, writing.output
    if form is None and output is not None:
        form = form_of_name(output) or "jsonl"
    if form is None:
        form = "table" if is_terminal(sys.stdout) else "jsonl"
    if writing.csv_safe and form != "csv":
        raise UsageError("--csv-safe requires --format csv")
    if form not in writing.forms:
        raise UsageError(f"--output {output}: these rows cannot be written as {form}")
    if FORMS_OF_DUMP.get(form, FORMS["table"]).binary and output is None:
        raise UsageError(f"--format {form} needs --output FILE, or DIR/ for a file of each kind")
    return form


def _may_page() -> bool:
    return is_terminal(sys.stdin) and os.environ.get("TERM") not in (None, "dumb", "unknown")


def _sums_up(item: object) -> bool:
    return isinstance(item, Row) and item.sums_up


def _know_rows(kind: str | None) -> None:
    """Refuse rows of a kind that there is not."""
    if kind is not None:
        from kdump.rows.declarations import kinds

        if kind not in kinds() and kind not in ("record", "batch"):
            raise UsageError(f"--rows {kind}: unknown row kind; kdump schema lists all kinds")


def _refuse_kinds(form: str, writing: OutputSpec) -> None:
    """Refuse to choose or divide kinds of rows where a command has a format of its own for all."""
    if form in FORMS_OF_DUMP:
        return
    from kdump.output.kind_directory import is_directory

    if writing.rows or (writing.output is not None and is_directory(writing.output)):
        raise UsageError(f"--format {form} contains one kind of row, in one file")


def _open(
    output: str, suffix: str, inputs: Iterable[str], *, force: bool
) -> OutputFile | KindDirectory:
    """Open what `--output` names. Imported here: most runs print, and pay for no more."""
    from kdump.output.kind_directory import KindDirectory, is_directory
    from kdump.output.target import OutputFile, prepare_output

    if is_directory(output):
        return KindDirectory(output, suffix, inputs, force=force)
    prepare_output(output, inputs, force=force)
    return OutputFile(output)


def run_plan(
    name: str,
    paths: tuple[str, ...],
    asked: dict[str, Any],
    *,
    report: Callable[[Any], Report] | None = None,
    unit: str = "partition",
    decodes: bool = False,
) -> int:
    """Run a command of the engine that plans its work first, and return the exit status.

    `asked` has its options beside `engine` and `writing`; `report` makes what becomes of the
    results. `unit` is what progress counts; `decodes`: the steps decode records.
    """
    engine: Engine = asked.pop("engine")
    writing: OutputSpec = asked.pop("writing")
    command = COMMANDS[name]
    options = command.options(**asked)
    progress = Progress()
    tally = PlannedTally(progress, unit)
    made = None if report is None else report(options)
    results = Results(writing, inputs=paths, report=made, tally=tally)
    with engine.driver(decodes=decodes) as driver:
        return results.take(command.run(paths, options, driver=driver, progress=progress))


class Results:
    """Takes what a command yields, and turns it into output and an exit status."""

    @wrong_usage()
    def __init__(
        self,
        writing: OutputSpec,
        *,
        inputs: Iterable[str],
        form: str | None = None,
        report: Report | None = None,
        tally: Tally | None = None,
        records: bool = False,
        headers: bool = True,
        elsewhere: bool = False,
        decode: bool = False,
    ) -> None:
        """`records`: those are the rows, `headers` of batches that cannot be read among them.

        `decode`: keys and values may be decoded, for which Arrow has columns.

        `elsewhere`: workers write them to files of their own. A `tally` of a plan is shown beside a
        table as well, which comes late.
        """
        form = form or form_of(writing)
        _know_rows(writing.rows)
        _refuse_kinds(form, writing)
        self._report = report or Report()
        output = writing.output
        # What a file is asked for is written to it; only standard output is spared.
        quiet = writing.quiet and output is None and not self._report.has_summary
        self._records, self._decode = records, decode
        self._writing = writing
        self._file: OutputFile | KindDirectory | None = None
        settled = FORMS_OF_DUMP.get(form, FORMS["table"])
        self._counted: RowCounter | None = None
        self._stream: ByteStream | KindDirectory
        if output is None:
            self._stream = standard_output(sys.stdout.buffer)
        else:
            self._file = _open(output, settled.suffix, inputs, force=writing.force)
            self._stream = self._file if self._file.has_kinds else self._file.stream
        self._to_person = (
            self._file is None and not quiet and not elsewhere and is_terminal(sys.stdout)
        )
        person_reads_errors = is_terminal(sys.stderr)
        errors: TextIO = sys.stderr
        self._pager: PagedStream | None = None
        if self._to_person and form == "table" and not writing.no_pager and _may_page():
            from kdump.output.pager import PagedErrors, open_pager

            self._stream = self._pager = open_pager(sys.stdout, self._end_bar)
            if person_reads_errors:
                errors = cast("TextIO", PagedErrors(sys.stderr, self._pager))
        self._sums_up = person_reads_errors and not (writing.quiet or self._report.has_summary)
        self._names_kernel = person_reads_errors and not writing.quiet and KERNEL == "pure"
        self.tally = tally or Tally()
        progress = self.tally.progress
        self._bar: Bar | None = None
        if person_reads_errors and (progress is not None or not self._to_person):
            self._bar = Bar(sys.stderr, self.tally, inputs)
        if progress is not None:
            progress.tick = self._tick
        self.messages = Messages(
            errors,
            as_json=writing.form == "jsonl" or not person_reads_errors,
            colour=wants_colour(sys.stderr),
            before=self._settle,
        )
        self._report.messages, self._report.quiet = self.messages, writing.quiet
        try:
            self._sink = Sink() if quiet or elsewhere else self._make_sink(form)
            if records and (settled.one_kind or not headers):
                # A header stands for a batch that cannot be read; a finding says the same.
                self._sink = Without(self._sink, lambda item: isinstance(item, BatchChunk))
            if (only := writing.rows) is not None:
                from kdump.output.kind_directory import kind_of

                self._sink = Without(self._sink, lambda item: kind_of(item) != only)
            elif form == "csv" and not (self._file and self._file.has_kinds):
                self._sink = Without(self._sink, _sums_up)
        except KdumpError:
            if self._file is not None:
                self._file.drop()
            raise
        if self._file is not None and self._report.has_rows and form != "reset-csv":
            # A line of the latter may be of many rows.
            self._sink = self._counted = RowCounter(self._sink)

    def _make_sink(self, form: str) -> Sink:
        """Make the sink of a form; of a directory one that makes one for each kind of row."""
        if self._file is not None and self._file.has_kinds:
            from kdump.output.kind_directory import ByKind

            return ByKind(self._file, lambda file: self._sink_at(form, file.stream.write, file))
        assert isinstance(self._stream, ByteStream)
        write: Callable[[bytes], object] = self._stream.write
        if self._to_person:
            if self._bar is not None:
                write = self._write_above_bar
            write = TerminalDoor(write, colour=wants_colour(sys.stdout)).write
        return self._sink_at(form, write, self._file)

    def _sink_at(
        self, form: str, write: Callable[[bytes], object], file: OutputFile | None
    ) -> Sink:
        if self._writing.rows is None and not (self._file and self._file.has_kinds):
            if self._to_person:
                page = Page.on(sys.stdout, write)
            else:
                page = Page.open_piped(write) if file is None else Page(write)
            if (own := self._report.sink(form, page)) is not None:
                return own
        sink: Sink = make_sink(
            form,
            Place(
                write,
                None if file is None else file.file,
                "" if file is None else file.path,
                sys.stdout if self._to_person else None,
                BYTES_MODES.index(self._writing.bytes_mode),
                self.messages.line,
                csv_safe=self._writing.csv_safe,
                wide=self._writing.wide,
                records=self._records,
                decode=self._decode,
            ),
        )
        if file is not None and FORMS_OF_DUMP[form].binary:
            file.before_drop = sink.abandon
        return self._report.condense(sink) if form == "table" and not self._writing.wide else sink

    def take(self, items: Iterable[Result]) -> int:
        """Move all items to where they belong and return the exit status."""
        prepare_for_bulk()
        kept = False
        try:
            try:
                with answer_progress_signal(self.tally):
                    kept = self._pour(items)
            finally:
                self._end_bar()
                if self._file is not None and not kept:
                    self._file.drop()
            if self.messages.denied is not None:
                self._name_owner(self.messages.denied)
            self.messages.count_notes()
            if self._sums_up:
                self.messages.summary(self.tally)
        finally:
            if self._pager is not None:
                self._pager.end()
        return self._report.status(status.exit_status(self.messages, self._writing.fail_on))

    def _name_owner(self, path: str) -> None:
        """Say, once, who could read what this user could not, and what to type."""
        from kdump.findings.commands import access_text

        if text := access_text(path, ("kdump", *sys.argv[1:])):
            self.messages.line(f"kdump: {mask_members(mask_login(text))}")

    def _pour(self, items: Iterable[Result]) -> bool:
        """Move the items; say whether an output file is worth keeping."""
        kept = False
        try:
            pour(items, self._sink, self.messages, self.tally, self._tick, self._report)
            if self._file is None:
                self._stream.flush()
            else:
                self._keep(self._file)
            kept = True
        except KeyboardInterrupt:
            if self._to_person or self._report.has_findings:
                self._sink.stop()  # rows held back were found all the same
                self._stream.flush()
            raise
        except KdumpError as error:
            self.messages.error(error)
        finally:
            self._report.end(kept=kept)
        return kept

    def _keep(self, file: OutputFile | KindDirectory) -> None:
        """Give the file its name, unless it lacks rows that the one in its place may have."""
        if file.has_old and PathError.status in self.messages.statuses:
            file.drop()
            self.messages.line(
                f"kdump: {file.path}: left unchanged, because not everything could be read"
            )
            return
        file.keep()
        if file.is_new_file and not self._writing.quiet:
            rows = "" if self._counted is None else f", {count_text(self._counted.rows, 'row')}"
            self.messages.courtesy(f"wrote {file.path}{rows}")

    def _write_above_bar(self, data: bytes | bytearray | memoryview) -> None:
        """Write to the terminal of the progress bar, which makes room first."""
        assert isinstance(self._stream, ByteStream)
        if self._bar is not None:
            self._bar.clear()
        self._stream.write(data)

    def _end_bar(self) -> None:
        """Leave the terminal to others."""
        if self._bar is not None:
            self._bar.clear()
            self._bar = None

    def _tick(self) -> None:
        if self._names_kernel and self.tally.at_hand_bytes > _LARGE_BYTES:
            self._names_kernel = False
            self.messages.name_slow_kernel()
        self._stream.tick(at_once=self._to_person)
        if self._bar is not None:
            self._bar.tick()
        self._report.tick()

    def _settle(self) -> None:
        """Make room on standard error: results first, and no bar in the way."""
        self._stream.flush()
        if self._bar is not None:
            self._bar.clear()
