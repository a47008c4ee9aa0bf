"""Print the results of `compare` for a person: verdicts, and why replicas differ.

Equal partitions are one line each, so that a screen of them can be passed over; of the others the
differences stand below, each with both sides and the command that shows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump.findings.commands import record_command, verify_command
from kdump.findings.shell import format_command
from kdump.output.amounts import count_text, seconds_text, size_text
from kdump.output.column_widths import (
    Column,
    Columns,
    amount,
    cells_of,
    folding_column,
    number,
    wrap,
)
from kdump.output.copy_names import CopyNames
from kdump.output.escape import visible
from kdump.output.grid import table_lines
from kdump.output.report import Page, TextReport
from kdump.output.row_tables import name_of
from kdump.output.strip import Extent, strip_lines
from kdump.rows.compare import CompareSummary, ReplicaComparison, ReplicaDifference

if TYPE_CHECKING:
    from kdump.output.sink import Item
    from kdump.rows.compare import ReplicaFacts, Side

_INDENT = " " * 4
_VERDICT_WIDTH = 21


def partition_name(row: ReplicaComparison) -> str:
    """Name the partition of a row."""
    return str(row.replicas[0]["path"]) if row.topic is None else name_of(row)


_EQUAL: tuple[Column[ReplicaComparison], ...] = (
    Column("verdict", lambda row: row.verdict),
    folding_column("partition", partition_name, 24),
    amount("records", lambda row: f"{row.records_count:,}"),
    amount("replicas", lambda row: str(len(row.replicas))),
)
_REPLICAS: Columns = (
    amount("broker", lambda replica: visible(replica["node_id"] or "")),
    number("log start", "log_start"),
    number("log end", "log_end"),
    number("records", "records_count"),
    number("epoch", "last_epoch"),
    number("high_watermark", absent="", rank=1),
    Column("sound", lambda replica: "yes" if replica["sound"] else "no"),
)
#: Equal partitions of one table; more go on in another.
_PAGE = 1000
#: Differences of which the explanation and the replicas' own lines say all there is.
_SAID = ("behind", "start-differs")
#: Partitions found once that are named.
_NAMED = 5


class CompareTable(TextReport):
    """Takes differences and comparisons, and writes each partition when it is whole."""

    def __init__(self, page: Page, *, quiet: bool) -> None:
        super().__init__(page, quiet=quiet)
        self._copies = CopyNames()
        self._differences: list[ReplicaDifference] = []
        self._equal: list[ReplicaComparison] = []

    def write(self, item: Item) -> None:
        """Take one row."""
        if isinstance(item, ReplicaDifference):
            self._differences.append(item)
        elif isinstance(item, ReplicaComparison):
            self._comparison(item)
            self._differences = []
        elif isinstance(item, CompareSummary):
            self._summary(item)

    def settle(self) -> None:
        """Write the equal partitions held back."""
        equal, self._equal = self._equal, []
        if equal:
            marks = {"equal": "green"}
            self._lines(table_lines(_EQUAL, equal, self._width, colour=self._colour, marks=marks))
            self._line()

    def finish(self) -> None:
        """Write what was held back where no summary came."""
        self.settle()

    def _comparison(self, row: ReplicaComparison) -> None:
        verdict = row.verdict
        if verdict == "equal" and not self._differences:
            self._equal.append(row)
            if len(self._equal) >= _PAGE:
                self.settle()
            return
        self.settle()
        paths = [replica["path"] for replica in row.replicas]
        if legend := [*self._copies.introduce(paths)]:
            self._lines(legend)
            self._line()
        word = self._word(f"{verdict:{_VERDICT_WIDTH}}", row.severity)
        self._line(f"{word} {visible(partition_name(row))}")
        name = "" if row.topic is None else name_of(row)
        self._write_wrapped(
            visible(self._copies.replace_paths(row.explanation, paths, name)), _INDENT
        )
        copies = {path: self._copies.of(path, name) for path in paths}
        self._lines(replica_lines(row.replicas, copies, self._width - len(_INDENT)), _INDENT)
        left = sum(row.differences.values()) - len(self._differences)
        if left <= 0:
            self._strips(row, copies)
        for difference in self._differences:
            if difference.kind not in _SAID:
                self._lines(self._difference(difference, copies), _INDENT)
        if left > 0:
            self._line(f"{_INDENT}{count_text(left, 'more difference')}; --limit shows more")
        self._line()

    def _strips(self, row: ReplicaComparison, copies: dict[str, str]) -> None:
        """Draw which offsets each copy has."""
        missing: dict[str, list[tuple[int, int]]] = {path: [] for path in copies}
        differing: dict[str, list[tuple[int, int]]] = {path: [] for path in copies}
        for each in self._differences:
            if each.offset is None or each.last_offset is None or each.severity == "note":
                continue
            both = each.left["present"] and each.right["present"]
            for side in (each.left, each.right):
                if side["present"] and not both:
                    continue
                spans = differing if both else missing
                for path in {side["path"], *side["also"]} & copies.keys():
                    spans[path].append((each.offset, each.last_offset))
        extents = [
            Extent(copies[path], one["log_start"], one["log_end"], missing[path], differing[path])
            for one in row.replicas
            for path in [one["path"]]
        ]
        marks = [one["high_watermark"] for one in row.replicas if one["high_watermark"] is not None]
        width = self._width - len(_INDENT)
        self._lines(strip_lines(extents, width, high_watermark=max(marks, default=None)), _INDENT)

    def _difference(self, row: ReplicaDifference, copies: dict[str, str]) -> Iterator[str]:
        text = f"{row.kind} at {span_text(row)}"
        if row.fields_:
            text += f": {', '.join(row.fields_)}"
        if row.key is not None:
            text += f", key {_key_text(row.key)}"
        if row.reason:
            text += f" ({row.reason})"
        yield from wrap(visible(text), self._width - len(_INDENT))
        if row.severity == "note":
            return
        for side in (row.left, row.right):
            text = visible(side_text(side, copies))
            for at, line in enumerate(wrap(text, self._width - 2 * len(_INDENT) - 2)):
                yield _INDENT + ("  " if at else "") + line
        for command in commands(row):
            yield f"{_INDENT}→ {command}"

    def _summary(self, row: CompareSummary) -> None:
        self.settle()
        if self._quiet:
            return
        verdicts = row.verdicts
        parts = [f"{count:,} {verdict}" for verdict, count in verdicts.items()]
        if parts:
            many = count_text(sum(verdicts.values()), "partition")
            self._write_wrapped(f"{many} compared: {', '.join(parts)}.")
        else:
            self._line("Nothing was compared.")
        if row.found_once_count:
            self._write_common(row)
        read = [
            count_text(row.batches, "batch"),
            count_text(row.records_count, "record"),
            size_text(row.bytes),
        ]
        self._write_wrapped(f"Read {', '.join(read)} in {seconds_text(row.seconds)}.")

    def _write_common(self, row: CompareSummary) -> None:
        count = row.found_once_count
        names = ", ".join(row.found_once[:_NAMED])
        more = f" and {count - _NAMED:,} more" if count > _NAMED else ""
        self._write_wrapped(visible(f"Only under one path, so not compared: {names}{more}."))


def replica_lines(
    replicas: list[ReplicaFacts], copies: dict[str, str], width: int
) -> Iterator[str]:
    """Draw the replicas as a table; a column of which nothing is known is left out.

    `copies`: what each path is called.
    """
    every: Columns = (
        folding_column("copy", lambda replica: copies[replica["path"]], 4),
        *_REPLICAS,
    )
    known = map(any, zip(*(cells_of(every, replica) for replica in replicas), strict=True))
    columns = [column for column, is_known in zip(every, known, strict=True) if is_known]
    return table_lines(columns, replicas, width)


def span_text(row: ReplicaDifference) -> str:
    """Write which offsets a difference is about, and how many records."""
    first, last, count = row.offset, row.last_offset, row.records_count
    if last is None:
        return f"offset {first}"
    span = f"offset {first}" if last == first else f"offsets {first} to {last}"
    return span if count == 1 else f"{span}, {count_text(count or 0, 'record')}"


def side_text(side: Side, copies: dict[str, str]) -> str:
    """Describe one side of a difference: where its batch lies, or why there is none."""
    parts = [copies.get(side["path"], side["path"])]
    if side["segment"] is not None:
        parts.append(f"segment {side['segment']}")
    if side["position"] is not None:
        parts.append(f"position {side['position']:,}")
    if side["leader_epoch"] is not None:
        parts.append(f"epoch {side['leader_epoch']}")
    if side["code"] is not None:
        parts.append(f"{side['code']}: {side['detail']}")
    elif not side["present"]:
        parts.append("nothing")
    if side["also"]:
        parts.append(f"and {count_text(len(side['also']), 'other')} the same")
    return " · ".join(parts)


def commands(row: ReplicaDifference) -> Iterator[str]:
    """Give the commands to type next, which show the first record that a side has."""
    offset = row.offset or 0
    for side in (row.left, row.right):
        if side["present"] and row.last_offset is not None:
            yield format_command(record_command(side["path"], offset))
        elif side["code"] is not None:
            yield format_command(verify_command(side["path"]))


def _key_text(key: bytes) -> str:
    try:
        return repr(key.decode("utf-8"))
    except UnicodeDecodeError:
        return f"0x{key.hex()}"
