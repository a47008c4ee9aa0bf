"""Print the choices of `compare --elect` for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kdump.findings.rows import Row
from kdump.output.amounts import counted, seconds_text
from kdump.output.column_widths import Column, amount, folded, number
from kdump.output.escape import visible
from kdump.output.grid import table_lines
from kdump.output.row_tables import name_of
from kdump.output.text_report import TextReport

if TYPE_CHECKING:
    from kdump.output.items import Item

_INDENT = " " * 4
_RULES = {
    "raft": "by Raft's rule",
    "in-sync": "by the metadata log",
    "longest-log": "by the logs alone",
}


def _role(choice: dict[str, Any]) -> str:
    if choice["refused"] is not None:
        return "does not start"
    if choice["voter"] is not None:
        return (
            ("voter" if choice["electable"] else "voter, not electable")
            if choice["voter"]
            else ("no voter")
        )
    return {True: "in sync", False: "not in sync", None: ""}[choice["in_sync"]]


_CHOICES = (
    folded("if it leads", lambda choice: choice["path"], 20),
    amount("node", lambda choice: "" if choice["node_id"] is None else str(choice["node_id"])),
    Column("role", _role),
    number("epoch", "last_epoch"),
    number("log end", "log_end"),
    amount("records lost", lambda choice: f"{choice['records_lost']:,}"),
)


class ElectTable(TextReport):
    """Writes each partition: whom to choose, what every choice costs, what to type."""

    def write(self, item: Item) -> None:
        """Take one row."""
        if not isinstance(item, Row):
            return
        if item.row == "replica-election":
            self._election(item.fields)
        elif not self._quiet:
            self._summary(item.fields)

    def _election(self, fields: dict[str, Any]) -> None:
        name = fields["leader"] if fields["topic"] is None else name_of(fields)
        node, path = fields["leader_node"], visible(fields["leader"])
        who = path if node is None else f"node {node}, {path}"
        self._line(f"{self._word(visible(name), None)} → {who} ({_RULES[fields['rule']]})")
        self._lines(table_lines(_CHOICES, fields["choices"], self._width - len(_INDENT)), _INDENT)
        for choice in fields["choices"]:
            if choice["changes_lost"]:
                changes = ", ".join(map(change_text, choice["changes_lost"].items()))
                self._wrapped(visible(f"with {_named(choice)}: {changes}"), _INDENT, "lost ")
            if choice["refused"] is not None:
                self._wrapped(visible(f"{_named(choice)}: {choice['refused']}"), _INDENT)
        if by_itself := _by_itself(fields):
            self._wrapped(visible(by_itself), _INDENT)
        self._wrapped(visible(fields["advice"]), _INDENT)
        for command in fields["commands"]:
            self._line(f"{_INDENT}→ {command}")
        self._line()

    def _summary(self, fields: dict[str, Any]) -> None:
        many = counted(fields["partitions"], "partition")
        stake = f"{fields['at_stake']:,} with records at stake"
        self._line(f"{many}, {stake}. {seconds_text(fields['seconds'])}.")
        self._line("Damage inside the logs was not looked for: kdump compare does that.")


def change_text(change: tuple[str, int]) -> str:
    """Write how often something was changed: `3 topics created`."""
    words, count = change
    for verb in (" created", " deleted", " changed", " given out", " of a controller"):
        if words.endswith(verb):
            return counted(count, words.removesuffix(verb)) + verb
    return counted(count, words)


def _by_itself(fields: dict[str, Any]) -> str:
    """Say whom a controller would elect, where that may be another one."""
    able = [choice for choice in fields["choices"] if choice["in_sync"]]
    most = max((choice["records_lost"] for choice in able), default=0)
    if not able or not most:
        return ""
    if len(able) == 1:
        return f"By itself a controller elects {_named(able[0])}: {counted(most, 'record')} lost."
    names = ", ".join(map(_named, able))
    lost = f"up to {counted(most, 'record')} lost"
    return f"By itself a controller elects whichever of {names} is up first: {lost}."


def _named(choice: dict[str, Any]) -> str:
    return str(choice["path"]) if choice["node_id"] is None else f"node {choice['node_id']}"
