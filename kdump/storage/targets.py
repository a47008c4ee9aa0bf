"""Resolve paths to the files that a command reads, in order.

A path is a file, a partition directory or a data directory. What a directory is, its content
says before its name: `data-1` may be either.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any

from kdump.errors import (
    KdumpError,
    NothingToDo,
    PathError,
    StoreError,
    guard,
    path_errors,
    unforeseen,
)
from kdump.storage import names, places
from kdump.storage.data_directories import spread_all
from kdump.storage.local_log import LocalLog, looks_like_partition, with_next_base
from kdump.storage.log_dir import LOG_DIRS, LogDir
from kdump.storage.names import FileName, Kind
from kdump.storage.source import read_whole
from kdump.tuples import NamedTuple

#: Files that a whole partition does not stand for.
_ONLY_NAMED = (Kind.UNKNOWN, Kind.METADATA_SNAPSHOT)


class LogFile(NamedTuple):
    """One file to read.

    `next_base` is the base offset of the segment after it, if there is one; `active` says that it
    is the newest of a partition, which a broker may be writing to.
    """

    path: str
    name: FileName
    topic: str | None
    partition: int | None
    next_base: int | None
    active: bool


class Target(NamedTuple):
    """One partition, or what was named of it.

    `log` is None for files that belong to no partition; `whole` says that all of the partition is
    meant, not just a file of it.
    """

    topic: str | None
    partition: int | None
    path: str
    log: LocalLog | None
    files: tuple[LogFile, ...]
    whole: bool
    tier: object = None  # a Tier of kdump/broker/remote_log.py, if the partition is tiered

    def log_dir(self, seconds: float = 0.0) -> LogDir | None:
        """The data directory around it, listed once for all that lies in it; None: it cannot be.

        For so many `seconds` it is not asked whether it has changed.
        """
        return None if self.log is None else LOG_DIRS.find_parent(self.log.path, seconds)


class Selection(NamedTuple):
    """What narrows a data directory."""

    topic: str | None = None  # a glob
    partition: int | None = None
    retired: bool = False

    @classmethod
    def take(cls, asked: dict[str, Any]) -> Selection:
        """Take it out of all that is asked for."""
        return cls(**{name: asked.pop(name) for name in cls._fields if name in asked})

    @property
    def is_narrowed(self) -> bool:
        """Whether not all partitions are asked for."""
        return self.topic is not None or self.partition is not None

    def admits(self, topic: str | None, partition: int | None) -> bool:
        """Whether a partition is asked for; one without a name is, unless a name is asked for."""
        if self.topic is not None and not (topic and fnmatchcase(topic, self.topic)):
            return False
        return self.partition is None or partition == self.partition


EVERYTHING = Selection()


def resolve(
    paths: Iterable[str],
    selection: Selection,
    server_properties: str | None = None,
    *,
    loose: bool = False,
    listed: bool = True,
) -> Iterator[Target | KdumpError]:
    """Yield what lies under the paths, or an error for each path that cannot be read.

    A broker's own settings name its data directories where there are no paths. Nothing is yielded
    twice, however it is spelled, and nothing at all is an error too. `loose`: the files of a data
    directory that belong to no partition are asked for as well. `listed`: the files of a partition
    are asked for one by one.
    """
    LOG_DIRS.forget()
    found = False
    named = list(paths)
    if server_properties is not None and not named:
        named = data_directories(server_properties)
    every, unsearched = spread_all(named)
    failed = bool(unsearched)
    yield from unsearched
    once = _Once(every, selection)
    retired: list[str] = []
    for path in every:
        try:
            for item in guard(
                path, _resolve_one(path, selection, retired, loose=loose, listed=listed)
            ):
                found |= isinstance(item, Target)
                failed |= not isinstance(item, Target)
                if not isinstance(item, Target) or once.is_new(item):
                    yield item
        except (PathError, StoreError) as error:
            failed = True
            yield error
    if not found and not failed:
        what = ", ".join(named)
        yield NothingToDo(
            f"no partition under {what}" + _describe(selection) + _retired_words(retired)
        )


class _Once:
    """Tells what was seen before under another path or spelling of it."""

    def __init__(self, paths: list[str], selection: Selection) -> None:
        self._selection = selection
        self._several = len(paths) > 1
        self._seen: set[str] = set()
        self._directories = set(map(places.real, paths)) if self._several else set()

    def is_new(self, target: Target) -> bool:
        """Say whether a target is to be looked at; a file is not, where its directory will be."""
        if not self._several:
            return True
        place = places.real(target.path)
        if place in self._seen or (not target.whole and self._comes_whole(target, place)):
            return False
        self._seen.add(place)
        return True

    def _comes_whole(self, target: Target, place: str) -> bool:
        file = target.files[0].name
        log = target.log
        if log is None or file.kind in _ONLY_NAMED or (file.is_retired and not self._is_retired):
            return False
        directory = places.parent(place)
        if not self._selection.admits(log.topic, log.partition):
            return False
        if directory in self._directories:
            return True
        is_live = log.name is not None and (log.name.retirement is None or self._is_retired)
        return is_live and places.parent(directory) in self._directories

    @property
    def _is_retired(self) -> bool:
        return self._selection.retired


def data_directories(server_properties: str) -> list[str]:
    """Return the data directories a broker's own settings name, each once."""
    from kdump.storage.properties import java_properties

    text = read_whole(server_properties, 1 << 20).decode("utf-8", "replace")
    settings = dict(java_properties(text))
    named = settings.get("log.dirs") or settings.get("log.dir") or ""
    directories = [part.strip() for part in named.split(",")]
    directories.append(settings.get("metadata.log.dir", "").strip())
    unique = list(dict.fromkeys(filter(None, directories)))
    if not unique:
        raise PathError(server_properties, "does not set log.dirs or log.dir")
    for path in unique:
        if "\0" in path:
            raise PathError(server_properties, f"names a directory with a null character: {path!r}")
    return unique


