"""Segments in tiered storage, as partitions: LocalTieredStorage's names, and Aiven's.

Both store a segment's files as they were, under its base offset and the segment's id, in a
directory that is named for topic, partition and topic id.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable
from functools import cache
from itertools import zip_longest

from kdump.storage import names
from kdump.storage.names import Kind
from kdump.stores.view_store import Member

_ID = "[A-Za-z0-9_-]{22}"
_TOPIC, _PARTITION = r"(?P<topic>[A-Za-z0-9._-]+)", r"(?P<partition>\d+)"
#: Nearly all names are shorter than one with an id: those are not looked at, and most starts make
#: none of these patterns.
_ID_SIZE = 22


@cache
def _file_pattern() -> re.Pattern[str]:
    return re.compile(
        rf"(?P<base>\d{{20}})-(?P<id>{_ID})\."
        rf"(?:(?P<what>log|index|timeindex|txnindex|snapshot)|{names.LEADER_EPOCH_CHECKPOINT}"
        r"|leader_epoch_checkpoint)\Z"
    )


@cache
def _place_patterns() -> tuple[re.Pattern[str], ...]:
    return (
        re.compile(rf"{_TOPIC}-{_PARTITION}-{_ID}\Z"),
        re.compile(rf"{_ID}-{_PARTITION}-{_TOPIC}\Z"),
        re.compile(rf"{_TOPIC}-{_ID}/{_PARTITION}\Z"),
    )


@cache
def _perhaps_pattern() -> re.Pattern[str]:
    """Return what a directory of such directories has in it; most others are not looked into."""
    return re.compile(rf"-{_ID}\Z|\A{_ID}-\d")


def _file(name: str) -> re.Match[str] | None:
    return _file_pattern().match(name) if len(name) > _ID_SIZE else None


def _may_be_place(name: str) -> bool:
    return len(name) > _ID_SIZE and _perhaps_pattern().search(name) is not None


def is_of_a_tier(names: Iterable[str]) -> bool:
    """Whether a folder with these names in it holds segments of tiered storage."""
    return any(map(_file, names))


#: The objects of a whole segment, but for the epochs.
_WHOLE = frozenset(("log", "index", "timeindex", "snapshot"))


def find_tiered_members(
    path: str, finished: Callable[[], frozenset[str]] = frozenset
) -> tuple[dict[str, Member], list[str], list[str]] | None:
    """Return the files under a directory by the paths that brokers give them; None for another one.

    Of two segments with one start offset that is taken which is `finished` by the metadata, where
    metadata is at hand; else the one with more of its objects, or more bytes. The logs of the
    others are named beside, and last what could not be read. A snapshot is named by the segment
    behind it: it has the state at the end of its own.
    """
    root = os.path.abspath(path)
    if _place(root) is None and not any(map(_may_be_place, _folders(root))):
        return None
    members: dict[str, Member] = {}
    others: list[str] = []
    problems: list[str] = []

    def fail(error: OSError) -> None:
        at = os.path.relpath(str(error.filename or root), root)
        problems.append(f"{at} was not searched: {error.strerror}")

    for folder, folders, files in os.walk(root, onerror=fail):
        folders.sort()
        place = _place(folder)
        segments: dict[int, dict[str, dict[str | None, Member]]] = {}
        for name in sorted(files):
            found = _file(name) if place is not None else None
            if found is None and not members and names.parse(name).kind is not Kind.UNKNOWN:
                return None  # a data directory, or a partition
            if found is None:
                continue
            at = os.path.join(folder, name)
            try:
                status = os.stat(at)
            except OSError as error:
                problems.append(f"{os.path.relpath(at, root)} was skipped: {error.strerror}")
                continue
            if not stat.S_ISREG(status.st_mode):
                problems.append(
                    f"{os.path.relpath(at, root)} was skipped: it is not a regular file"
                )
                continue
            member = Member(at, 0, status.st_size, status.st_mtime_ns)
            same = segments.setdefault(int(found["base"]), {})
            same.setdefault(found["id"], {})[found["what"]] = member
        chosen: dict[int, dict[str | None, Member]] = {}
        for base, same in segments.items():
            best = _best(same, finished) if len(same) > 1 else next(iter(same))
            chosen[base] = same[best]
            others += [next(iter(left.values())).file for key, left in same.items() if key != best]
        has_more = any(len(one) > 1 for one in chosen.values())
        for base in [base for base, one in chosen.items() if has_more and one.keys() == {"log"}]:
            others.append(chosen.pop(base)["log"].file)  # a copy that was never finished
        bases = sorted(chosen)
        for base, following in zip_longest(bases, bases[1:]):
            members |= {
                f"{place}/{inside}": member
                for what, member in chosen[base].items()
                if (inside := _name_inside(base, what, following)) is not None
            }
    return (members, others, problems) if members else None


def _best(same: dict[str, dict[str | None, Member]], finished: Callable[[], frozenset[str]]) -> str:
    ids = finished()

    def rank(segment_id: str) -> tuple[bool, int, int]:
        files = same[segment_id]
        size = files["log"].size if "log" in files else -1
        return segment_id in ids, len(_WHOLE & files.keys()), size

    return max(sorted(same), key=rank)


def _name_inside(base: int, what: str | None, following: int | None) -> str | None:
    """Return the name that a broker gives to a file of a segment; None where it has none."""
    if what is None:  # the last segment's has them all
        return names.LEADER_EPOCH_CHECKPOINT
    if what == "snapshot":
        return None if following is None else f"{following:0{names.DIGITS}d}.{what}"
    return f"{base:0{names.DIGITS}d}.{what}"


def is_tiered(folder: str, entries: Iterable[str]) -> bool:
    """Whether a directory has the name and the files of tiered storage."""
    return _place(folder) is not None and any(map(_file, entries))


def _folders(root: str) -> list[str]:
    try:
        with os.scandir(root) as entries:
            return [entry.name for entry in entries if entry.is_dir()]
    except OSError:
        return []


def _place(folder: str) -> str | None:
    above, name = os.path.split(folder)
    both = f"{os.path.basename(above)}/{name}"
    for pattern in _place_patterns() if len(both) > _ID_SIZE else ():
        found = pattern.match(name) or pattern.match(both)
        if found is not None:
            return names.directory_name(found["topic"], int(found["partition"]))
    return None
