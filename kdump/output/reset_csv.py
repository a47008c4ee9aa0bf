"""Write files for `kafka-consumer-groups --reset-offsets --from-file` and `salvage --topic-map`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kdump.engine.find.reset import ANSWER, EARLIEST, LATEST, SKIP, is_refused_group, refuse_topic
from kdump.findings.rows import Row
from kdump.output.amounts import count_text, number_text, time_text
from kdump.output.escape import visible
from kdump.output.sink import Sink
from kdump.storage.names import parse_directory
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.output.messages import Messages
    from kdump.output.sink import Item
    from kdump.rows.salvage import CarvedGroup


_FALLBACKS_SHOWN = 20
#: Which of several answers for one partition a plan has: that of a record before an end of a log.
_RANK = {ANSWER: 0, LATEST: 1, EARLIEST: 1}
_ENDS = {LATEST: "the log end", EARLIEST: "the log start"}


class _Line(NamedTuple):
    offset: int
    to: str


class ResetCsv(Sink):
    """Writes one line for each lookup that has an answer; messages name every other one.

    Or for each committed offset; with `has_groups` it begins with the group, as the tool has it for
    several. The tool refuses a file that names a partition twice, so of replicas one line is
    written: the answer that is a record, of several the lowest, of log ends the highest.
    """

    def __init__(
        self, write: Callable[[bytes], object], messages: Messages, *, has_groups: bool = False
    ) -> None:
        self._write = write
        self._messages = messages
        self._has_groups = has_groups
        self._lines: dict[str, _Line] = {}
        self._differing: set[str] = set()
        self._skipped: set[str] = set()
        self._left_out: set[str] = set()

    @property
    def is_partial(self) -> bool:
        """Whether partitions are left out that were not to be."""
        return bool(self._left_out - self._lines.keys())

    def write(self, item: Item) -> None:
        """Take one lookup, or one committed offset."""
        if not isinstance(item, Row):
            return
        topic, partition, error = (
            item.fields.get(name) for name in ("topic", "partition", "error")
        )
        tell = self._messages.line
        if topic is None:
            tell("kdump: left out: a partition whose directory name is not a valid topic")
            return
        if refused := refuse_topic(item):
            self._messages.finding(refused)
            return
        place = f"{topic},{partition}"
        if self._has_groups:
            group = str(item.fields["group"])
            if is_refused_group(group):
                tell(f"kdump: left out: group {group}: a reset plan cannot contain this name")
                return
            place = f"{group},{place}"
        offset, to = item.fields.get("reset_offset", item.fields["offset"]), ANSWER
        if "reset_to" in item.fields:
            to = str(item.fields["reset_to"])
        if isinstance(offset, int):
            self._keep(place, _Line(offset, to))
        elif to == SKIP:
            self._skipped.add(place)
            tell(f"kdump: left out: {topic}-{partition}: no answer")
        else:
            self._left_out.add(place)
            tell(f"kdump: left out: {topic}-{partition}: {error or 'no answer'}")

    def _keep(self, place: str, line: _Line) -> None:
        old = self._lines.setdefault(place, line)
        if old != line:
            self._differing.add(place)
        low = line.offset if line.to == ANSWER else -line.offset
        old_low = old.offset if old.to == ANSWER else -old.offset
        if (_RANK[line.to], low) < (_RANK[old.to], old_low):
            self._lines[place] = line

    def finish(self) -> None:
        """Write the lines."""
        for place, line in self._lines.items():
            self._write(f"{place},{line.offset}\n".encode("utf-8", "surrogateescape"))

    def sum_up(self) -> None:
        """Say how many lines are answers, and which are ends of logs."""
        tell = self._messages.line
        counts: Counter[str] = Counter()
        for place, (offset, to) in self._lines.items():
            counts[to] += 1
            if to != ANSWER and sum(counts.values()) - counts[ANSWER] <= _FALLBACKS_SHOWN:
                tell(f"kdump: {_name(place)}: no record found; reset to {_ENDS[to]}, {offset:,}")
        for place in sorted(self._differing):
            tell(
                f"kdump: {_name(place)}: replicas give different offsets; the plan has "
                f"{self._lines[place].offset:,}"
            )
        left = len((self._left_out | self._skipped) - self._lines.keys())
        if left or counts.keys() - {ANSWER}:
            words = [f"{counts[ANSWER]:,} at the record found"]
            words += [f"{counts[to]:,} at {name}" for to, name in _ENDS.items() if counts[to]]
            words += [f"{left:,} left out"] if left else []
            total = count_text(len(self._lines) + left, "partition")
            tell(f"kdump: reset plan: {total}: {', '.join(words)}")


def _name(place: str) -> str:
    topic, _, partition = place.rpartition(",")
    return f"{topic}-{partition}"


_SEGMENTS_SHOWN = 8


def map_text(groups: Mapping[str, tuple[str, CarvedGroup]]) -> bytes:
    """Give the text for groups of carved batches, with the partition that each is now."""
    lines = [
        "# Partitions of carved batches, for kdump carve --topic-map.",
        "# Check each line. Complete each line that begins with #, as GROUP,TOPIC-PARTITION.",
    ]
    for word, (name, one) in sorted(groups.items(), key=lambda each: int(each[0][7:])):
        lines += ["", f"# {word}: {_facts(one)}"]
        proposed = [each for each in one["proposed"] if parse_directory(each) is not None]
        if one["named_by"] is not None:
            lines += [f"# named by {one['named_by']}", f"{word},{name}"]
        elif len(proposed) == 1:
            lines += [f"# proposed by {one['proposed_by']}", f"{word},{proposed[0]}"]
        elif proposed:
            lines += [f"# one of {', '.join(proposed)}, by {one['proposed_by']}", f"# {word},"]
        else:
            lines.append(f"# {word},")
    return "".join(f"{visible(line)}\n" for line in lines).encode("utf-8", "backslashreplace")


def _facts(one: CarvedGroup) -> str:
    parts = [f"{number_text(one['size_bytes'])} bytes", "/".join(one["codecs"]) or "no codec"]
    first, last = one["first_timestamp_ms"], one["last_timestamp_ms"]
    if first is not None and last is not None:
        parts.append(f"from {time_text(first)} to {time_text(last)}")
    segments = one["segments"]
    if segments:
        shown = ", ".join(str(each) for each in segments[:_SEGMENTS_SHOWN])
        more = len(segments) - _SEGMENTS_SHOWN
        parts.append(f"logs begin at {shown}" + (f" and {more:,} more" if more > 0 else ""))
    if one["keys"]:
        parts.append("keys as " + ", ".join(one["keys"]))
    return "; ".join(parts)
