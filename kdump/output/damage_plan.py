"""Plan how a group is moved past the damage of many partitions: one offset for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from kdump.findings.commands import reset_command
from kdump.findings.shell import (
    BOOTSTRAP,
    FILE,
    GROUP,
    explain_refused_topic,
    format_command,
    topic_word,
)
from kdump.output.amounts import count_text
from kdump.output.row_tables import name_of
from kdump.output.sink import Sink
from kdump.rows.verify import WayPast

if TYPE_CHECKING:
    from kdump.findings.finding import Finding
    from kdump.output.messages import Messages
    from kdump.output.sink import Item

#: A command spells out a plan for so many partitions.
SPELLED = 100
_COMMANDS_SHOWN = 20


def firsts(ways: Iterable[WayPast]) -> list[WayPast]:
    """Return the way past the first damage of each partition that a plan can name."""
    return [row for row in ways if row.first and not explain_refused_topic(row.topic)]


def plan_commands(planned: Sequence[WayPast], long: str) -> tuple[str, str, str]:
    """Format the commands that show where a group stands, write a plan, and carry it out.

    A plan of few partitions is spelled out: nothing is to be read again, and a line is deleted
    before it is written. `long` writes the plan of more.
    """
    tool = ("kafka-consumer-groups.sh", "--bootstrap-server", BOOTSTRAP, "--group", GROUP)
    lines = [f"{row.topic},{row.partition},{row.offset}" for row in planned]
    return (
        format_command((*tool, "--describe")),
        format_command(("printf", "%s\\n", *lines), into=FILE) if len(lines) <= SPELLED else long,
        format_command((*tool, "--reset-offsets", "--from-file", FILE, "--execute")),
    )


def plan_words(ways: Sequence[WayPast], plan: str = "This file moves") -> str:
    """Describe the effect of a plan, and where it does harm."""
    planned = firsts(ways)
    later = {(row.topic, row.partition) for row in ways if not row.first}
    many = sum((row.topic, row.partition) in later for row in planned)
    words = (
        f"{plan} a group without active members past the first damage of "
        f"{count_text(len(planned), 'partition')}. Leave out partitions where the group is not "
        "stuck at that damage: there, it would skip records or read them twice."
    )
    if many:
        words += (
            f" In {count_text(many, 'partition')} more damage follows; its commands come later."
        )
    return words


class DamagePlan(Sink):
    """Writes TOPIC,PARTITION,OFFSET for each partition with damage that a broker serves behind."""

    def __init__(self, write: Callable[[bytes], object], messages: Messages) -> None:
        self._write, self._messages = write, messages
        self._ways: list[WayPast] = []
        self._refused: dict[str, None] = {}
        self._unserved: dict[str, int | None] = {}

    def write(self, item: Item) -> None:
        """Keep the ways past damage."""
        if isinstance(item, WayPast) and not explain_refused_topic(item.topic):
            self._ways.append(item)

    def finding(self, finding: Finding) -> None:
        """Take note of damage that no line is for."""
        if finding.topic is not None and finding.served_by is not None:
            if why := explain_refused_topic(finding.topic):
                self._refused[why] = None
            elif finding.served_from is None:
                self._unserved.setdefault(f"{finding.topic}-{finding.partition}", finding.offset)

    def finish(self) -> None:
        """Write the lines."""
        for row in firsts(self._ways):
            self._write(f"{row.topic},{row.partition},{row.offset}\n".encode())

    def sum_up(self) -> None:
        """Say where a group has to stand for each line, and what no line is for."""
        tell = self._messages.line
        for row in firsts(self._ways):
            tell(f"kdump: {name_of(row)}: from the damage{_at(row.stops_at)} to {row.offset}")
        later = [row for row in self._ways if not row.first]
        for row in later[:_COMMANDS_SHOWN]:
            words = reset_command(GROUP, topic_word(row.topic, row.partition), row.offset)
            where = f"more damage{_at(row.stops_at)}"
            tell(f"kdump: {name_of(row)}: not in the plan, {where}: {format_command(words)}")
        if len(later) > _COMMANDS_SHOWN:
            more = count_text(len(later) - _COMMANDS_SHOWN, "damage")
            tell(f"kdump: not in the plan: {more} more; --format jsonl lists them")
        for place, at in self._unserved.items():
            tell(f"kdump: left out: {place}: no broker serves anything after the damage{_at(at)}")
        for why in self._refused:
            tell(f"kdump: left out: {why}")
        if self._ways:
            tell(f"kdump: {plan_words(self._ways)}")
        else:
            tell("kdump: nothing to reset: no damage found that a group can be moved past")


def _at(offset: int | None) -> str:
    return "" if offset is None else f" at offset {offset}"
