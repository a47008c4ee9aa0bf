"""Read checkpoint files: a version, a count, and as many lines of fields (X1 to X3).

    0                      version
    2                      how many lines follow
    orders 0 48230114      topic partition offset (or: epoch start-offset)
    orders 1 48229870

A broker refuses the whole file for one bad line, a wrong count or an empty line at the end; an
empty file is a file without entries. The file is replaced by a rename, so what a crash leaves is
an old one, not a torn one. Good lines of a bad file are still given here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from kdump.storage.problems import Problem
from kdump.tuples import NamedTuple

VERSION = 0
SIZE_LIMIT = 8 << 20  # a hundred thousand partitions and more; every line becomes an object
_CODE = "checkpoint-malformed"
_SHOWN = 200  # bytes of a bad line that a problem carries

_LINE_END = rb"\r\n|\n|\r"  # as BufferedReader.readLine
_JAVA_SPACES = re.compile(r"[ \t\n\x0b\f\r]+")
_JAVA_NUMBER = re.compile(r"[+-]?\d{1,30}\Z")  # digits of any script
_INT32, _INT64 = 1 << 31, 1 << 63
#: Entries as brokers write them, by numbers that surely fit, by how many fields each has.
_PLAIN = {
    2: rb"0\n([0-9]{1,9})\n((?:[0-9]{1,9} [0-9]{1,18}\n)*)\Z",
    3: rb"0\n([0-9]{1,9})\n((?:[A-Za-z0-9._-]+ [0-9]{1,9} [0-9]{1,18}\n)*)\Z",
}


class EpochStart(NamedTuple):
    """One line of a leader-epoch checkpoint."""

    epoch: int
    start_offset: int


class PartitionOffset(NamedTuple):
    """One line of an offset checkpoint of a data directory."""

    topic: str
    partition: int
    offset: int


Entry = TypeVar("Entry")


class Checkpoint(NamedTuple, Generic[Entry]):
    """What a checkpoint file holds. With any problem, a broker would read none of it."""

    version: int | None
    declared: int | None
    entries: list[Entry]
    problems: list[Problem]


def plain_words(data: bytes, fields: int) -> list[str] | None:
    """Give all fields of a file as brokers write it, with as many entries as it says, else None."""
    found = re.match(_PLAIN[fields], data)
    if found is None:
        return None
    words = found[2].decode("ascii").split()
    return words if len(words) == int(found[1]) * fields else None


def parse_leader_epochs(data: bytes) -> Checkpoint[EpochStart]:
    """Read a `leader-epoch-checkpoint` (X2); negative numbers are malformed."""
    if (words := plain_words(data, 2)) is not None:
        entries = list(map(EpochStart, map(int, words[::2]), map(int, words[1::2])))
        return Checkpoint(VERSION, len(entries), entries, [])
    return _parse(data, _epoch_start, "epoch start-offset, neither of them negative")


def parse_offsets(data: bytes) -> Checkpoint[PartitionOffset]:
    """Read one of the `*-offset-checkpoint` files of a data directory (X3)."""
    if (words := plain_words(data, 3)) is not None:
        numbers = map(int, words[1::3]), map(int, words[2::3])
        entries = list(map(PartitionOffset, words[::3], *numbers))
        return Checkpoint(VERSION, len(entries), entries, [])
    return _parse(data, _partition_offset, "topic partition offset")


def parse_other(data: bytes) -> Checkpoint[tuple[str, ...]]:
    """Read a checkpoint of unknown content: the fields of each line."""
    return _parse(data, _any_fields, "fields")


def load_epochs(entries: Iterable[EpochStart]) -> list[EpochStart]:
    """Say which epochs a broker holds after loading these (X2).

    Each entry removes those before it whose epoch or start offset is not below its own.
    """
    kept: list[EpochStart] = []
    for entry in entries:
        while kept and (
            kept[-1].epoch >= entry.epoch or kept[-1].start_offset >= entry.start_offset
        ):
            kept.pop()
        kept.append(entry)
    return kept


def text_of(entries: Iterable[tuple[object, ...]]) -> bytes:
    """Write a checkpoint file as brokers do (X1, X3)."""
    lines = [" ".join(map(str, entry)) for entry in entries]
    return ("\n".join(["0", str(len(lines)), *lines]) + "\n").encode("utf-8", "surrogateescape")


def _parse(
    data: bytes, convert: Callable[[list[str]], Entry | None], form: str
) -> Checkpoint[Entry]:
    entries: list[Entry] = []
    version = declared = None
    bad: Problem | None = None
    number = 0
    for number, (position, line) in enumerate(_lines(data), 1):
        text = line.decode("utf-8", "replace")
        if number == 1:
            version = java_int(text, _INT32)
            if version != VERSION:
                # Another version may be laid out in another way.
                bad = _note_problem(None, position, line, f"version {VERSION}")
                return Checkpoint(version, None, [], [bad])
        elif number == 2:
            declared = java_int(text, _INT32)
            if declared is None:
                bad = _note_problem(bad, position, line, "a count of entries")
        elif (entry := convert(split_like_java(text))) is None:
            bad = _note_problem(bad, position, line, form)
        else:
            entries.append(entry)
    problems = [] if bad is None else [bad]
    if number == 1:
        problems.append(Problem(_CODE, len(data), 0, "a count of entries", "end of file"))
    elif declared is not None and bad is None and declared != len(entries):
        expected, actual = f"{declared} entries", f"{len(entries)} entries"
        problems.append(Problem(_CODE, None, None, expected, actual))
    return Checkpoint(version, declared, entries, problems)


def _note_problem(found: Problem | None, position: int, line: bytes, expected: str) -> Problem:
    if found is not None:
        return found._replace(places=found.places + 1)
    shown = line[:_SHOWN].decode("utf-8", "replace")
    return Problem(_CODE, position, len(line), expected, shown)


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (position, line) as Java's readLine: nothing after a last line end is no line."""
    position = 0
    for end in re.finditer(_LINE_END, data):
        yield position, data[position : end.start()]
        position = end.end()
    if position < len(data):
        yield position, data[position:]


def split_like_java(text: str) -> list[str]:
    """Split at white space as Java does: a leading empty field stays, trailing ones go."""
    fields = _JAVA_SPACES.split(text)
    while fields and not fields[-1]:
        fields.pop()
    return fields


def java_int(text: str, limit: int = _INT64) -> int | None:
    """Read a number as `parseInt` or `parseLong` does; None where it would throw."""
    if _JAVA_NUMBER.match(text) is None:
        return None
    number = int(text)
    return number if -limit <= number < limit else None


def _epoch_start(fields: list[str]) -> EpochStart | None:
    if len(fields) != 2:
        return None
    epoch, start_offset = java_int(fields[0], _INT32), java_int(fields[1])
    if epoch is None or start_offset is None or epoch < 0 or start_offset < 0:
        return None
    return EpochStart(epoch, start_offset)


def _partition_offset(fields: list[str]) -> PartitionOffset | None:
    if len(fields) != 3:
        return None
    partition, offset = java_int(fields[1], _INT32), java_int(fields[2])
    if partition is None or offset is None:
        return None
    return PartitionOffset(fields[0], partition, offset)


def _any_fields(fields: list[str]) -> tuple[str, ...] | None:
    return tuple(fields) or None
