"""How many partitions topics have: as asked for, as the metadata log says, or as directories do."""

from __future__ import annotations

from collections.abc import Iterable

from kdump.errors import PathError
from kdump.replay.cluster import read_cluster
from kdump.replay.cluster_state import ClusterState
from kdump.replay.topic_settings import metadata_log_for
from kdump.storage import places
from kdump.storage.log_dir import LogDir
from kdump.storage.targets import Target

GIVEN, METADATA, DIRECTORIES = "option", "metadata log", "directories"


def partition_counts(targets: Iterable[Target], given: int | None) -> dict[str, tuple[int, str]]:
    """Give the count of each topic's partitions, and where it is from.

    Where no metadata log tells, it is one more than the highest partition of which there is a
    directory beside those that are read.
    """
    seen: dict[str, int] = {}
    directories: dict[str, None] = {}
    for target in targets:
        topic = target.topic or ""
        seen[topic] = max(seen.get(topic, 0), (target.partition or 0) + 1)
        for file in target.files[:1]:
            directories.setdefault(places.parent(places.parent(places.absolute(file.path))))
    if given is not None:
        return dict.fromkeys(seen, (given, GIVEN))
    states = dict(_states(directories))
    for directory in directories:
        try:
            for name, _ in LogDir.open(directory).partitions:
                if name.topic in seen:
                    seen[name.topic] = max(seen[name.topic], name.partition + 1)
        except PathError:
            continue
    told: dict[str, int] = {}
    for state in states.values():
        for topic in seen:
            if (topic_id := state.ids.get(topic)) is not None:
                told[topic] = max(told.get(topic, 0), state.topics[topic_id].partitions_count)
    return {
        topic: (told[topic], METADATA) if topic in told else (count, DIRECTORIES)
        for topic, count in seen.items()
    }


def _states(directories: Iterable[str]) -> Iterable[tuple[str, ClusterState]]:
    """Replay each metadata log that belongs to the directories, once."""
    for log in {metadata_log_for(directory): None for directory in directories}:
        if log is not None and (state := read_cluster(log)) is not None:
            yield log, state
