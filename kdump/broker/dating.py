"""Which releases of Kafka can have written a data directory, with the evidence for both ends.

The rules are D10 to D13 and D15 of docs/broker/dating.md. Names and small files are enough; no log
of a topic is read. A damaged or partly copied directory lacks files: what is missing is believed
only as long as nothing that is there contradicts it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping

from kdump.broker import versions as v
from kdump.broker.versions import Change, Version
from kdump.errors import StoreError
from kdump.storage import names, places
from kdump.storage.directory_facts import meta_of
from kdump.storage.log_dir import LogDir
from kdump.storage.names import Kind
from kdump.tuples import NamedTuple

METADATA_VERSION = "metadata.version"
#: BEFORE bounds nothing: an earlier registration, by the release that ran then.
FROM, UNTIL, EXACT, BEFORE = "from", "until", "exactly", "before"
#: What a directory of logs has since a change; each partition that was loaded has it.
_IN_PARTITIONS = {
    Kind.TIME_INDEX: v.TIME_INDEX,
    Kind.TRANSACTION_INDEX: v.TRANSACTION_INDEX,
    Kind.PRODUCER_SNAPSHOT: v.PRODUCER_STATE,
    Kind.LEADER_EPOCHS: v.LEADER_EPOCHS,
    Kind.PARTITION_METADATA: v.TOPIC_IDS,
    Kind.OFFSET_INDEX: v.COUNTED_OFFSETS,
}
_IN_DIRECTORY = {
    names.REPLICATION_CHECKPOINT: v.COUNTED_OFFSETS,
    names.RECOVERY_POINT_CHECKPOINT: v.RECOVERY_POINTS,
    names.CLEANER_CHECKPOINT: v.RECOVERY_POINTS,
    names.META_PROPERTIES: v.META_PROPERTIES,
    names.LOG_START_CHECKPOINT: v.LOG_START,
    names.BOOTSTRAP_CHECKPOINT: v.BOOTSTRAP_CHECKPOINT,
}
_RETIRED = {
    names.Retirement.FUTURE: v.FUTURE_REPLICAS,
    names.Retirement.STRAY: v.STRAYS_SET_ASIDE,
}
#: Settings that releases before do not know.
_SETTINGS: Mapping[str, Version] = {
    "listeners": (0, 9), "security.inter.broker.protocol": (0, 9),
    "inter.broker.protocol.version": (0, 9),
    "broker.rack": (0, 10, 0), "log.message.format.version": (0, 10, 0),
    "log.message.timestamp.type": (0, 10, 0),
    "inter.broker.listener.name": (0, 10, 2), "listener.security.protocol.map": (0, 10, 2),
    "transaction.state.log.replication.factor": (0, 11),
    "transaction.state.log.min.isr": (0, 11), "group.initial.rebalance.delay.ms": (0, 11),
    "num.replica.alter.log.dirs.threads": (1, 1), "password.encoder.secret": (1, 1),
    "client.quota.callback.class": (2, 0),
    "process.roles": (2, 8), "node.id": (2, 8), "controller.quorum.voters": (2, 8),
    "controller.listener.names": (2, 8), "metadata.log.dir": (2, 8),
    "early.start.listeners": (3, 3), "zookeeper.metadata.migration.enable": (3, 4),
    "remote.log.storage.system.enable": (3, 6), "log.dir.failure.timeout.ms": (3, 7),
    "group.coordinator.rebalance.protocols": (3, 7),
    "controller.quorum.bootstrap.servers": (3, 9),
}  # fmt: skip
#: Settings whose value is a release, which a broker must not be older than.
_PROTOCOLS = ("inter.broker.protocol.version", "log.message.format.version")
#: So many partitions are looked into, where the first ones have all that is looked for; in a store
#: each look is a request.
_LOOKED_INTO, _LOOKED_INTO_IN_STORE = 200, 2


class Evidence(NamedTuple):
    """One thing that bounds the release: `bound` is FROM, UNTIL, EXACT or BEFORE."""

    bound: str
    release: Version
    what: str
    path: str
    at_ms: int | None = None


class ReleaseBounds(NamedTuple):
    """The first and the last release that can have written a directory, and why."""

    first: Version
    last: Version
    evidence: tuple[Evidence, ...]

    @property
    def text(self) -> str:
        """The range, as in 2.8 to 3.6."""
        if self.first == self.last:
            return v.text_of(self.first)
        return f"{v.text_of(self.first)} to {v.text_of(self.last)}"


def combine_evidence(evidence: Iterable[Evidence]) -> ReleaseBounds:
    """Join what was found; the last registration counts more than all, presence than absence."""
    found = tuple(evidence)
    first, last = v.RELEASES[0], v.NEWEST
    for one in found:
        if one.bound == FROM:
            first = max(first, one.release)
    for one in found:
        if one.bound == UNTIL and first == min(first, one.release):
            last = min(last, one.release)
    for one in found:
        if one.bound == EXACT:
            first, last = one.release, one.release
    return ReleaseBounds(first, last, found)


def directory_evidence(directory: LogDir) -> Iterator[Evidence]:
    """Yield what the files of a data directory say of the release that wrote them last."""
    path = directory.path
    here = {os.path.basename(file): file for file in directory.files}
    for name, change in _IN_DIRECTORY.items():
        if name in here:
            yield _since(change, f"it has {name}", here[name])
    if names.RECOVERY_POINT_CHECKPOINT in here and names.LOG_START_CHECKPOINT not in here:
        yield _before(v.LOG_START, f"there is no {names.LOG_START_CHECKPOINT}", path)
    if places.isdir(os.path.join(path, names.REMOTE_LOG_INDEX_CACHE)):
        yield _since(v.REMOTE_INDEX_CACHE, f"it has {names.REMOTE_LOG_INDEX_CACHE}", path)
    for partition, at in directory.partitions:
        retirement = partition.retirement
        if retirement in _RETIRED:
            yield _since(_RETIRED[retirement], f"it has a -{retirement.value} directory", at)
    yield from _meta(path, here)
    if mark := here.get(names.CLEAN_SHUTDOWN):
        yield from _clean_stop(mark)
    yield from _partitions(directory, whole=names.REPLICATION_CHECKPOINT in here)


def registration_evidence(levels: Mapping[str, int], path: str, who: str) -> Iterator[Evidence]:
    """Yield what a node's last registration says: the highest levels of features that it runs."""
    level = levels.get(METADATA_VERSION)
    if level is None:
        yield _before(v.BOOTSTRAP_CHECKPOINT, f"{who} registered without a metadata.version", path)
        return
    what = f"{who} registered {v.metadata_name(level)} as its highest metadata.version"
    release = v.find_release_by_levels(levels)
    if release is not None:
        yield Evidence(EXACT, release, what, path)
    elif (least := v.find_first_release(level)) is not None:
        yield Evidence(FROM, least, what, path)


