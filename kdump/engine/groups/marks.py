"""Say where the logs on the same disks begin and end, for the lag of groups."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from kdump.broker.partition import PartitionView
from kdump.errors import KdumpError
from kdump.storage import names
from kdump.storage.properties import parse_partition_metadata
from kdump.storage.source import whole
from kdump.storage.targets import OfManyTarget

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kdump.storage.targets import Target

_SIZE_LIMIT = 1 << 16


class Mark(NamedTuple):
    """Where a log starts and ends, and up to where consumers are handed records.

    Without a mark on disk that can be believed the log end stands for `high_watermark`.
    """

    log_start: int
    log_end: int
    high_watermark: int


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
            self._marks[place] = max(found, key=lambda mark: mark.log_end, default=None)
        return self._marks[place]

    def topic_name(self, topic_id: str) -> str | None:
        """Return the topic that has an id, as the partitions here say it."""
        if self._topic_names is None:
            found = {_topic_id(path): topic for topic, path in self._paths.items()}
            self._topic_names = {key: topic for key, topic in found.items() if key is not None}
        return self._topic_names.get(topic_id)


def _mark(target: Target) -> Mark | None:
    view = PartitionView(OfManyTarget(*target), as_is=True)
    try:
        end = view.log_end
        mark = view.high_watermark
        return Mark(view.log_start, end, end if mark is None else mark)
    except KdumpError:
        return None  # whoever reads that log says it
    finally:
        view.close()


def _topic_id(partition: str) -> str | None:
    try:
        data = whole(os.path.join(partition, names.PARTITION_METADATA), _SIZE_LIMIT)
    except KdumpError:
        return None
    return parse_partition_metadata(data).values.get("topic_id")
