"""Plan how a group is moved past the damage of many partitions: one offset for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kdump.findings.commands import reset_command
from kdump.findings.shell import BOOTSTRAP, FILE, GROUP, format_command, refused_topic, topic_word
from kdump.output.amounts import counted
from kdump.output.sink import Sink

if TYPE_CHECKING:
    from kdump.findings.finding import Finding
    from kdump.output.messages import Messages
    from kdump.output.sink import Item

#: A command spells out a plan for so many partitions.
SPELLED = 100
_COMMANDS_SHOWN = 20


class WaysPast:
    """Keeps, for each partition, the offsets from which a broker serves behind damage.

    A plan has one offset for each partition: the lowest of these, because consumers stop at the
    first damage. Behind that one a group stops at the next, and only then is it to be moved again.
    """

    def __init__(self) -> None:
        #: By topic and partition: the offset served behind damage, and where consumers stop.
        self.places: dict[tuple[str, int], dict[int, int | None]] = {}

    def add(self, finding: Finding) -> None:
        """Take note of the way past a damage, if there is one that a plan can have."""
        topic, served = finding.topic, finding.served_from
        if topic is None or served is None or finding.partition is None or refused_topic(topic):
            return
        stops = self.places.setdefault((topic, finding.partition), {})
        known = [at for at in (stops.get(served), finding.offset) if at is not None]
        stops[served] = min(known, default=None)

    def lines(self) -> list[str]:
        """Return the lines of a plan."""
        places = sorted(self.places.items())
        return [f"{topic},{partition},{min(stops)}" for (topic, partition), stops in places]

    def in_plan(self, finding: Finding) -> bool:
        """Whether one plan for several partitions moves a group past this damage."""
        if len(self.places) < 2 or finding.topic is None or finding.partition is None:
            return False
        stops = self.places.get((finding.topic, finding.partition))
        return stops is not None and min(stops) == finding.served_from


def plan_commands(ways: WaysPast, long: str) -> tuple[str, str, str]:
    """Format the commands that show where a group stands, write a plan, and carry it out.

    A plan of few partitions is spelled out: nothing is to be read again, and a line is deleted
    before it is written. `long` writes the plan of more.
    """
    tool = ("kafka-consumer-groups.sh", "--bootstrap-server", BOOTSTRAP, "--group", GROUP)
    lines = ways.lines()
    return (
        format_command((*tool, "--describe")),
        format_command(("printf", "%s\\n", *lines), into=FILE) if len(lines) <= SPELLED else long,
        format_command((*tool, "--reset-offsets", "--from-file", FILE, "--execute")),
    )


def plan_words(ways: WaysPast) -> str:
    """Say what a plan does, and where it does harm."""
    many = sum(len(stops) > 1 for stops in ways.places.values())
    words = (
        "One reset file moves a group, while it has no member, past the first damage of "
        f"{counted(len(ways.places), 'partition')}. Leave out the partitions where the group "
        "does not stop at that damage: there, records would be skipped or read again."
    )
    if many:
        words += (
            f" In {counted(many, 'partition')} more damage follows; its commands are for later."
        )
    return words


class DamagePlan(Sink):
    """Writes TOPIC,PARTITION,OFFSET for each partition with damage that a broker serves behind."""

    def __init__(self, write: Callable[[bytes], object], messages: Messages) -> None:
        self._write, self._messages = write, messages
        self._ways = WaysPast()
        self._refused: dict[str, None] = {}
        self._unserved: dict[str, int | None] = {}

    def write(self, item: Item) -> None:
        """Leave out rows: a plan is made of findings."""

    def finding(self, finding: Finding) -> None:
        """Take note of damage."""
        self._ways.add(finding)
        if finding.topic is not None and finding.served_by is not None:
            if why := refused_topic(finding.topic):
                self._refused[why] = None
            elif finding.served_from is None:
                self._unserved.setdefault(f"{finding.topic}-{finding.partition}", finding.offset)

    def finish(self) -> None:
        """Write the lines."""
        for line in self._ways.lines():
            self._write(f"{line}\n".encode())

    def sum_up(self) -> None:
        """Say where a group has to stand for each line, and what no line is for."""
        tell = self._messages.line
        later: list[tuple[str, int, int, int | None]] = []
        for (topic, partition), stops in sorted(self._ways.places.items()):
            first, *others = sorted(stops)
            tell(f"kdump: {topic}-{partition}: from the damage{_at(stops[first])} to {first}")
            later += [(topic, partition, served, stops[served]) for served in others]
        for topic, partition, served, at in later[:_COMMANDS_SHOWN]:
            command = format_command(reset_command(GROUP, topic_word(topic, partition), served))
            tell(f"kdump: {topic}-{partition}: not in the plan, more damage{_at(at)}: {command}")
        if len(later) > _COMMANDS_SHOWN:
            more = counted(len(later) - _COMMANDS_SHOWN, "damage")
            tell(f"kdump: not in the plan: {more} more; --format jsonl lists them")
        for place, at in self._unserved.items():
            tell(f"kdump: left out: {place}: a broker serves nothing after the damage{_at(at)}")
        for why in self._refused:
            tell(f"kdump: left out: {why}")
        if self._ways.places:
            tell(f"kdump: {plan_words(self._ways)}")
        else:
            tell(
                "kdump: the plan is empty: no damage was found after which a broker serves records"
            )


def _at(offset: int | None) -> str:
    return "" if offset is None else f" at offset {offset}"
