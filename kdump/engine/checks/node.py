"""Check that the data directories of one broker agree, and that no partition is in two
(R13, X5)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from kdump.engine.checks.data_directory import check_data_directory
from kdump.engine.checks.identity import check_identity, meta_properties
from kdump.engine.checks.replicas import check_replicas, live_in, other_topic_id
from kdump.engine.checks.survey import Member, PartitionFacts, SurveyedDirectory, is_data_directory
from kdump.engine.reading.damage import at_place
from kdump.errors import PathError
from kdump.findings.finding import Finding, finding
from kdump.findings.rows import Place
from kdump.storage import names, places
from kdump.storage.file_records import DEFAULT_LIMIT


def check_directories(
    surveyed: Sequence[SurveyedDirectory], *, one_node: bool = False, limit: int = DEFAULT_LIMIT
) -> Iterator[Finding | PathError]:
    """Yield what is wrong with data directories, one by one and together.

    `one_node`: they were named by one broker's settings. Otherwise only directories whose
    `meta.properties` name the same broker of the same cluster are held against each other, and
    copies of one directory are not.
    """
    members = []
    for one in surveyed:
        if is_data_directory(one.directory):
            yield from check_data_directory(one.directory, one.facts, whole=one.whole)
            members.append(Member(one, meta_properties(one.directory)[0]))
    yield from check_identity(members, limit, one_node=one_node)
    if one_node:
        yield from _differences(members)
    for group in [members] if one_node else _groups(members):
        yield from _topic_ids(group)
        yield from _find_repeated(group)
        yield from check_replicas(group, limit)


def _groups(members: Sequence[Member]) -> list[list[Member]]:
    groups: dict[tuple[str, ...], list[Member]] = {}
    seen: set[tuple[str, ...]] = set()
    for member in members:
        cluster, node = member.meta.get("cluster.id"), member.node_id
        key: tuple[str, ...] = (cluster, node) if cluster and node else (member.path,)
        directory_id = member.meta.get("directory.id")
        if directory_id is not None and (*key, directory_id) in seen:
            key = (member.path,)  # a copy of one that was given as well
        seen.add((*key, directory_id or ""))
        groups.setdefault(key, []).append(member)
    return list(groups.values())


def _differences(members: Sequence[Member]) -> Iterator[Finding]:
    """Tell where the directories of one broker do not agree whose they are (X5)."""
    named = [member for member in members if member.meta]
    for member in named[1:]:
        first = named[0]
        for what, expected, actual in (
            ("node.id", first.node_id, member.node_id),
            ("cluster.id", first.meta.get("cluster.id"), member.meta.get("cluster.id")),
        ):
            if expected != actual and expected is not None and actual is not None:
                yield _differs(member, first, f"{what}={expected}", f"{what}={actual}")
    ids: dict[str, Member] = {}
    for member in named:
        directory_id = member.meta.get("directory.id")
        if directory_id is None:
            continue
        other = ids.setdefault(directory_id, member)
        if other is not member:
            yield _differs(member, other, "its own directory.id", directory_id)


def _differs(member: Member, first: Member, expected: str, actual: str) -> Finding:
    return finding(
        "meta-properties-differ",
        path=os.path.join(member.path, names.META_PROPERTIES),
        expected=expected,
        actual=actual,
        message=f"{actual} here, but {expected} in {first.path}.",
    )


def _topic_ids(group: Sequence[Member]) -> Iterator[Finding]:
    """Tell of partitions of one topic that name different topic ids: not all can be right."""
    by_topic: dict[str, dict[str, list[PartitionFacts]]] = {}
    for one in live_in(group):
        if one.topic_id is not None:
            by_topic.setdefault(one.topic, {}).setdefault(one.topic_id, []).append(one)
    for ids in by_topic.values():
        most = max(ids, key=lambda topic_id: len(ids[topic_id]))
        if len(ids) == 1 or not any(one.read_topic_id() == most for one in ids[most]):
            continue
        for topic_id, partitions in ids.items():
            for one in partitions:
                # A topic may have been deleted and made anew since its first partition was read.
                if topic_id != most and one.read_topic_id() == topic_id:
                    yield other_topic_id(
                        one,
                        most,
                        f"The topic's other partitions have the id {most}, but this directory, "
                        f"with {one.amount_text}, has another.",
                    )


def _find_repeated(group: Sequence[Member]) -> Iterator[Finding]:
    first: dict[tuple[str, int], str] = {}
    for member in group:
        for name, path in member.surveyed.directory.partitions:
            if name.retirement is not None:
                continue
            other = first.setdefault((name.topic, name.partition), path)
            if other != path and places.lexists(path) and places.lexists(other):
                yield at_place(
                    "partition-twice",
                    Place(name.topic, name.partition, None, path),
                    expected=other,
                    actual=path,
                    message=f"{path} and {other} are the same partition.",
                )
