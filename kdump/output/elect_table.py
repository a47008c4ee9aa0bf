"""Print the choices of `elect` for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.findings.shell import BOOTSTRAP, format_command
from kdump.output.amounts import count_text, seconds_text
from kdump.output.column_widths import Column, Columns, amount, folding_column, number
from kdump.output.copy_names import CopyNames
from kdump.output.escape import visible
from kdump.output.grid import table_lines
from kdump.output.report import Page, TextReport
from kdump.output.row_tables import name_of, oldest_text
from kdump.output.strip import Extent, strip_lines
from kdump.rows.compare import Choice, ElectSummary, ReplicaElection

if TYPE_CHECKING:
    from kdump.output.sink import Item
    from kdump.rows.verify import NodesInOrder

_INDENT = " " * 4
_RULES = {
    "raft": "by the Raft rule",
    "in-sync": "by the metadata log",
    "longest-log": "by the logs alone",
}


def _role(choice: Choice) -> str:
    if choice["refused"] is not None:
        return "does not start"
    if choice["voter"] is not None:
        return (
            ("voter" if choice["electable"] else "voter, not electable")
            if choice["voter"]
            else ("no voter")
        )
    return {True: "in sync", False: "not in sync", None: ""}[choice["in_sync"]]


_CHOICES: Columns = (
    amount("node", lambda choice: "" if choice["node_id"] is None else str(choice["node_id"])),
    Column("role", _role),
    number("epoch", "last_epoch"),
    number("log end", "log_end"),
    amount("records lost", lambda choice: f"{choice['records_lost']:,}"),
)


#: Partitions that are shown one by one, the worst first.
_SHOWN = 20
_UNAVAILABLE = format_command((
    "kafka-topics.sh", "--bootstrap-server", BOOTSTRAP, "--describe", "--unavailable-partitions",
))  # fmt: skip


class ElectTable(TextReport):
    """Writes whom to choose and what every choice costs, the worst partition first, then one start
    order for all. Partitions that any replica may lead are counted.
    """

    def __init__(self, page: Page, *, quiet: bool) -> None:
        super().__init__(page, quiet=quiet)
        self._copies = CopyNames()
        self._matters: list[ReplicaElection] = []
        self._free: ReplicaElection | None = None  # the last that any replica may lead

    def write(self, item: Item) -> None:
        """Take one row."""
        if isinstance(item, ElectSummary):
            self._end(item)
        elif not isinstance(item, ReplicaElection):
            return
        elif item.any_may_lead:
            self._free = item
        else:
            self._matters.append(item)

    def finish(self) -> None:
        """Write what was held back where no summary came."""
        matters, self._matters = self._matters, []
        matters.sort(key=lambda one: (one.rule != "raft", -one.records_at_stake))
        every = (choice["path"] for row in matters[:_SHOWN] for choice in row.choices)
        if legend := [*self._copies.introduce(every)]:
            self._lines(legend)
            self._line()
        for row in matters[:_SHOWN]:
            self._election(row)
        if hidden := matters[_SHOWN:]:
            lost = count_text(sum(one.records_at_stake for one in hidden), "record")
            many = count_text(len(hidden), "more partition")
            self._line(f"{many} with up to {lost} at stake; --format jsonl lists all.")

    def _end(self, summary: ElectSummary) -> None:
        """Write everything: what matters first, then how to start."""
        is_alone = summary.partitions == 1
        if is_alone and self._free is not None:
            self._matters.append(self._free)
        self.finish()
        if summary.any_may_lead and not (is_alone or self._quiet):
            self._line(f"{count_text(summary.any_may_lead, 'partition')}: any replica may lead.")
        if summary.start_order and summary.start_order["steps"]:
            self._order(summary.start_order)
        if not self._quiet:
            self._summary(summary)

    def _order(self, order: NodesInOrder) -> None:
        many = count_text(order["partitions_at_stake"], "partition")
        of = f", for {many} of topics with records at stake" if many[0] != "0" else ""
        self._line(f"{self._word('Start order', None)}{of}:")
        for at, step in enumerate(order["steps"], 1):
            self._write_wrapped(visible(", ".join(step)), _INDENT, f"{at}. ")
        wait = "Start the nodes of one step together. Start the next step when every partition of "
        self._write_wrapped(f"{wait}this step has a leader.", _INDENT)
        self._line(f"{_INDENT}→ {_UNAVAILABLE}")
        if order["by_hand_count"]:
            many = count_text(order["by_hand_count"], "partition")
            text = f"{many}: no replica here is in sync, so none is elected in any order."
            self._write_wrapped(text, _INDENT)
        if order["losing_count"]:
            lost = count_text(order["records_lost"], "record")
            many = count_text(order["losing_count"], "partition")
            names = ", ".join(
                f"{one['topic']}-{one['partition']} ({one['records_lost']:,})"
                for one in order["losing"]
            )
            text = f"This order loses up to {lost} of {many}: {names}"
            more = order["losing_count"] - len(order["losing"])
            text += f", and {more:,} more." if more else "."
            text += " To keep them, first make a copy of all records."
            self._write_wrapped(visible(text), _INDENT)
            for command in order["commands"]:
                self._line(f"{_INDENT}→ {command}")
        self._line()

    def _election(self, row: ReplicaElection) -> None:
        name = row.leader if row.topic is None else name_of(row)
        node, copy = row.leader_node, self._copy(row, row.leader)
        who = copy if node is None else f"node {node}, {copy}"
        self._line(
            f"{self._word(visible(name), None)} → {who} ({_RULES[row.rule]}, {_release(row)})"
        )
        leads: Column[Choice] = folding_column(
            "if it leads", lambda choice: self._copy(row, choice["path"]), 11
        )
        columns = (leads, *_CHOICES)
        self._lines(table_lines(columns, row.choices, self._width - len(_INDENT)), _INDENT)
        extents = [
            Extent(self._copy(row, one["path"]), one["log_start"], one["log_end"])
            for one in row.choices
        ]
        self._lines(strip_lines(extents, self._width - len(_INDENT)), _INDENT)
        for choice in row.choices:
            if choice["changes_lost"]:
                changes = ", ".join(map(change_text, choice["changes_lost"].items()))
                text = self._name_copies(row, f"with {_name(choice)}: {changes}")
                self._write_wrapped(visible(text), _INDENT, "lost ")
            if choice["refused"] is not None:
                text = self._name_copies(row, f"{_name(choice)}: {choice['refused']}")
                self._write_wrapped(visible(text), _INDENT)
        if row.oldest is not None:
            self._write_wrapped(visible(self._name_copies(row, oldest_text(row.oldest))), _INDENT)
        if by_itself := _automatic_text(row):
            self._write_wrapped(visible(self._name_copies(row, by_itself)), _INDENT)
        self._write_wrapped(visible(self._name_copies(row, row.advice)), _INDENT)
        for command in row.commands:
            self._line(f"{_INDENT}→ {command}")
        self._line()

    def _copy(self, row: ReplicaElection, path: str) -> str:
        """Name a copy by its letter."""
        partition = "" if row.topic is None else name_of(row)
        return self._copies.of(path, partition)

    def _name_copies(self, row: ReplicaElection, text: str) -> str:
        partition = "" if row.topic is None else name_of(row)
        return self._copies.replace_paths(
            text, (choice["path"] for choice in row.choices), partition
        )

    def _summary(self, row: ElectSummary) -> None:
        many = count_text(row.partitions, "partition")
        stake = f"{row.at_stake:,} with records at stake"
        self._line(f"{many}, {stake}. {seconds_text(row.seconds)}.")
        self._line("Damage inside the logs was not checked: use kdump compare.")


def _release(row: ReplicaElection) -> str:
    """Name the releases that start on the replicas."""
    return f"Kafka {' or '.join(dict.fromkeys(one['broker_version'] for one in row.choices))}"


def change_text(change: tuple[str, int]) -> str:
    """Write how often something was changed: `3 topics created`."""
    words, count = change
    for verb in (" created", " deleted", " changed", " given out", " of a controller"):
        if words.endswith(verb):
            return count_text(count, words.removesuffix(verb)) + verb
    return count_text(count, words)


def _automatic_text(row: ReplicaElection) -> str:
    """Say whom a controller would elect, where that may be another one."""
    most = row.records_lost_alone
    if not most:
        return ""
    able = [choice for choice in row.choices if choice["in_sync"]]
    names = ", ".join(dict.fromkeys(map(_name, able)))
    if len(able) == 1:
        return f"The controller, by itself, elects {names}: {count_text(most, 'record')} lost."
    lost = f"up to {count_text(most, 'record')} lost"
    return f"The controller, by itself, elects whichever of {names} starts first: {lost}."


def _name(choice: Choice) -> str:
    return str(choice["path"]) if choice["node_id"] is None else f"node {choice['node_id']}"
