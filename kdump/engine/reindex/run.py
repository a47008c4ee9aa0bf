"""Run `reindex`: plan what recovery would write and, if asked, write it.

One walk over each segment's log builds what a broker's recovery would write and holds what is
there against the log. Sound files are left alone. Where the log itself is damaged so that a broker
would cut it, nothing is built unless asked for: an index of the sound part hides the rest.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING

from kdump.broker.index_builder import Rules
from kdump.engine.reindex.rows import WORDS
from kdump.errors import KdumpError, PathError, guarded
from kdump.replay.topic_settings import TopicSettings, topic_settings
from kdump.storage.names import Kind
from kdump.storage.targets import Target, resolve

if TYPE_CHECKING:
    from kdump.engine.reindex.options import Item
from kdump.engine.reindex.options import Job, ReindexOptions

_KIND_OF = {word: kind for kind, word in WORDS.items()}


def kinds_of(words: str) -> frozenset[Kind]:
    """Read the words of `--only`; ValueError with the end of a sentence for another word."""
    kinds = set()
    for word in filter(None, (word.strip() for word in words.split(","))):
        if word not in _KIND_OF:
            raise ValueError(f"has {word!r}, which is none of {', '.join(_KIND_OF)}")
        kinds.add(_KIND_OF[word])
    if not kinds:
        raise ValueError(f"names none of {', '.join(_KIND_OF)}")
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
        given, paths, asked, configs=options.configs, from_disk=options.topic_configs
    )
    utc = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    directories: dict[str, None] = {}
    for job in guarded("the plan", _jobs(paths, options)):
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
        yield from guarded(path, items, topic=topic, partition=partition)
    except PathError as error:
        yield error


def _of_partition(
    job: Job, options: ReindexOptions, topics: TopicSettings, utc: str
) -> Iterator[Item]:
    if options.undo:
        from kdump.engine.reindex.undo import undo

        assert job.target.log is not None
        yield from undo(job.target.log.path, job.target.log, job.bases, options)
        return
    if not job.kinds - {Kind.OFFSET_CHECKPOINT}:
        return
    from kdump.engine.reindex.partition import Partition

    settings = topics.of(job.target.path, job.target.topic)
    rules = Rules(options.broker_version, settings, options.decompress_limit)
    yield from Partition(job, options, rules, utc).items()


def _of_directory(directory: str, options: ReindexOptions, utc: str) -> Iterator[Item]:
    if options.undo:
        from kdump.engine.reindex.undo import undo

        yield from undo(directory, None, None, options)
        return
    from kdump.engine.reindex.checkpoints import offset_checkpoints

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
            yield PathError(targets[0].path, "is no partition and no segment of one")
        elif place not in seen or not targets[0].whole:
            seen.add(place)
            yield _job(targets, options)


def _place_of(item: Target | KdumpError) -> str:
    if isinstance(item, KdumpError) or item.log is None:
        return ""
    return os.path.realpath(item.log.path)


def _is_of_segment(target: Target) -> bool:
    name = target.files[0].name
    return not name.retired and (name.kind is Kind.LOG or name.kind in WORDS)


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
