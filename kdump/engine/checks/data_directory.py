"""Check one data directory: entries that are no partitions, and its partitions together."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from kdump.engine.checks.access import access_findings, status_of
from kdump.engine.checks.checkpoints import check_checkpoints
from kdump.engine.checks.files import first_and_more, unknown_files
from kdump.engine.checks.identity import meta_properties
from kdump.engine.checks.survey import PartitionFacts, is_data_directory
from kdump.engine.reading.damage import at_place
from kdump.errors import PathError
from kdump.findings.finding import Finding, finding
from kdump.findings.rows import Place
from kdump.record.frames import Gap, Run
from kdump.storage import names, places
from kdump.storage.file_records import walk
from kdump.storage.log_dir import LogDir
from kdump.storage.names import Kind
from kdump.storage.source import unreadable_ranges

_EXPECTED = frozenset(
    {
        Kind.META_PROPERTIES,
        Kind.OFFSET_CHECKPOINT,
        Kind.OTHER_CHECKPOINT,
        Kind.CLEAN_SHUTDOWN,
        Kind.LOCK,
        Kind.METADATA_SNAPSHOT,
        Kind.REMOTE_LOG_SNAPSHOT,
    }
)
_METADATA_VERSION = b"metadata.version"
_NO_PARTITIONS = frozenset({names.REMOTE_LOG_INDEX_CACHE})


def check_data_directory(
    directory: LogDir, facts: Sequence[PartitionFacts], *, whole: bool = True
) -> Iterator[Finding | PathError]:
    """Yield what is wrong with one data directory; `facts` are of the partitions in it.

    `whole`: all of its partitions were looked at, so that what is not among the facts is missing.
    """
    if not is_data_directory(directory):
        return
    yield from _listing(directory, facts)
    meta, reported = meta_properties(directory)
    yield from reported
    yield from _bootstrap(os.path.join(directory.path, names.BOOTSTRAP_CHECKPOINT))
    if whole:
        yield from check_checkpoints(directory, facts)
    if meta.get("version", "0") == "1":
        yield from _no_metadata(facts)


def _listing(directory: LogDir, facts: Sequence[PartitionFacts]) -> Iterator[Finding]:
    place = Place(None, None, None, directory.path)
    unknown, temporary = [], []
    statuses = [status_of(directory.path), *map(status_of, directory.files)]
    statuses.extend(one.status for one in facts)
    for path in directory.files:
        name = names.parse(os.path.basename(path))
        if name.suffix == names.TEMPORARY:
            temporary.append(path)
        elif name.kind not in _EXPECTED and not name.is_retired:
            unknown.append(path)
    for path in _other_directories(directory):
        if os.path.basename(path) not in _NO_PARTITIONS:
            yield finding("directory-stops-start", path=path)
    if temporary:
        yield finding(
            "leftover",
            path=temporary[0],
            actual=names.TEMPORARY,
            message=f"{first_and_more(temporary)} left over. An unfinished write; brokers ignore "
            "it and write the file again.",
        )
    yield from unknown_files(unknown, place)
    yield from access_findings([each for each in statuses if each is not None], place)


def _bootstrap(path: str) -> Iterator[Finding | PathError]:
    """Check the records a first start begins with, if they are there (N10)."""
    if not places.isfile(path):
        return
    place = Place(None, None, None, path)
    try:
        if unreadable := unreadable_ranges(path):
            start, end = unreadable[0]
            yield at_place("unreadable", place, position=start, size_bytes=end - start)
            return
        has_version = False
        for run in walk(path):
            if isinstance(run, Gap):
                yield finding(
                    "bootstrap-checkpoint-malformed",
                    path=path,
                    position=run.position,
                    size_bytes=run.size_bytes,
                    actual=run.reason,
                )
                return
            has_version |= isinstance(run, Run) and _METADATA_VERSION in run.data
        if not has_version:
            message = "bootstrap.checkpoint has no record of metadata.version."
            yield finding("bootstrap-checkpoint-malformed", path=path, message=message)
    except PathError as error:
        yield error


def _other_directories(directory: LogDir) -> list[str]:
    """Directories whose names are no topic and partition."""
    try:
        return sorted(
            entry.path
            for entry in places.entries(directory.path)
            if places.is_dir(entry) and names.parse_directory(entry.name) is None
        )
    except OSError:
        return []


def _no_metadata(facts: Sequence[PartitionFacts]) -> Iterator[Finding]:
    """Tell of partitions without `partition.metadata`: from 3.7 on KRaft sets them aside."""
    for one in facts:
        if not one.is_live or one.has_metadata or one.topic == names.CLUSTER_METADATA_TOPIC:
            continue
        # It is written before the first append, so that an empty partition may be without.
        path = os.path.join(one.path, names.PARTITION_METADATA)
        if one.base_offset is None or one.next_offset == 0:
            continue
        if places.lexists(one.path) and not places.lexists(path):
            yield at_place("partition-metadata-missing", one.place, path=path)
