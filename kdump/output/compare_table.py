"""Print the results of `compare` for a person: verdicts, and why replicas differ.

Equal partitions are one line each, so that a screen of them can be passed over; of the others the
differences stand below, each with both sides and the command that shows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kdump.findings.commands import record_command, shell_text, verify_command
from kdump.findings.rows import Row
from kdump.output.column_widths import Column
from kdump.output.escape import visible
from kdump.output.grid import grid_lines
from kdump.output.messages import SGR
from kdump.output.progress import counted, size_text
from kdump.output.values import number_cell
from kdump.output.verify_text import seconds_text, wrap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kdump.output.items import Item

_WIDEST = 100
_INDENT = " " * 4
_VERDICT_WIDTH = 21
_EQUAL = (
    Column("verdict"),
    Column("partition", cuts=True, folds=True, least=24),
    Column("records", right=True),
    Column("replicas", right=True),
)
_REPLICAS = (
    Column("path", cuts=True, folds=True, least=24),
    Column("broker", right=True),
    Column("log start", right=True),
    Column("log end", right=True),
    Column("records", right=True),
    Column("epoch", right=True),
    Column("high_watermark", right=True, rank=1),
    Column("sound"),
)
#: Equal partitions of one table; more go on in another.
_PAGE = 1000
#: Differences of which the explanation and the replicas' own lines say all there is.
_SAID = ("behind", "start-differs")
#: Partitions found once that are named.
_NAMED = 5


class CompareTable:
    """Takes differences and comparisons, and writes each partition when it is whole."""

    def __init__(
        self, write: Callable[[bytes], object], *, width: int, colour: bool, quiet: bool
    ) -> None:
        self._write = write
        self._width = min(width, _WIDEST)
        self._colour = colour
        self._quiet = quiet
        self._differences: list[dict[str, Any]] = []
        self._equal: list[tuple[str, ...]] = []

    def write(self, item: Item) -> None:
        """Take one row."""
        if not isinstance(item, Row):
            return
        if item.row == "replica-difference":
            self._differences.append(item.fields)
        elif item.row == "replica-comparison":
            self._comparison(item.fields)
            self._differences = []
        else:
            self._summary(item.fields)

    def settle(self) -> None:
        """Write the equal partitions held back."""
        equal, self._equal = self._equal, []
        if equal:
            marks = {"equal": "green"}
            for line in grid_lines(_EQUAL, equal, self._width, colour=self._colour, marks=marks):
                self._line(line)
            self._line("")

    def finish(self) -> None:
        """Write what was held back where no summary came."""
        self.settle()

    def _comparison(self, fields: dict[str, Any]) -> None:
        verdict, severity = fields["verdict"], fields["severity"]
        name = visible(partition_name(fields))
        if verdict == "equal" and not self._differences:
            many = max(replica["records_count"] for replica in fields["replicas"])
            self._equal.append((verdict, name, f"{many:,}", str(len(fields["replicas"]))))
            if len(self._equal) >= _PAGE:
                self.settle()
            return
        self.settle()
        word = f"{verdict:{_VERDICT_WIDTH}}"
        if self._colour:
            word = f"\x1b[{SGR[severity] if severity else '32'}m{word}\x1b[0m"
        self._line(f"{word} {name}")
        for line in wrap(visible(fields["explanation"]), self._width - len(_INDENT)):
            self._line(_INDENT + line)
        for line in replica_lines(fields["replicas"], self._width - len(_INDENT)):
            self._line(_INDENT + line)
        for difference in self._differences:
            if difference["kind"] in _SAID:
                continue
            for line in self._difference(difference):
                self._line(_INDENT + line)
        left = sum(fields["differences"].values()) - len(self._differences)
        if left > 0:
            self._line(f"{_INDENT}{counted(left, 'more difference')}; --limit shows more")
        self._line("")

    def _difference(self, fields: dict[str, Any]) -> Iterator[str]:
        text = f"{fields['kind']} at {span_text(fields)}"
        if fields["fields"]:
            text += f": {', '.join(fields['fields'])}"
        if fields["key"] is not None:
            text += f", key {_key_text(fields['key'])}"
        if fields["reason"]:
            text += f" ({fields['reason']})"
        yield from wrap(visible(text), self._width - len(_INDENT))
        if fields["severity"] == "note":
            return
        for side in ("left", "right"):
            for number, line in enumerate(
                wrap(visible(side_text(fields[side])), self._width - 2 * len(_INDENT) - 2)
            ):
                yield _INDENT + ("  " if number else "") + line
        for command in commands(fields):
            yield f"{_INDENT}→ {command}"

    def _summary(self, fields: dict[str, Any]) -> None:
        self.settle()
        if self._quiet:
            return
        verdicts = fields["verdicts"]
        parts = [f"{count:,} {verdict}" for verdict, count in verdicts.items()]
        if parts:
            many = counted(sum(verdicts.values()), "partition")
            self._line(f"{many} compared: {', '.join(parts)}.")
        else:
            self._line("Nothing was compared.")
        if fields["found_once_count"]:
            self._once(fields)
        read = [
            counted(fields["batches"], "batch"),
            counted(fields["records_count"], "record"),
            size_text(fields["bytes"]),
        ]
        self._line(f"Read: {' · '.join(read)} in {seconds_text(fields['seconds'])}.")

    def _once(self, fields: dict[str, Any]) -> None:
        count = fields["found_once_count"]
        names = ", ".join(fields["found_once"][:_NAMED])
        more = f" and {count - _NAMED:,} more" if count > _NAMED else ""
        text = f"Under one path only, and not compared: {names}{more}."
        for line in wrap(visible(text), self._width):
            self._line(line)

    def _line(self, text: str) -> None:
        self._write(text.rstrip().encode("utf-8", "backslashreplace") + b"\n")


def partition_name(fields: dict[str, Any]) -> str:
    """Name the partition of a row."""
    if fields["topic"] is None:
        return str(fields["replicas"][0]["path"])
    return f"{fields['topic']}-{fields['partition']}"


def replica_lines(replicas: list[dict[str, Any]], width: int) -> Iterator[str]:
    """Draw the replicas as a table; a column of which nothing is known is left out."""
    rows = [
        (
            visible(replica["path"]),
            visible(replica["node_id"] or ""),
            *(number_cell(replica[name]) for name in ("log_start", "log_end", "records_count")),
            number_cell(replica["last_epoch"]),
            number_cell(replica["high_watermark"], ""),
            "yes" if replica["sound"] else "no",
        )
        for replica in replicas
    ]
    kept = [at for at in range(len(_REPLICAS)) if any(row[at] for row in rows)]
    cells = [[row[at] for at in kept] for row in rows]
    return grid_lines([_REPLICAS[at] for at in kept], cells, width)


def span_text(fields: dict[str, Any]) -> str:
    """Write which offsets a difference is about, and how many records."""
    first, last, count = fields["offset"], fields["last_offset"], fields["records_count"]
    if last is None:
        return f"offset {first}"
    span = f"offset {first}" if last == first else f"offsets {first} to {last}"
    return span if count == 1 else f"{span}, {counted(count, 'record')}"


def side_text(side: dict[str, Any]) -> str:
    """Describe one side of a difference: where its batch lies, or why there is none."""
    parts = [side["path"]]
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
        parts.append(f"and {counted(len(side['also']), 'other')} alike")
    return " · ".join(parts)


def commands(fields: dict[str, Any]) -> Iterator[str]:
    """Give the commands to type next: they show the first record of both sides, where there is
    one.
    """
    offset = fields["offset"]
    for side in (fields["left"], fields["right"]):
        if side["present"] and fields["last_offset"] is not None:
            yield shell_text(record_command(side["path"], offset))
        elif side["code"] is not None:
            yield shell_text(verify_command(side["path"]))


def _key_text(key: bytes) -> str:
    try:
        return repr(key.decode("utf-8"))
    except UnicodeDecodeError:
        return f"0x{key.hex()}"
