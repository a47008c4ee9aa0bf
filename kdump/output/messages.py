"""Write everything that is no result (findings, errors, the summary) to standard error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from kdump.errors import KdumpError, PathError
from kdump.output.amounts import count_text
from kdump.output.escape import (
    SENTENCE_WIDTH,
    encode,
    encoding_of,
    silence,
    terminal_columns,
    visible,
)
from kdump.output.process_tuning import KERNEL

if TYPE_CHECKING:
    from kdump.findings.finding import Finding, Severity
    from kdump.output.progress import Tally


def _begin(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]


def way_past(finding: Finding) -> str:
    """Say what can be read from disk, and what a broker serves; nothing where nobody was asked.

    Where the oldest release that can have written the directory serves from elsewhere, also that.
    """
    following, served, skipped = finding.next_offset, finding.served_from, finding.skipped_by_seek
    if following is None or finding.served_by is None:
        return ""
    version, _, how = finding.served_by.partition(" ")
    broker, unless = f"a {version} broker", ""
    if how == "running":
        broker = f"the running broker (if it is a {version})"
    elif how == "starting":
        unless = "If the next start does not truncate the log here, "
    older = ""
    if finding.oldest is not None:
        oldest, again = finding.oldest["broker_version"], finding.oldest["served_from"]
        older = f" For a {oldest} broker, that is offset {again}."
        if again is None:
            older = f" A {oldest} broker can serve nothing after the damage."
    reset = _begin(
        f"{unless}reset stuck groups to offset {served}, the first that {broker} can serve "
        "after the damage."
    )
    if served == following:
        return f"{reset}{older}"
    disk = f"The log continues at offset {following:,}."
    disk = "" if disk in finding.message else f"{disk} "
    records = count_text(skipped or 0, "sound record")
    if served is None:
        nothing = _begin(f"{unless}{broker} can serve nothing after the damage")
        return f"{disk}{nothing}; kdump dump shows the {records} from {following:,} on.{older}"
    between = ""
    if skipped:
        between = (
            f" No consumer can fetch the {records} between the damage and that offset; kdump dump "
            "shows them."
        )
    return f"{disk}{reset}{older}{between}"


SLOW_KERNEL = (
    "kdump: using the pure Python kernel, which is many times slower (reinstall it on a "
    "machine with a C compiler)"
)
#: Notes of one code that a terminal shows in full; the rest are counted.
_NOTES_EACH = 3
#: How a severity is coloured.
SGR = {"damage": "1;31", "rebuild": "33", "note": "2"}


class Messages:
    """Writes findings and errors as they come, and keeps count of both.

    `before` runs before anything is written: it flushes the results, so that on a shared terminal a
    finding stands behind the rows it follows.
    """

    def __init__(
        self, file: TextIO, *, as_json: bool, colour: bool, before: Callable[[], None]
    ) -> None:
        self._file = file
        self._encoding = encoding_of(file)
        self._as_json = as_json
        self._colour = colour
        self._before = before
        self.findings: Counter[Severity] = Counter()
        self.severities: set[Severity] = set()  # of rows that have one
        self.statuses: set[int] = set()
        self._notes: Counter[str] = Counter()
        self.paths_unfinished = 0
        self.denied: str | None = None  # the first path that this user may not read
        self._has_named_kernel = KERNEL != "pure"

    @property
    def worst(self) -> Severity | None:
        """The most severe of the findings, and of rows that are as bad, so far."""
        found = (*self.findings, *self.severities)
        return max(found, key=lambda severity: severity.rank, default=None)

    def count(self, finding: Finding) -> None:
        """Take note of a finding that is written where results are."""
        self.findings[finding.severity] += 1 + finding.more

    def shows(self, finding: Finding) -> bool:
        """Whether a finding is to be written: not the fourth note of its code to a person."""
        return self._as_json or self._notes[finding.code] < _NOTES_EACH

    def finding(self, finding: Finding) -> None:
        """Write a finding: one JSON line, or text for a person."""
        self.count(finding)
        if self._as_json:
            from kdump.findings.escape import json_text

            self._line(json_text({"row": "finding", **finding.fields()}))
            return
        is_shown = self.shows(finding)
        self._notes[finding.code] += finding.severity.value == "note"
        if is_shown:
            self._line("\n".join(finding_lines(finding, colour=self._colour)))

    def count_notes(self) -> None:
        """Write how many notes of each code were not written."""
        for code, count in self._notes.items():
            if (more := count - _NOTES_EACH) > 0:
                self._line(f"NOTE     {more:,} more {code}; --format jsonl lists them")

    def note_unfinished(self, error: KdumpError) -> None:
        """Take note of an error that is written otherwise."""
        self.statuses.add(error.status)
        self.paths_unfinished += 1

    def error(self, error: KdumpError) -> None:
        """Write what could not be done."""
        self.note_unfinished(error)
        if isinstance(error, PathError) and error.is_denied:
            self.denied = self.denied or error.path
        self._line(f"kdump: {visible(str(error))}")

    def line(self, text: str) -> None:
        """Write a line that belongs to an output form, as `--format kafka` has them."""
        self._line(visible(text))

    def prose(self, text: str) -> None:
        """Write sentences without a command, broken where the terminal ends."""
        from kdump.output.column_widths import wrap

        for line in wrap(text, terminal_columns()):
            self.line(line)

    def courtesy(self, text: str) -> None:
        """Write a line that nobody has to see: that it cannot be written is no failure."""
        statuses = self.statuses
        self.statuses = set()
        self._line(visible(text))
        self.statuses = statuses

    def summary(self, tally: Tally) -> None:
        """Write how much was read, what was found and which kernel did it; for a person only."""
        parts = tally.text().split(" · ")  # which may count the findings of its plan
        ranked = sorted(self.findings.items(), key=lambda pair: -pair[0].rank)
        counts = [count_text(count, severity.value) for severity, count in ranked]
        parts += [text for text in counts if text not in parts]
        if self.paths_unfinished:
            parts.append(f"{count_text(self.paths_unfinished, 'path')} not read completely")
        parts.append(f"{KERNEL} kernel")
        from kdump.output.column_widths import join

        for line in join(parts, terminal_columns()):
            self._dim(line)
        self.name_slow_kernel()

    def name_slow_kernel(self) -> None:
        """Report, once and to a person only, that the pure kernel runs."""
        if not self._has_named_kernel:
            self._has_named_kernel = True
            self._dim(SLOW_KERNEL)

    def _dim(self, text: str) -> None:
        self._line(f"\x1b[2m{text}\x1b[0m" if self._colour else text)

    def _line(self, text: str) -> None:
        self._before()
        try:
            self._file.write(encode(text, self._encoding).decode(self._encoding) + "\n")
            self._file.flush()
        except BrokenPipeError:
            raise
        except OSError:  # nobody can be reached: the status says that something was not done
            self.statuses.add(PathError.status)
            silence(self._file)


def finding_lines(finding: Finding, *, colour: bool) -> list[str]:
    """Write a finding: how bad, where, what, and what follows from it; on one line if it fits."""
    from kdump.output.column_widths import join, wrap

    word = finding.severity.value
    level = f"{word.upper():8} "
    parts = []
    if finding.topic is not None:
        parts.append(f"{finding.topic}-{finding.partition}")
    if finding.segment is not None:
        parts.append(f"segment {finding.segment}")
    if not parts:
        parts.append(finding.path)
    if finding.position is not None:
        parts.append(f"position {finding.position:,}")
    if finding.size_bytes is not None:
        parts.append(f"{finding.size_bytes:,} bytes")
    if finding.offset is not None:
        parts.append(f"offset {finding.offset}")
    sentences = (f"{finding.code}: {finding.message}", way_past(finding), *finding.consequences)
    words = visible(" ".join(filter(None, sentences)))
    width = min(terminal_columns(), SENTENCE_WIDTH) - len(level)
    places = join([*map(visible, parts)], width)
    lines = [f"{places[0]}  {words}"]
    if len(places) > 1 or len(lines[0]) > width:
        lines = [*places, *wrap(words, width)]
    lines = [" " * len(level) + line for line in lines]
    if colour:
        level = f"\x1b[{SGR[word]}m{level[:-1]}\x1b[0m "
    lines[0] = level + lines[0].lstrip()
    return lines
