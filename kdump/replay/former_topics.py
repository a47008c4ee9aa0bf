"""What a topic was like that was deleted, or is: its settings, partitions and replicas.

KRaft: the metadata log says so, as long as it has the records from before the deletion. ZooKeeper:
its own files do, where they are at hand.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache

from kdump.errors import KdumpError
from kdump.replay.cluster import read_replay
from kdump.replay.cluster_state import ClusterState
from kdump.storage.held_files import size_of
from kdump.storage.local_log import LocalLog
from kdump.storage.metadata_log import metadata_log_for
from kdump.storage.places import read_listed
from kdump.storage.zookeeper_files import newest_values
from kdump.tuples import NamedTuple

METADATA_LOG, ZOOKEEPER = "metadata-log", "zookeeper"


class FormerTopic(NamedTuple):
    """What is known of a topic; None is what is not. `source` is the word for where it is from."""

    settings: dict[str, str] | None = None
    partitions: int | None = None
    replicas: int | None = None
    source: str | None = None
    path: str | None = None


def former_topic(
    topic: str, topic_id: str | None, directories: Iterable[str], others: Iterable[str]
) -> FormerTopic:
    """Look for a topic in the metadata logs near data directories, then in files of ZooKeeper."""
    others = list(others)
    logs = (metadata_log_for(directory, others) for directory in directories)
    for log in dict.fromkeys(log for log in logs if log is not None):
        with suppress(KdumpError):
            if (found := _in_metadata(log, topic, topic_id)) is not None:
                return found
    with suppress(KdumpError):
        return _in_zookeeper(topic, others)
    return FormerTopic()


def _in_metadata(log: str, topic: str, topic_id: str | None) -> FormerTopic | None:
    state = _state_of(log, sum(size_of(str(one.log)) for one in LocalLog.open(log).logs))
    if topic_id is None:
        removed = [one for one in state.removed.values() if one.topic == topic]
        newest = max(removed, key=lambda one: one.deleted_ms or 0, default=None)
        topic_id = state.ids.get(topic) if newest is None else newest.topic_id
    if topic_id in state.last_of_removed:
        settings, replicas = state.last_of_removed[topic_id]
    elif topic_id in state.topics:
        settings = state.settings("topic", topic)
        there = state.partitions.get(topic_id, {})
        replicas = {number: len(one.replicas) for number, one in there.items()}
    else:
        return None
    most = max(replicas.values(), default=None)
    return FormerTopic(settings, len(replicas) or None, most, METADATA_LOG, log)


@lru_cache(maxsize=4)
def _state_of(log: str, _size_bytes: int) -> ClusterState:
    """Replay a whole log once for all topics, as long as it has this size."""
    return read_listed(lambda: read_replay(log, whole=True), log).state


def _in_zookeeper(topic: str, directories: Iterable[str]) -> FormerTopic:
    configs, brokers = f"/config/topics/{topic}", f"/brokers/topics/{topic}"
    values = newest_values(directories, (configs, brokers))
    settings = _member(values.get(configs), "config")
    partitions = _member(values.get(brokers), "partitions")
    if settings is None and partitions is None:
        return FormerTopic()
    replicas = [len(each) for each in (partitions or {}).values() if isinstance(each, list)]
    return FormerTopic(
        None if settings is None else {str(name): str(one) for name, one in settings.items()},
        len(partitions) if partitions else None,
        max(replicas, default=None),
        ZOOKEEPER,
    )


def _member(data: bytes | None, name: str) -> dict[str, object] | None:
    """Take an object out of the JSON that a node of ZooKeeper holds."""
    with suppress(ValueError, AttributeError):
        found = json.loads(data or b"").get(name)
        return found if isinstance(found, dict) else None
    return None