def _describe(selection: Selection) -> str:
    asked = []
    if selection.topic is not None:
        asked.append(f"topic {selection.topic!r}")
    if selection.partition is not None:
        asked.append(f"partition {selection.partition}")
    return f" that matches {' and '.join(asked)}" if asked else ""


def _retired_words(retired: list[str]) -> str:
    """Say that there is something after all, and how to ask for it."""
    if not retired:
        return ""
    more = f" and {len(retired) - 1:,} more" if len(retired) > 1 else ""
    return f"; {retired[0]}{more} can be read with --retired"


def _resolve_one(
    path: str, selection: Selection, retired: list[str], *, loose: bool, listed: bool
) -> Iterator[Target | KdumpError]:
    """Yield what lies under one path; what is passed over as retired goes to a list."""
    if not places.isdir(path):
        yield _file(path)
        return
    with path_errors(path):
        entries = places.listdir(path)
    log = LocalLog(path, entries)
    has_segments = looks_like_partition(entries)
    if has_segments:
        if selection.admits(log.topic, log.partition):
            yield _partition(log, selection, listed=listed)
        # A stray segment in a data directory must not hide the partitions in it.
        if not any(map(names.parse_directory, entries)):
            return
    directory = LogDir.open(path)
    yield from _report_unknown(directory, selection)
    if not has_segments and not directory.partitions and log.name is not None:
        yield _partition(log, selection, listed=listed)
        return
    if (
        loose
        and not has_segments
        and directory.files
        and selection.topic is None
        and selection.partition is None
    ):
        yield Target(None, None, path, None, tuple(_loose(directory.files)), whole=True)
    wanted = []
    for name, at in directory.partitions:
        if not selection.admits(name.topic, name.partition):
            continue
        if name.retirement is not None and not selection.retired:
            retired.append(os.path.basename(at))
            continue
        wanted.append(at)
    for at, opened in places.ask_ahead(LocalLog.open, wanted):
        try:
            yield _partition(opened(), selection, listed=listed)
        except PathError as error:
            if places.lexists(at):
                yield error  # else it vanished between listing and looking
        except KdumpError:
            raise
        except Exception as error:
            of = names.parse_directory(os.path.basename(at))
            assert of is not None
            yield unforeseen(at, error, topic=of.topic, partition=of.partition)


def _report_unknown(directory: LogDir, selection: Selection) -> Iterator[PathError]:
    """Report entries that may be partitions or not, where such a one is asked for."""
    for name, error in directory.unknown:
        if name is not None and name.retirement is not None and not selection.retired:
            continue
        if selection.admits(name and name.topic, name and name.partition):
            yield error


def _loose(files: list[str]) -> Iterator[LogFile]:
    """The files of a data directory itself; its `.checkpoint` is no partition's log."""
    for path in files:
        name = names.parse(os.path.basename(path))
        if name.kind not in (Kind.UNKNOWN, Kind.METADATA_SNAPSHOT) and not name.is_retired:
            yield LogFile(path, name, None, None, None, active=False)


def _partition(log: LocalLog, selection: Selection, *, listed: bool) -> Target:
    files: list[LogFile] = []
    topic, partition = log.topic, log.partition
    if not listed:
        return Target(topic, partition, log.path, log, (), whole=True)
    next_bases = {one.base_offset: following for one, following in with_next_base(log.logs)}
    for segment in log.segments:
        following = next_bases.get(segment.base_offset)
        active = segment is log.segments[-1]
        for path in segment.files.values():
            name = names.parse(os.path.basename(path))
            files.append(LogFile(path, name, topic, partition, following, active))
    files.extend(
        LogFile(path, name, topic, partition, None, active=False) for name, path in log.others
    )
    if selection.retired:
        files.extend(
            LogFile(path, name, topic, partition, None, active=False) for name, path in log.retired
        )
    return Target(topic, partition, log.path, log, tuple(files), whole=True)


def _file(path: str) -> Target:
    """Stand a single file in its partition: its name and its neighbours say where it belongs."""
    try:
        places.stat(path)
    except OSError as error:
        raise PathError.from_os(path, error) from error
    except ValueError as error:  # a null character
        raise PathError(path, str(error)) from error
    name = names.parse(places.file_name(path))
    parent = os.path.dirname(path) or "."
    log: LocalLog | None = None
    following: int | None = None
    active = False
    if name.kind in names.SEGMENT_KINDS or names.parse_directory(_name_of(parent)):
        try:
            log = LocalLog.open(parent)
        except PathError:
            log = None
    if log is not None and name.base_offset is not None and not name.is_retired:
        bases = [segment.base_offset for segment in log.logs]
        following = min((base for base in bases if base > name.base_offset), default=None)
        active = following is None
    topic = log.topic if log else None
    partition = log.partition if log else None
    file = LogFile(path, name, topic, partition, following, active)
    return Target(topic, partition, path, log, (file,), whole=False)


def _name_of(directory: str) -> str:
    return os.path.basename(places.absolute(directory))
