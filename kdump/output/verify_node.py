"""Print whether a node starts, before all else of `predict`: the verdict, then why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from kdump.output.column_widths import wrap
from kdump.output.escape import visible

if TYPE_CHECKING:
    from kdump.rows.verify import NodeStart

REFUSES, _STARTS = "refuses", "starts"
_VERDICTS = {
    REFUSES: ("THE NODE DOES NOT START", "damage"),
    _STARTS: ("The node starts", None),
    "unknown": ("It is unknown whether the node starts", "rebuild"),
}
_MARKS = {REFUSES: "", "unknown": "Unknown: "}  # all else is a warning


def node_lines(
    rows: Sequence[NodeStart], width: int, coloured: Callable[[str, str | None], str]
) -> Iterator[str]:
    """Write the verdict of each node, and what stops it, what to know of, what is not known."""
    outcomes = [row.outcome for row in rows]
    outcome = next((one for one in _VERDICTS if one in outcomes), _STARTS)
    text, colour = _VERDICTS[outcome]
    of_it = [row for row in rows if row.outcome == outcome]
    first = of_it[0]
    if outcome == REFUSES and {row.cause for row in of_it} == {"lock"}:
        text, colour = "A broker is running on these directories, so no other can start", "rebuild"
    is_sound = outcome == _STARTS and first.cause == "none"
    release = f" with Kafka {first.broker_version}" if first.broker_version else ""
    end = ":"
    if is_sound:
        text = "As far as kdump can tell, the node starts" if "unknown" in outcomes else text
        end = "."
    yield coloured(text + release, colour) + end
    for row in sorted(rows, key=lambda row: row.outcome != outcome):
        if row.cause == "none":
            continue
        mark = _MARKS.get(row.outcome, "Warning: ")
        message = row.message
        if message.startswith("Cannot invoke"):  # without its name, it reads as a failure of kdump
            message = f"the broker would stop with NullPointerException: {message}"
        yield from _indent(mark + visible(message), width, "  ")
        if row.path and row.path not in row.message:
            yield from _indent(f"({visible(row.path)})", width, "  ")
        if row.remedy:
            yield from _indent(visible(row.remedy), width, "  → ")


def _indent(text: str, width: int, mark: str) -> Iterator[str]:
    for number, line in enumerate(wrap(text, width - len(mark))):
        yield (" " * len(mark) if number else mark) + line
