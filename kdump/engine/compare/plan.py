"""Plan a comparison: find the same partition under several paths."""

from __future__ import annotations

from collections.abc import Sequence

from kdump.broker.versions import Version
from kdump.errors import KdumpError, PathError
from kdump.storage import places
from kdump.storage.file_records import DEFAULT_LIMIT
from kdump.storage.names import CLUSTER_METADATA_TOPIC, directory_name
from kdump.storage.targets import Selection, Target, data_directories, resolve
from kdump.tuples import NamedTuple


class CompareOptions(NamedTuple):
    """What is compared, and how much of it is reported: `shown` differences of each partition.

    `elect`: not that, but who should lead, as a broker of a version would have the logs.
    `mirror`: not replicas, but the same records at other offsets; see `MirrorOptions` for the rest.
    """

    selection: Selection = Selection()
    server_properties: str | None = None
    decompress_limit: int = DEFAULT_LIMIT
    shown: int = 20
    elect: bool = False
    broker_version: Version | None = None  # None: of each directory, the newest
    mirror: bool = False
    alias: str | None = None
    groups: bool = False
    group: str | None = None
    ignore_times: bool = False
    scratch: str | None = None


class Item(NamedTuple):
    """One partition, and where its replicas lie, in the order in which they were named."""

    path: str
    paths: tuple[str, ...]
    topic: str | None
    partition: int | None
    size_bytes: int


class Plan(NamedTuple):
    """The partitions that lie under several paths, the names of those under one, and errors."""

    items: list[Item]
    found_once: list[str]
    errors: list[KdumpError]


def plan(paths: Sequence[str], options: CompareOptions) -> Plan:
    """Group what lies under the paths by topic and partition.

    A directory whose name is no topic and partition stands for the one that the others have, if
    that is only one.
    """
    errors: list[KdumpError] = []
    groups: dict[tuple[str | None, int | None], list[Target]] = {}
    seen: set[str] = set()
    settings = options.server_properties
    own = [] if settings is None else data_directories(settings)  # one more side
    for target in resolve([*paths, *own], options.selection, listed=False):
        if isinstance(target, KdumpError):
            errors.append(target)
        elif target.log is None or not target.whole:
            errors.append(PathError(target.path, "is a file: name the directories of replicas"))
        elif (real := places.real(target.path)) not in seen:
            seen.add(real)
            groups.setdefault((target.topic, target.partition), []).append(target)
    _take_in_unnamed(groups, paths)
    found_once = []
    items = []
    for (topic, partition), targets in sorted(groups.items(), key=lambda group: _order(group[0])):
        alone = options.elect and topic == CLUSTER_METADATA_TOPIC  # what is left of a quorum
        if len(targets) < 2 and not alone:
            name = targets[0].path if topic is None else directory_name(topic, partition or 0)
            found_once.append(name)
            continue
        where = tuple(target.path for target in targets)
        items.append(Item(where[0], where, topic, partition, sum(map(_bytes, targets))))
    return Plan(items, found_once, errors)


def _take_in_unnamed(
    groups: dict[tuple[str | None, int | None], list[Target]], paths: Sequence[str]
) -> None:
    named = [key for key in groups if key[0] is not None]
    unnamed = groups.get((None, None))
    if unnamed is None or len(named) != 1:
        return
    del groups[None, None]
    order = {path: number for number, path in enumerate(paths)}
    every = [*groups[named[0]], *unnamed]
    groups[named[0]] = sorted(every, key=lambda target: order.get(target.path, -1))


def _order(key: tuple[str | None, int | None]) -> tuple[str, int]:
    topic, partition = key
    return topic or "", -1 if partition is None else partition


def _bytes(target: Target) -> int:
    total = 0
    for segment in target.log.logs if target.log is not None else ():
        try:
            total += places.stat(str(segment.log)).st_size
        except OSError:
            continue  # it went meanwhile
    return total
