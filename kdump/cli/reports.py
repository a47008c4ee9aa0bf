"""What some commands make of their results beside writing them."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, cast

from kdump.cli import status
from kdump.errors import KdumpError, PathError, UsageError
from kdump.findings.finding import Finding
from kdump.findings.rows import Row
from kdump.output.report import Report

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kdump.engine.compare.plan import CompareOptions
    from kdump.engine.groups.options import GroupOptions
    from kdump.engine.reading.options import DumpOptions
    from kdump.engine.reindex.options import ReindexOptions
    from kdump.output.report import Page, Result
    from kdump.output.reset_csv import ResetCsv
    from kdump.output.sink import Sink
    from kdump.output.why_textfile import Gauges
    from kdump.rows.declarations import Field
    from kdump.rows.find import Fetch

_REFUSALS_SHOWN = 20
_COMMANDS_SHOWN = 20
_PIECE_BYTES = 1 << 20


class UndecodedReport(Report):
    """Says at the end which keys and values were not decoded."""

    def __init__(self, options: DumpOptions) -> None:
        self._options = options

    def status(self, reached: int) -> int:
        """Say it, but with `-q`."""
        opened = None if self.quiet else self._options.schemas
        if opened is not None and (schemas := opened.open()) is not None:
            for sentence in schemas.sentences():
                self.messages.line(f"kdump: {sentence}")
        return reached


class DumpReport(UndecodedReport):
    """Also says that nothing was shown, and what was asked for."""

    def __init__(self, options: DumpOptions) -> None:
        super().__init__(options)
        self._is_silent = options.limit == 0
        self._versions: dict[str, str] = {}  # of files without entries

    def takes(self, item: Result) -> bool:
        """See whether anything is shown; findings are not what was asked for."""
        if isinstance(item, Row) and item.row == "property" and _is_of_empty_file(item.fields):
            if len(self._versions) < _COMMANDS_SHOWN:
                self._versions[str(item.fields["file"])] = str(item.fields["value"])
            return False
        self._is_silent = self._is_silent or not isinstance(item, Finding)
        return True

    def status(self, reached: int) -> int:
        """Say that there was nothing, if what was not done is not the reason."""
        for path, version in () if self.quiet else self._versions.items():
            self.messages.line(f"kdump: {path}: version {version}, no entries")
        if not (self._is_silent or self.quiet or self.messages.statuses):
            asked = [
                f"--{name.removesuffix('_ms').replace('_', '-')}"
                for name, value in self._options.filters._asdict().items()
                if value is not None
            ]
            if self._options.visible:
                asked.append("--visible")
            what = "batches" if self._options.mode == "hex" else self._options.mode
            none = f"no {what} match {', '.join(asked)}" if asked else f"no {what} found"
            self.messages.line(f"kdump: {none}")
        return super().status(reached)


def _is_of_empty_file(fields: dict[str, Any]) -> bool:
    """Whether a property is the version of a snapshot or checkpoint that has no entries."""
    from kdump.storage import names
    from kdump.storage.names import Kind

    kind = names.parse(os.path.basename(str(fields["file"]))).kind
    of_entries = (Kind.PRODUCER_SNAPSHOT, Kind.LEADER_EPOCHS, Kind.OFFSET_CHECKPOINT)
    return fields["name"] == "version" and kind in of_entries


class CompareReport(Report):
    """Comparisons are sentences, and with `-q` only those of damage are written."""

    has_summary = True

    def table(self, page: Page) -> Sink:
        """Return the table."""
        from kdump.output.compare_table import CompareTable

        return CompareTable(page, quiet=self.quiet)

    def takes(self, item: Result) -> bool:
        """Leave out what is usual."""
        return not (
            self.quiet
            and isinstance(item, Row)
            and (item.row == "summary" or item.fields["severity"] != "damage")
        )


class MirrorReport(Report):
    """Writes translated offsets as a plan; `-q` leaves only comparisons that are damage."""

    def __init__(self, options: CompareOptions) -> None:
        self._has_groups = options.group is None or bool({*"*?["} & {*options.group})
        self._is_plan = False

    def sink(self, form: str, page: Page) -> Sink | None:
        """Return the lines of a plan, which name the group where there may be several."""
        self._is_plan = form == "reset-csv"
        if not self._is_plan:
            return None
        from kdump.output.reset_csv import ResetCsv

        return ResetCsv(page.write, self.messages, has_groups=self._has_groups)

    def takes(self, item: Result) -> bool:
        """Leave out what is usual, and of a plan everything but offsets."""
        if not isinstance(item, Row):
            return True
        if self._is_plan:
            return item.row == "translated-offset"
        return not self.quiet or item.get("severity") == "damage"


class ElectReport(CompareReport):
    """Choices of a leader are sentences and tables; `-q` leaves those with something at stake."""

    def table(self, page: Page) -> Sink:
        """Return the table."""
        from kdump.output.elect_table import ElectTable

        return ElectTable(page, quiet=self.quiet)

    def takes(self, item: Result) -> bool:
        """Leave out partitions that may be led by any."""
        return not (self.quiet and isinstance(item, Row) and not item.fields.get("at_stake"))


class LookupReport(Report):
    """Sees whether any partition had an answer; 4, "none", is the status where none had.

    Of a reset plan it counts what the plan has, and 1 is the status where it is not complete.
    """

    _is_answered = False
    _plan: ResetCsv | None = None
    _fetched: Fetch | None = None

    def __init__(self, bytes_to: str | None = None) -> None:
        """`bytes_to`: the file that the bytes of a fetch are written to."""
        self._bytes_to = bytes_to

    def sink(self, form: str, page: Page) -> Sink | None:
        """Return the lines of a plan."""
        if form != "reset-csv":
            return None
        from kdump.output.reset_csv import ResetCsv

        self._plan = ResetCsv(page.write, self.messages)
        return self._plan

    def takes(self, item: Result) -> bool:
        """Look at an answer."""
        if isinstance(item, Row):
            fields = item.fields
            answer = fields.get("offset", fields.get("size_bytes") or None)
            if self._bytes_to is not None and "end_position" in fields:
                self._take_fetch(cast("Fetch", item))
            if self._plan is not None:
                answer = fields.get("reset_offset", answer)
            self._is_answered |= answer is not None or fields.get("available") is False
        return True

    def _take_fetch(self, row: Fetch) -> None:
        if self._fetched is not None:
            raise UsageError(
                "--output writes the bytes of one partition: name its directory, or add --topic "
                "and --partition"
            )
        if row.source == "remote":
            raise UsageError(
                "--output writes the bytes of a local segment; these are in remote storage"
            )
        self._fetched = row

    def end(self, *, kept: bool) -> None:
        """Write the bytes of a fetch to their file."""
        from kdump.output.amounts import count_text

        row = self._fetched
        if not kept or self._bytes_to is None or row is None or row.path is None:
            return
        from kdump.output.target import write_whole

        write_whole(self._bytes_to, _bytes_of(row.path, row))
        self.messages.courtesy(f"wrote {self._bytes_to}, {count_text(row.size_bytes or 0, 'byte')}")

    def status(self, reached: int) -> int:
        """Return the status."""
        reached = status.first_of(reached, status.DONE if self._is_answered else status.NONE)
        if self._plan is None:
            return reached
        self._plan.sum_up()
        return status.first_of(reached, status.NOT_DONE if self._plan.is_partial else status.DONE)


class AppendReport(Report):
    """Sees whether a broker accepts what is sent; 4, "none", is the status where one does not."""

    _is_refused = False

    def takes(self, item: Result) -> bool:
        """Look at an answer."""
        self._is_refused |= isinstance(item, Row) and not item["accepted"]
        return True

    def status(self, reached: int) -> int:
        """Return the status."""
        return status.first_of(reached, status.NONE if self._is_refused else status.DONE)


def _bytes_of(path: str, row: Fetch) -> Iterator[bytes]:
    """Yield the bytes that a row names, and raise at the end where they have changed."""
    import hashlib

    from kdump.storage.source import Source

    digest = hashlib.sha256()
    start, end = row.position or 0, row.end_position or 0
    with Source(path) as log:
        for at in range(start, end, _PIECE_BYTES):
            piece = log.read(at, min(_PIECE_BYTES, end - at))
            digest.update(piece)
            yield piece
    if row.sha256 not in (None, digest.hexdigest()):
        raise PathError(path, "does not contain these bytes (is it compressed, or did it change?)")


class ReindexReport(Report):
    """Says at the end what to type next, and why something is to be refused."""

    def __init__(self, options: ReindexOptions) -> None:
        self._options = options
        self._actions: Counter[str] = Counter()
        self._refusals: dict[str, str] = {}  # reason: first file
        self._kept = 0  # files that the table leaves out
        self._names_reasons = True

    def table(self, page: Page) -> None:
        """Record that a table follows; its rows contain the reasons."""
        self._names_reasons = False

    def condense(self, table: Sink) -> Sink:
        """List the files of several partitions that are to be rebuilt; count the others."""
        from kdump.output.condensed import SinglePlaceFilter

        def keep(row: Row) -> None:
            self._kept += 1

        return SinglePlaceFilter(
            table,
            lambda row: (row.get("topic"), row.get("partition")),
            lambda row: row.get("action") == "keep",
            keep,
        )

    def takes(self, item: Result) -> bool:
        """Count what is to be done."""
        if isinstance(item, Row):
            action = str(item.fields["action"])
            self._actions[action] += 1
            if action == "refuse" and len(self._refusals) < _REFUSALS_SHOWN:
                self._refusals.setdefault(str(item.fields["reason"]), str(item.fields["path"]))
        return True

    def status(self, reached: int) -> int:
        """Say what comes next."""
        from kdump.output.escape import is_terminal

        if is_terminal(sys.stderr) and not self.quiet:
            if self._kept:
                self.messages.line(
                    f"Not listed: {_files(self._kept)} that {'is' if self._kept == 1 else 'are'} "
                    "kept; --wide lists them."
                )
            if self._names_reasons and not self._options.write:
                for reason, path in self._refusals.items():
                    self.messages.line(f"Would be refused: {path}: {reason}")
            for line in _next(self._options, self._actions).splitlines():
                self.messages.line(line)
        return reached


def _next(options: ReindexOptions, actions: Counter[str]) -> str:
    """Say what to type next: the same command with --write, or with --undo."""
    files = actions["rebuild"] + actions["create"]
    if files:
        return f"Nothing was changed. To write {_files(files)}:\n  {again('--write')}"
    if actions["restore"]:
        many = _files(actions["restore"])
        return f"Nothing was changed. To restore {many}:\n  {again('--write')}"
    if options.changes and actions["rebuilt"]:
        return f"To restore the old files: {again('--undo')}"
    if not actions or actions["refuse"] or actions["restored"] or options.write:
        return ""
    return "Nothing needs to be rebuilt."


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count:,} files"


def again(*more: str, without: str = "") -> str:
    """Format the command that runs, with more options."""
    from kdump.findings.shell import format_command

    words = [word for word in sys.argv[1:] if word != without]
    end = words.index("--") if "--" in words else len(words)
    return format_command(("kdump", *words[:end], *more, *words[end:]))


class PlacementReport(Report):
    """Says once of how many topics there is nothing to say: they have one partition."""

    def __init__(self) -> None:
        self._topics = 0

    def condense(self, table: Sink) -> Sink:
        """Leave topics with one partition out of the table, where others are in it."""
        from kdump.output.condensed import SinglePlaceFilter

        def leave_out(row: Row) -> None:
            self._topics += 1

        return SinglePlaceFilter(
            table,
            lambda row: row.get("topic"),
            lambda row: row.row == "key-placement" and row.get("partitioner") is None,
            leave_out,
        )

    def status(self, reached: int) -> int:
        """Count them."""
        if self._topics and not self.quiet:
            one = self._topics == 1
            self.messages.line(
                f"kdump: {'1 topic has' if one else f'{self._topics:,} topics have'} one partition"
                f"{'' if one else ' each'}: every key is where it belongs"
            )
        return reached


class InfoReport(Report):
    """Shows once what bounds the release of a node that has several directories."""

    def condense(self, table: Sink) -> Sink:
        """Leave out evidence that was shown for this node."""
        from kdump.output.sink import Without

        shown = set[tuple[Any, ...]]()
        node: tuple[Any, ...] = ()

        def was_shown(row: Any) -> bool:
            nonlocal node
            if row.row == "directory":
                node = (row.cluster_id, row.path if row.broker_id is None else row.broker_id)
            if row.row != "dating-evidence":
                return False
            fact = (*node, row.bound, row.release, row.text, row.at_ms)
            is_known = fact in shown
            shown.add(fact)
            return is_known

        return Without(table, was_shown)


class GroupsReport(Report):
    """Says how to undo a change of committed offsets that no member of the group made."""

    def __init__(self, options: GroupOptions, paths: tuple[str, ...]) -> None:
        self._options = options
        self._paths = paths
        self._moved: dict[str, object] | None = None
        self._is_silent = True
        self._is_plan = self._has_lines = False
        self._share_groups: set[object] = set()
        self._pending = 0

    def sink(self, form: str, page: Page) -> Sink | None:
        """Return the lines of a plan, which name the group where there may be several."""
        self._is_plan = form == "reset-csv"
        if not self._is_plan:
            return None
        from kdump.output.reset_csv import ResetCsv

        return ResetCsv(page.write, self.messages, has_groups=self._options.one_group is None)

    def takes(self, item: Result) -> bool:
        """Keep the last change that put an offset back while the group had no member.

        In a plan stand committed offsets that count, of groups that have such a tool.
        """
        if not isinstance(item, Row):
            return True
        self._is_silent = False
        fields = item.fields
        if item.row == "offset-commit" and _is_put_back(fields):
            self._moved = fields
        if not self._is_plan:
            return True
        if item.row == "group" and fields["type"] == "Share":
            self._share_groups.add(fields["group"])
            left_out = (
                f"kdump: left out: {fields['group']} is a share group; use kafka-share-groups"
            )
            self.messages.line(left_out)
        is_offset = item.row == "committed-offset" and fields["group"] not in self._share_groups
        self._pending += is_offset and bool(fields["pending"])
        is_line = is_offset and not fields["pending"]
        self._has_lines |= is_line
        return is_line

    def status(self, reached: int) -> int:
        """Say what to type next, or that there was nothing."""
        from kdump.output.amounts import count_text
        from kdump.output.escape import is_terminal

        if self._is_silent and not (self.quiet or self.messages.statuses):
            what = "change" if self._options.history else "group"
            self.messages.line(f"kdump: no {what} found")
        elif self._is_plan and not self._has_lines:
            self.messages.line("kdump: nothing to reset: no offset was committed before that time")
        if self._pending:
            offsets = count_text(self._pending, "offset")
            self.messages.line(f"kdump: left out: {offsets} in transactions that have not ended")
        if self._moved is not None and is_terminal(sys.stderr) and not self.quiet:
            self.messages.line("To reset it:")
            self.messages.line(f"  {self._undo(self._moved)}")
        return reached

    def _undo(self, moved: dict[str, Any]) -> str:
        """Write the command whose lines the tool takes that resets offsets."""
        from kdump.findings.shell import format_command, path_word
        from kdump.output.amounts import time_text

        words = ["kdump", "groups", "--group", str(moved["group"])]
        if self._options.selection.topic is not None:
            words += ["--topic", self._options.selection.topic]
        words += ["--at", time_text(moved["at_ms"] - 1), "--format", "reset-csv"]
        return format_command((*words, *map(path_word, self._paths)), into="back.csv")


def _is_put_back(fields: dict[str, Any]) -> bool:
    before, now = fields["previous_offset"], fields["offset"]
    return fields["members_count"] == 0 and None not in (before, now) and now < before


class TransactionsReport(Report):
    """Says how to end what hangs."""

    def __init__(self) -> None:
        self._commands: dict[str, None] = {}
        self._is_silent = True

    def takes(self, item: Result) -> bool:
        """Keep the commands that end what hangs."""
        if isinstance(item, Row):
            self._is_silent = False
            command = item.fields["abort_command"]
            if command is not None and len(self._commands) < _COMMANDS_SHOWN:
                self._commands[str(command)] = None
        return True

    def status(self, reached: int) -> int:
        """Say what to type next, or that there was nothing."""
        from kdump.output.escape import is_terminal

        if self._is_silent and not (self.quiet or self.messages.statuses):
            self.messages.line("kdump: no transaction found")
        if is_terminal(sys.stderr) and not self.quiet:
            for command in self._commands:
                self.messages.line("To end it, on a running cluster:")
                self.messages.line(f"  {command}")
        return reached


class TimelineReport(Report):
    """Draws events that are alike on one line, unless all are asked for."""

    def __init__(self, *, detail: bool) -> None:
        self._detail = detail
        self._is_silent = True

    def takes(self, item: Result) -> bool:
        """See whether there is an event."""
        self._is_silent = self._is_silent and not (isinstance(item, Row) and item.row == "event")
        return True

    def status(self, reached: int) -> int:
        """Say that there was none."""
        if self._is_silent and not (self.quiet or self.messages.statuses):
            self.messages.line("kdump: no event found")
        return reached

    def sink(self, form: str, page: Page) -> Sink | None:
        """Return the forms of other tools, and the table."""
        if form not in ("timesketch", "bodyfile"):
            return super().sink(form, page)
        from kdump.output.forensic import Bodyfile, Timesketch

        return (Timesketch if form == "timesketch" else Bodyfile)(page.write)

    def table(self, page: Page) -> Sink:
        """Return the table."""
        from kdump.output.table import Table
        from kdump.output.tables.timeline import CondensingSink

        return CondensingSink(Table(page.write, sys.stdout, 0), detail=self._detail)


class WhyReport(Report):
    """Draws topics in the place of segments for a person; writes a file of metrics."""

    has_summary = True

    def __init__(self, textfile: str | None) -> None:
        self._textfile = textfile
        self._gauges: Gauges | None = None
        if textfile is not None:
            from kdump.output.why_textfile import Gauges

            self._gauges = Gauges()

    def table(self, page: Page) -> Sink:
        """Return the table."""
        from kdump.output.why_table import WhyTable

        self.has_findings = True  # they stand first in the table
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
            data = text.encode("utf-8", "backslashreplace")
            write_whole(self._textfile, [data], "--textfile")
        except KdumpError as error:
            self.messages.error(error)
            return status.first_of(reached, status.NOT_DONE)
        return reached


class SchemaReport(Report):
    """Writes kinds of rows as a JSON Schema."""

    def __init__(self, kinds: Mapping[str, tuple[Field, ...]]) -> None:
        self._kinds = kinds

    def sink(self, form: str, page: Page) -> Sink | None:
        """Return the sink of the one form that others do not have."""
        if form != "json-schema":
            return None
        from kdump.output.json_schema import JsonSchema

        return JsonSchema(page.write, self._kinds)