def settings_evidence(values: Mapping[str, str], path: str) -> Iterator[Evidence]:
    """Yield what a broker's own settings say of the release that reads them (D15)."""
    newest: tuple[Version, str] | None = None
    for name in values:
        release = _SETTINGS.get(name)
        if release is not None and (newest is None or newest[0] == min(newest[0], release)):
            newest = release, name
    if newest is not None:
        yield Evidence(FROM, newest[0], f"its settings have {newest[1]}", path)
    for name in _PROTOCOLS:
        version = v.protocol_version(values.get(name, ""))
        release = None if version is None else v.first_of(version)
        if release is not None:
            yield Evidence(FROM, release, f"its settings have {name}={values[name]}", path)
    if "zookeeper.connect" in values and not values.get("process.roles"):
        yield _before(v.KRAFT_ONLY, "its settings name ZooKeeper but no process.roles", path)


def level_evidence(level: int, path: str) -> Iterator[Evidence]:
    """Yield what the level says that the cluster finalized: every node runs it."""
    release = v.find_first_release(level)
    if release is not None:
        what = f"the cluster runs metadata.version {v.metadata_name(level)}"
        yield Evidence(FROM, release, what, path)


def _since(change: Change, what: str, path: str) -> Evidence:
    return Evidence(FROM, v.first_with(change), what, path)


def _before(change: Change, what: str, path: str) -> Evidence:
    return Evidence(UNTIL, v.last_without(change), what, path)


def _meta(path: str, here: dict[str, str]) -> Iterator[Evidence]:
    meta = meta_of(path)
    at = here.get(names.META_PROPERTIES, path)
    if meta.get("version") == "1" and "node.id" in meta:
        yield _since(v.KRAFT, "meta.properties has the format of a KRaft node", at)
        if "directory.id" not in meta:
            yield _before(v.DIRECTORY_IDS, "meta.properties has no directory.id", at)
    elif "broker.id" in meta:
        yield _before(v.KRAFT_ONLY, "meta.properties has the format of a broker with ZooKeeper", at)
        if "cluster.id" in meta:
            yield _since(v.CLUSTER_ID_KEPT, "meta.properties has a cluster.id", at)
        else:
            yield _before(v.CLUSTER_ID_KEPT, "meta.properties has no cluster.id", at)
    if "directory.id" in meta:
        yield _since(v.DIRECTORY_IDS, "meta.properties has a directory.id", at)


def _clean_stop(path: str) -> Iterator[Evidence]:
    try:
        size = places.stat(path).st_size
    except OSError:
        return
    if size:
        yield _since(v.STOP_NAMES_EPOCH, f"{names.CLEAN_SHUTDOWN} names a broker epoch", path)
    else:
        yield _before(v.STOP_NAMES_EPOCH, f"{names.CLEAN_SHUTDOWN} is empty", path)


def _partitions(directory: LogDir, *, whole: bool) -> Iterator[Evidence]:
    """Look at the names of files; time indexes are what every loaded segment has since 0.10.1.

    `whole`: a broker's checkpoints are there too, so that what is missing was never there.
    """
    found: dict[Kind, str] = {}
    has_logs = False
    most = _LOOKED_INTO_IN_STORE if places.is_uri(directory.path) else _LOOKED_INTO
    for number, (name, path) in enumerate(directory.partitions):
        if number >= most and Kind.TIME_INDEX in found:
            break
        if name.topic == names.CLUSTER_METADATA_TOPIC:
            continue  # its files are those of KRaft, whatever release
        try:
            entries = places.listdir(path)
        except (OSError, StoreError):
            continue
        for entry in sorted(entries):
            kind = names.parse(entry).kind
            if kind in _IN_PARTITIONS:
                found.setdefault(kind, os.path.join(path, entry))
            elif kind is Kind.PRE08_LOG:
                yield _before(v.COUNTED_OFFSETS, "segments are named as in 0.7", path)
                return
            has_logs |= kind is Kind.LOG
    for kind, path in found.items():
        what = f"it has files such as {os.path.basename(path)}"
        yield _since(_IN_PARTITIONS[kind], what, path)
    if whole and has_logs and Kind.TIME_INDEX not in found and Kind.OFFSET_INDEX in found:
        yield _before(v.TIME_INDEX, "no segment has a time index", directory.path)
