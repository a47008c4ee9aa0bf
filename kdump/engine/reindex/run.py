"""Run `reindex`: plan what recovery would write and, if asked, write it.

One walk over each segment's log builds what a broker's recovery would write and holds what is
there against the log. Sound files are left alone. Where the log itself is damaged so that a broker
would cut it, nothing is built unless asked for: an index of the sound part hides the rest.

Offset checkpoints: no log tells a high watermark, a recovery point, or how far records were
deleted. What the logs do tell is which lines cannot be true. So a file is written anew from its
good lines: those of partitions that are here, with an offset from 0 to the log's end. A broker
takes what is left out for 0, or for the start of the log.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING

from kdump.broker.index_builder import Rules
from kdump.engine.reindex import replace
from kdump.engine.reindex.index_writer import Facts, IndexWriter
from kdump.engine.reindex.options import Job, ReindexOptions
from kdump.engine.reindex.refusals import refuse_file, refuse_locked, refuse_partition
from kdump.engine.reindex.rows import RESTORE, RESTORED, WORDS, reindex_row
from kdump.errors import KdumpError, PathError, RefusedError, guard, path_errors
from kdump.findings.rows import Place
from kdump.replay.topic_settings import TopicSettings, topic_settings
from kdump.storage import checkpoints, names, places
from kdump.storage.log_dir import LogDir
from kdump.storage.names import Kind
from kdump.storage.source import read_whole
from kdump.storage.targets import Selection, Target, resolve

if TYPE_CHECKING:
    from kdump.engine.reindex.options import Item
    from kdump.storage.checkpoints import PartitionOffset
    from kdump.storage.local_log import LocalLog


_KIND_OF = {word: kind for kind, word in WORDS.items()}


def kinds_of(words: str) -> frozenset[Kind]:
    """Read the words of `--only`; ValueError with the end of a sentence for another word."""
    kinds = set()
    for word in filter(None, (word.strip() for word in words.split(","))):
        if word not in _KIND_OF:
            raise ValueError(f"has {word!r}, which is not one of {', '.join(_KIND_OF)}")
        kinds.add(_KIND_OF[word])
    if not kinds:
        raise ValueError(f"does not contain any of {', '.join(_KIND_OF)}")
    return frozenset(kinds)


def reindex(paths: Iterable[str], options: ReindexOptions) -> Iterator[Item]:
    """Yield a `reindex` row for each file looked at, findings about the logs, and errors."""
    paths = list(paths)
    asked = {
        "index_interval_bytes": options.index_interval_bytes,
        "index_size_max_bytes": options.max_index_bytes,
    }
    given = options.server_properties
    topics = topic_settings(
        given,
        paths,
        asked,
        configs=options.configs,
        from_disk=options.topic_configs,
        broker_version=options.broker_version,
    )
    utc = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    directories: dict[str, None] = {}
    for job in guard("the plan", _jobs(paths, options)):
        if isinstance(job, KdumpError):
            yield job
            continue
        directories[os.path.dirname(os.path.abspath(job.target.path))] = None
        items = _of_partition(job, options, topics, utc)
        target = job.target
        yield from _until_an_error(target.path, items, target.topic, target.partition)
    if Kind.OFFSET_CHECKPOINT in options.only:
        for directory in directories:
            yield from _until_an_error(directory, _of_directory(directory, options, utc))


def _until_an_error(
    path: str, items: Iterator[Item], topic: str | None = None, partition: int | None = None
) -> Iterator[Item]:
    try:
        yield from guard(path, items, topic=topic, partition=partition)
    except PathError as error:
        yield error


def _of_partition(
    job: Job, options: ReindexOptions, topics: TopicSettings, utc: str
) -> Iterator[Item]:
    if options.undo:
        from kdump.engine.reindex.run import undo

        assert job.target.log is not None
        yield from undo(job.target.log.path, job.target.log, job.bases, options)
        return
    if not job.kinds - {Kind.OFFSET_CHECKPOINT}:
        return
    from kdump.engine.reindex.partition import Partition

    settings = topics.of(job.target.path, job.target.topic)
    oldest, newest = topics.releases.range_of(places.parent(job.target.path))
    rules = Rules(newest, settings, options.decompress_limit)
    older = None if oldest == newest else rules._replace(broker=oldest)
    yield from Partition(job, options, rules, utc, older).items()


def _of_directory(directory: str, options: ReindexOptions, utc: str) -> Iterator[Item]:
    if options.undo:
        from kdump.engine.reindex.run import undo

        yield from undo(directory, None, None, options)
        return
    from kdump.engine.reindex.run import offset_checkpoints

    yield from offset_checkpoints(directory, options, utc)


def _jobs(paths: Iterable[str], options: ReindexOptions) -> Iterator[Job | KdumpError]:
    """Gather the files named of one partition; each partition is worked on once."""
    resolved = resolve(paths, options.selection, options.server_properties, listed=False)
    seen: set[str] = set()
    for place, group in groupby(resolved, _place_of):
        targets = []
        for item in group:
            if isinstance(item, Target):
                targets.append(item)
            else:
                yield item
        if not targets:
            continue
        if targets[0].log is None or not (targets[0].whole or _is_of_segment(targets[0])):
            yield PathError(targets[0].path, "is neither a partition nor a segment")
        elif place not in seen or not targets[0].whole:
            seen.add(place)
            yield _job(targets, options)


def _place_of(item: Target | KdumpError) -> str:
    if isinstance(item, KdumpError) or item.log is None:
        return ""
    return os.path.realpath(item.log.path)


def _is_of_segment(target: Target) -> bool:
    name = target.files[0].name
    return not name.is_retired and (name.kind is Kind.LOG or name.kind in WORDS)


def _job(targets: list[Target], options: ReindexOptions) -> Job:
    """Make one job of files of a partition: a log stands for its indexes, an index for itself."""
    target = targets[0]
    assert target.log is not None
    whole = target._replace(path=target.log.path, whole=True)
    if any(one.whole for one in targets):
        return Job(whole, None, options.only)
    files = [file.name for one in targets for file in one.files]
    kinds = {file.kind for file in files}
    bases = frozenset(file.base_offset for file in files if file.base_offset is not None)
    asked = options.only if Kind.LOG in kinds else options.only & kinds
    if Kind.LEADER_EPOCHS in kinds:
        return Job(whole, None, asked | {Kind.LEADER_EPOCHS})
    return Job(whole, bases, asked - {Kind.LEADER_EPOCHS})


def undo(
    path: str, log: LocalLog | None, bases: frozenset[int] | None, options: ReindexOptions
) -> Iterator[Item]:
    """Yield a row for each backup of the newest run in a directory, put back if asked to write.

    `log` is the partition that it is, `bases` the segments asked for. Of a run that was undone in
    part the rest is put back; then the run before is the newest.
    """
    with path_errors(path):
        entries = os.listdir(path)
    backups = [
        backup
        for backup in replace.backups_among(entries)
        if names.parse(backup.original).kind in WORDS
        and (bases is None or names.parse(backup.original).base_offset in bases)
    ]
    chosen = sorted(backup for backup in backups if backup.utc == backups[0].utc)
    if not options.write:
        yield from (_row(path, log, backup, RESTORE) for backup in chosen)
        return
    if not chosen:
        return
    with replace.open_directory(path) as directory:
        for backup in chosen:
            at = os.path.join(path, backup.name)
            try:
                refuse_file(at, at)
                if log is None:
                    refuse_locked(os.path.realpath(path))
                else:
                    refuse_partition(path)
                directory.restore(backup)
            except RefusedError as error:
                yield error
            else:
                yield _row(path, log, backup, RESTORED)


def _row(path: str, log: LocalLog | None, backup: replace.Backup, action: str) -> Item:
    name = names.parse(backup.original)
    topic, partition = (None, None) if log is None else (log.topic, log.partition)
    return reindex_row(
        Place(topic, partition, name.base_offset, os.path.join(path, backup.original)),
        name.kind,
        action,
        f"backed up at {backup.utc}",
        backup=os.path.join(path, backup.name),
    )


_LEFT_OUT = {
    names.REPLICATION_CHECKPOINT: "has its high watermark at the log start until replicas report",
    names.RECOVERY_POINT_CHECKPOINT: "is recovered completely after the next unclean shutdown",
    names.LOG_START_CHECKPOINT: "starts at its first segment: deleted records may reappear",
    names.CLEANER_CHECKPOINT: "is compacted from its start again",
}


def offset_checkpoints(path: str, options: ReindexOptions, utc: str) -> Iterator[Item]:
    """Yield a row for each offset checkpoint of a data directory that a broker cannot read."""
    directory = LogDir.open(path)
    ends: dict[tuple[str, int], int] | None = None
    with ExitStack() as stack:
        writer: IndexWriter | None = None
        for at in directory.files:
            name = os.path.basename(at)
            if name not in _LEFT_OUT:
                continue
            before = read_whole(at, checkpoints.SIZE_LIMIT)
            found = checkpoints.parse_offsets(before)
            if not found.problems:
                continue
            if ends is None or writer is None:
                ends = dict(_log_ends(path))
                writer = stack.enter_context(IndexWriter(path, options, utc, of_partition=False))
            kept = _believable(found.entries, ends)
            problem = found.problems[0]
            reason = (
                f"{problem.actual!r} where {problem.expected} is expected; {len(kept)} of "
                f"{len(ends)} entries can be rebuilt. A partition without an entry "
                f"{_LEFT_OUT[name]}"
            )
            place, kind = Place(None, None, None, at), Kind.OFFSET_CHECKPOINT
            after, entries = checkpoints.text_of(kept), len(found.entries)
            yield writer.apply(Facts(at, place, kind, before, after, reason, None, entries), None)


def _log_ends(path: str) -> Iterator[tuple[tuple[str, int], int]]:
    """Give the log end of each live partition that can be read."""
    from kdump.broker.lookup_records import BrokerError
    from kdump.broker.partition import PartitionView

    for target in resolve([path], Selection(), listed=False):
        if not isinstance(target, Target) or target.log is None or target.log.name is None:
            continue
        view = PartitionView(target)
        try:
            yield (target.log.name.topic, target.log.name.partition), view.log_end
        except (PathError, BrokerError, KdumpError):
            continue
        finally:
            view.close()


def _believable(
    entries: list[PartitionOffset], ends: dict[tuple[str, int], int]
) -> list[PartitionOffset]:
    """Keep of each partition the last line that can be true."""
    kept: dict[tuple[str, int], PartitionOffset] = {}
    for entry in entries:
        key = (entry.topic, entry.partition)
        if 0 <= entry.offset <= ends.get(key, -1):
            kept[key] = entry
    return list(kept.values())
