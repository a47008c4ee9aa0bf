"""Say where the logs on the same disks begin and end, for the lag of groups, and name topics."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from kdump.broker.lookup_records import BrokerError
from kdump.broker.partition import PartitionView
from kdump.errors import KdumpError
from kdump.replay.cluster import read_cluster
from kdump.replay.cluster_state import ClusterState
from kdump.storage import names
from kdump.storage.properties import read_topic_id

if TYPE_CHECKING:
    from kdump.storage.targets import Target


class Mark(NamedTuple):
    """Where a log starts and ends, and up to where consumers are handed records.

    Without a mark on disk that can be believed the log end stands for `high_watermark`; that is
    None where damage keeps a broker from finding it.
    """

    log_start: int
    log_end: int | None
    high_watermark: int | None


class Marks:
    """The partitions under the paths; each is looked at when it is first asked for.

    Of several replicas the one that goes furthest counts.
    """

    def __init__(self, targets: Iterable[Target]) -> None:
        self._targets: dict[tuple[str, int], list[Target]] = {}
        self._paths: dict[str, str] = {}  # topic -> one of its partitions
        self._marks: dict[tuple[str, int], Mark | None] = {}
        self._topic_names: dict[str, str] | None = None
        for target in targets:
            if target.topic is None or target.partition is None or target.log is None:
                continue
            if target.log.name is None or target.log.name.retirement is None:
                place = target.topic, target.partition
                self._targets.setdefault(place, []).append(target)
                self._paths.setdefault(target.topic, target.log.path)

    def of(self, topic: str, partition: int) -> Mark | None:
        """Return the marks of a partition, None where it does not lie here."""
        place = topic, partition
        if place not in self._marks:
            found = [mark for target in self._targets.get(place, ()) if (mark := _mark(target))]
            self._marks[place] = max(found, key=_furthest, default=None)
        return self._marks[place]

    def topic_name(self, topic_id: str) -> str | None:
        """Return the topic that has or had an id: as the partitions here say, or the cluster."""
        if self._topic_names is None:
            found = {read_topic_id(path): topic for topic, path in self._paths.items()}
            self._topic_names = {key: topic for key, topic in found.items() if key is not None}
        if topic_id in self._topic_names:
            return self._topic_names[topic_id]
        cluster = self._cluster
        known = cluster and (cluster.topics.get(topic_id) or cluster.removed.get(topic_id))
        return known.topic if known else None

    def partitions_count(self, topic: str) -> int | None:
        """Return how many partitions a topic has, if the cluster's metadata lies here."""
        cluster = self._cluster
        topic_id = cluster and cluster.ids.get(topic)
        known = cluster.partitions.get(topic_id) if cluster and topic_id else None
        return len(known) if known else None

    @cached_property
    def _cluster(self) -> ClusterState | None:
        path = self._paths.get(names.CLUSTER_METADATA_TOPIC)
        return None if path is None else read_cluster(path)


def _mark(target: Target) -> Mark | None:
    end: int | None = None
    try:
        view = PartitionView(target, as_is=True)
        try:
            end = view.log_end
        except BrokerError:
            pass  # verify says what is wrong there
        finally:
            view.close()
    except KdumpError:
        return None  # and who reads that log that it cannot be read
    mark = view.high_watermark
    return Mark(view.log_start, end, end if mark is None else mark)


def _furthest(mark: Mark) -> int:
    return -1 if mark.log_end is None else mark.log_end
