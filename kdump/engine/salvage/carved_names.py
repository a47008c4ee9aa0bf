"""Propose which partitions carved groups are of, by the names in the image's directory blocks.

A directory of a partition has the base offsets of its segments as names, and the log end in that of
its newest producer snapshot. A group whose logs begin and end there may be that partition; where
one name alone fits, it is proposed. Nothing is named by this: a proposal is for a person to check.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kdump.storage.names import parse_directory
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.engine.salvage.carved_joins import Group
    from kdump.storage.directory_blocks import DirectoryBlock

_BLOCK = 1024  # where a file may begin, in any file system that brokers are on
_NAMES_SHOWN = 8


class Directory(NamedTuple):
    """What blocks of one directory say, together."""

    name: str
    logs: frozenset[int]
    snapshots: frozenset[int]


class Proposal(NamedTuple):
    """Names that fit a group best, and why; one alone is proposed."""

    names: tuple[str, ...]
    why: str

    @property
    def name(self) -> str | None:
        """The one name that fits."""
        return self.names[0] if len(self.names) == 1 else None


def directories_of(blocks: Iterable[DirectoryBlock]) -> list[Directory]:
    """Put the blocks of each partition directory together with its name."""
    called: dict[int, str] = {}
    logs: dict[int, set[int]] = defaultdict(set)
    snapshots: dict[int, set[int]] = defaultdict(set)
    for block in blocks:
        for inode, name in block.directories.items():
            called.setdefault(inode, name)
        if block.inode:
            logs[block.inode] |= block.logs
            snapshots[block.inode] |= block.snapshots
    merged: dict[str, tuple[set[int], set[int]]] = {}
    for inode, name in called.items():
        parsed = parse_directory(name)
        if parsed is None or not (logs[inode] or snapshots[inode]):
            continue
        plain = f"{parsed.topic}-{parsed.partition}"
        bases, ends = merged.setdefault(plain, (set(), set()))
        bases |= logs[inode]
        ends |= snapshots[inode]
    return [
        Directory(name, frozenset(bases), frozenset(ends))
        for name, (bases, ends) in sorted(merged.items())
    ]


def starts_of(group: Group) -> list[int]:
    """Base offsets of a group's segments: as pages of indexes say, and where a file may begin."""
    return sorted(group.bases | {one.first for one in group.extents if not one.position % _BLOCK})


def propose(groups: Sequence[Group], directories: Sequence[Directory]) -> dict[int, Proposal]:
    """Find for each group, by its number, the names whose offsets fit it best."""
    found: dict[int, Proposal] = {}
    for number, group in enumerate(groups):
        starts, end = set(starts_of(group)), group.end
        scored = []
        for one in directories:
            begins = len(starts & one.logs)
            ends = end in one.snapshots
            if one.logs and min(one.logs) > group.extents[0].first:
                continue  # it has offsets that this log never had
            scored.append((begins + 2 * ends, begins, ends, one.name))
        most = max((score for score, *_ in scored), default=0)
        if not most:
            continue
        best = [each for each in scored if each[0] == most]
        _, begins, ends, _ = best[0]
        why = [f"{begins:,} base offset{'s' if begins != 1 else ''} of logs"] if begins else []
        why += ["the log end"] if ends else []
        names = tuple(name for *_, name in best)
        found[number] = Proposal(names[:_NAMES_SHOWN], " and ".join(why))
    return _without_rivals(found)


def _without_rivals(found: dict[int, Proposal]) -> dict[int, Proposal]:
    """Propose no name for two groups: each is then only one that may be meant."""
    owners: dict[str, list[int]] = defaultdict(list)
    for number, one in found.items():
        for name in one.names:
            owners[name].append(number)
    settled = True
    while settled:  # a name that is one group's alone is no other's
        settled = False
        for number, one in list(found.items()):
            if one.name is None or len(owners[one.name]) < 2:
                continue
            others = [each for each in owners[one.name] if each != number]
            if any(found[each].name == one.name for each in others):
                continue
            for each in others:
                rest = tuple(name for name in found[each].names if name != one.name)
                found[each] = found[each]._replace(names=rest)
            owners[one.name] = [number]
            settled = True
    return {number: one for number, one in found.items() if one.names}
