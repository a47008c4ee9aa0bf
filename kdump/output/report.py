"""What a command makes of its results; `pour` keeps rows, findings and errors apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TextIO

from kdump.errors import InternalError, KdumpError, PathError, guard
from kdump.findings.finding import Finding, Severity, internal_error
from kdump.findings.rows import Row
from kdump.output.escape import SENTENCE_WIDTH, encode, encoding_of, terminal_columns, wants_colour
from kdump.output.messages import SGR
from kdump.output.progress import Tally, WrittenRows
from kdump.output.sink import Sink
from kdump.stores.uris import find_given_path, has_given_paths
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from typing import TypeAlias

    from kdump.output.messages import Messages
    from kdump.output.sink import Item

    Result: TypeAlias = Item | WrittenRows | Finding | KdumpError


def restore_path(item: Any) -> Any:
    """Return an item of a run with the path that the user gave in the place of a view's."""
    from copy import copy

    if not has_given_paths():
        return item
    if isinstance(item, Row):
        if isinstance(path := item.fields.get("path"), str):
            item = item.replaced(path=find_given_path(path))
    elif isinstance(item, PathError):
        item = copy(item)  # whatever else it says, and of whatever class
        item.path = find_given_path(item.path)
    elif isinstance(item, Finding) or hasattr(item, "heading"):  # of kafka-dump-log: "Dumping PATH"
        item = item._replace(path=find_given_path(item.path))
    return item


class Report:
    """What a command makes of its results beside writing them; this one nothing."""

    #: What is said on standard error, and whether `-q` is given: both set before anything comes.
    messages: Messages
    quiet: bool
    #: Findings are results, written where rows are.
    has_findings = False
    #: The results end with a sum of their own, and `-q` leaves the findings among them.
    has_summary = False
    #: A file of it has rows, which are counted where it was written.
    has_rows = True

    def sink(self, form: str, page: Page) -> Sink | None:
        """Return a form of output that only this command has; None: one that all have."""
        return self.table(page) if form == "table" else None

    def table(self, page: Page) -> Sink | None:
        """Return a table that only this command has; None: that of all."""

    def condense(self, table: Sink) -> Sink:
        """Return a sink that leaves rows not worth their lines out of the table."""
        return table

    def takes(self, item: Result) -> bool:
        """Take note of an item, and say whether it is written."""
        return True

    def tick(self) -> None:
        """Do what is to be done now and then while the work goes on."""

    def end(self, *, kept: bool) -> None:
        """Take note that nothing more comes; `kept`: what was written has arrived."""

    def status(self, reached: int) -> int:
        """Say what follows from it all, and return the exit status; `reached` is that of all."""
        return reached


def pour(
    items: Iterable[Result],
    sink: Sink,
    messages: Messages,
    tally: Tally,
    tick: Callable[[], None],
    report: Report | None = None,
) -> None:
    """Write rows to the sink, findings and errors to the messages, and call `tick` in between.

    An exception that nobody foresaw is a finding, also that of the run itself.
    """
    report = report or Report()
    for item in map(restore_path, guard("the run", items)):
        is_written = report.takes(item)
        if isinstance(item, InternalError):
            messages.note_unfinished(item)
            item = internal_error(item)
            report.takes(item)
        if isinstance(item, Row) and item.judged and item["severity"] is not None:
            messages.severities.add(Severity(item["severity"]))
        if isinstance(item, KdumpError):
            sink.settle()
            messages.error(item)
        elif isinstance(item, Finding):
            if report.has_findings:
                messages.count(item)
                sink.finding(item)
            else:
                if messages.shows(item):
                    sink.settle()
                messages.finding(item)
        elif isinstance(item, WrittenRows):
            tally.count(item)
        elif is_written:
            tally.count(item)  # first: writing may take long where the reader is slow
            sink.write(item)
        tick()
    sink.finish()


class Page(NamedTuple):
    """Where a report is printed, how wide, and whether in colours."""

    write: Callable[[bytes], object]
    width: int = SENTENCE_WIDTH
    colour: bool = False
    encoding: str = "utf-8"

    @classmethod
    def on(cls, terminal: TextIO, write: Callable[[bytes], object]) -> Page:
        """Return the page of a terminal, to which `write` leads."""
        return cls(write, terminal_columns(), wants_colour(terminal), encoding_of(terminal))

    @classmethod
    def open_piped(cls, write: Callable[[bytes], object]) -> Page:
        """Return a page that another program shows, as `less` does, on the same terminal."""
        return cls(write, terminal_columns(), wants_colour(None))


class TextReport(Sink):
    """Writes lines, what is too long for one on several; `quiet` leaves only findings."""

    def __init__(self, page: Page, *, quiet: bool) -> None:
        self._write = page.write
        self._width = min(page.width, SENTENCE_WIDTH)
        self._colour = page.colour
        self._encoding = page.encoding
        self._quiet = quiet

    def _line(self, text: str = "") -> None:
        self._write(encode(text, self._encoding) + b"\n")

    def _lines(self, lines: Iterable[str], indent: str = "") -> None:
        for line in lines:
            self._line(indent + line if line else "")

    def _write_wrapped(self, text: str, indent: str = "", mark: str = "") -> None:
        """Write text behind an indent and a mark; what goes on below stands under its begin."""
        self._lines(self._wrap(text, indent, mark))

    def _wrap(self, text: str, indent: str = "", mark: str = "") -> Iterator[str]:
        """Break text into lines behind an indent and a mark."""
        from kdump.output.column_widths import wrap  # what is not for a person needs no widths

        for number, line in enumerate(wrap(text, self._width - len(indent) - len(mark))):
            yield indent + (" " * len(mark) if number else mark) + line

    def _word(self, word: str, kind: str | None) -> str:
        """Colour a word as a severity is; None: green."""
        return f"\x1b[{SGR[kind] if kind else '32'}m{word}\x1b[0m" if self._colour else word
