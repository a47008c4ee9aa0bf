"""What a start makes of the data directories themselves: locks, rights, small files (N7, N12)."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

from kdump.broker import versions as v
from kdump.broker.node_settings import REFUSES, STARTS, Fact, NodeSettings
from kdump.broker.versions import Version, has
from kdump.errors import PathError
from kdump.storage import checkpoints, lock, names
from kdump.storage.checkpoints import java_int
from kdump.storage.names import Kind
from kdump.storage.source import SMALL_FILE_LIMIT, whole

_LINES = 1 << 31


#: The cause that goes away by itself: a broker that runs holds its lock rightly.
LOCKED = "lock"


class User(NamedTuple):
    """Who runs the broker; `is_root`: rights are not asked of it."""

    uid: int
    gids: frozenset[int]
    is_root: bool

    def may(self, path: str, wanted: str) -> bool:
        """Whether mode and owner let it read (r), write (w) or pass through (x)."""
        if self.is_root:
            return True
        try:
            found = os.stat(path)
        except OSError:
            return False
        shift = 6 if found.st_uid == self.uid else 3 if found.st_gid in self.gids else 0
        bits = stat.S_IMODE(found.st_mode) >> shift
        return all(bits & _BITS[one] for one in wanted)


_BITS = {"r": 4, "w": 2, "x": 1}


def directory_facts(node: NodeSettings, broker: Version, user: User | None) -> Iterator[Fact]:
    """Say what of its data directories a start trips over, in the order of the broker."""
    failed: list[Fact] = []
    for directory in node.log_dirs:
        for fact in _of_directory(directory, node, broker, user):
            if fact.cause == LOCKED:
                yield fact  # the broker that runs may stop: what is behind counts then
                continue
            if fact.cause in _ALWAYS or not has(broker, v.DIRECTORY_FAILURES):
                yield fact
                return
            failed.append(fact)
            break
    if not failed:
        return
    lost = {os.path.dirname(fact.path or "") for fact in failed}
    if len(failed) == len(node.log_dirs) or any(_holds(node, at) for at in lost):
        yield failed[0]
        return
    for fact in failed:
        yield fact._replace(
            outcome=STARTS,
            cause="directory-offline",
            remedy="The node starts without this directory: its replicas are offline. "
            f"{fact.remedy}",
        )


def _holds(node: NodeSettings, directory: str) -> bool:
    """Whether the metadata log is lost with a directory."""
    return node.kraft and directory == node.metadata_dir


#: Causes that stop a broker, however many directories it has.
_ALWAYS = ("name",)


def _of_directory(
    directory: str, node: NodeSettings, broker: Version, user: User | None
) -> Iterator[Fact]:
    if not os.path.lexists(directory):
        return
    if not os.path.isdir(directory) or (user is not None and not user.may(directory, "rx")):
        if has(broker, v.DIRECTORY_FAILURES) and os.path.isdir(directory):
            message = os.path.join(directory, names.META_PROPERTIES + names.TEMPORARY)
        else:
            message = f"{directory} is not a readable log directory."
        cause = "permission" if os.path.isdir(directory) else "not-a-directory"
        yield Fact(REFUSES, cause, message, directory, _rights(directory))
        return
    yield from _lock(directory, broker, user)
    yield from _names(directory, broker)
    yield from _checkpoints(directory, broker, user)
    yield from _partitions(directory, broker, user)


def _rights(path: str) -> str:
    return f"Give the broker's user the rights to {path} (chown, chmod); nothing is lost by that."


def _lock(directory: str, broker: Version, user: User | None) -> Iterator[Fact]:
    path = os.path.join(directory, names.LOCK)
    modern = has(broker, v.DIRECTORY_FAILURES)
    if os.path.isdir(path):
        message = f"{path}: Is a directory" if modern else f"{path} (Is a directory)"
        yield Fact(REFUSES, "lock-file", message, path, "Remove that directory.")
    elif lock.is_held(directory):
        message = (
            f"Failed to acquire lock on file .lock in {directory}. A Kafka instance in another "
            "process or thread is using this directory."
        )
        remedy = (
            "A broker runs on this directory. If it is this one, nothing is wrong: stop it before "
            "a start. If it is another, two brokers were given one volume: find out whose it is, "
            "and do not remove .lock."
        )
        yield Fact(REFUSES, LOCKED, message, path, remedy)
    elif user is not None and not user.may(path if os.path.exists(path) else directory, "rw"):
        message = path if modern else f"{path} (Permission denied)"
        yield Fact(REFUSES, "permission", message, path, _rights(directory))
    elif user is not None and not user.may(directory, "wx"):
        mark = os.path.join(directory, names.CLEAN_SHUTDOWN)
        message = (
            mark
            if modern and os.path.exists(mark)
            else f"{directory}/{names.REPLICATION_CHECKPOINT}.tmp (Permission denied)"
        )
        yield Fact(REFUSES, "permission", message, directory, _rights(directory))


def _names(directory: str, broker: Version) -> Iterator[Fact]:
    """Directories that are no partition's (R12)."""
    for name, path in _folders(directory):
        if names.parse_directory(name) is not None:
            continue
        if name == names.REMOTE_LOG_INDEX_CACHE and has(broker, v.REMOTE_INDEX_CACHE):
            continue
        message = (
            f"Found directory {path}, '{name}' is not in the form of topic-partition or "
            "topic-partition.uniqueId-delete (if marked for deletion)."
        )
        remedy = "Move it out of the data directory; no broker reads what is in it."
        yield Fact(REFUSES, "name", message, path, remedy)


def _folders(directory: str) -> list[tuple[str, str]]:
    try:
        with os.scandir(directory) as entries:
            return sorted((one.name, one.path) for one in entries if one.is_dir())
    except OSError:
        return []


def _checkpoints(directory: str, broker: Version, user: User | None) -> Iterator[Fact]:
    if not has(broker, v.DIRECTORY_FAILURES):
        return  # a broker goes on without them (R1)
    for name in (
        names.RECOVERY_POINT_CHECKPOINT,
        names.LOG_START_CHECKPOINT,
        names.REPLICATION_CHECKPOINT,
        names.CLEANER_CHECKPOINT,
    ):
        path = os.path.join(directory, name)
        if not os.path.isfile(path):
            continue
        if user is not None and not user.may(path, "r"):
            yield Fact(REFUSES, "permission", path, path, _rights(path))
        elif message := checkpoint_refused(path, 3, broker):
            remedy = (
                "Move it away: the start goes on without it, reads what it would have spared, and "
                "writes it anew. Without log-start-offset-checkpoint, records that were deleted "
                "can be served again."
            )
            yield Fact(REFUSES, "checkpoint", message, path, remedy)


def checkpoint_refused(path: str, fields: int, broker: Version) -> str:
    """What a broker says of a checkpoint file it cannot take; empty where it can (X1)."""
    try:
        data = whole(path, checkpoints.SIZE_LIMIT)
    except PathError:
        return ""
    lines = data.decode("utf-8", "replace").splitlines()
    if not lines:
        return ""
    java = has(broker, v.CHECKPOINT_IN_JAVA)

    def malformed(line: str) -> str:
        return (
            f"Malformed line in checkpoint file [{path}]: {line}"
            if java
            else f"Malformed line in checkpoint file ({path}): '{line}'"
        )

    version = java_int(lines[0], _LINES)
    if version is None:
        return malformed(lines[0])
    if version != checkpoints.VERSION:
        return (
            f"Unrecognised version:{version}, expected version: 0 in checkpoint file at: {path}"
            if java
            else f"Unrecognized version of the checkpoint file ({path}): 0"
        )
    if len(lines) == 1:
        return ""
    declared = java_int(lines[1], _LINES)
    if declared is None:
        return malformed(lines[1])
    for line in lines[2:]:
        said = checkpoints.java_split(line)
        if len(said) != fields or any(java_int(one) is None for one in said[-2:]):
            return malformed(line)
    found = len(lines) - 2
    if found == declared:
        return ""
    return (
        f"Expected [{declared}] entries in checkpoint file [{path}], but found only [{found}]"
        if java
        else f"Expected {declared} entries in checkpoint file ({path}), but found only {found}"
    )


def _partitions(directory: str, broker: Version, user: User | None) -> Iterator[Fact]:
    for name, path in _folders(directory):
        if names.parse_directory(name) is None:
            continue
        if not name.startswith(names.CLUSTER_METADATA_TOPIC):
            yield from _partition_files(path, broker)
        if user is not None:
            yield from _partition_rights(path, broker, user)


def _partition_files(partition: str, broker: Version) -> Iterator[Fact]:
    for name in filter(names.stops_start, _listed(partition)):
        remedy = "Move it away; segments are named with twenty digits, and no broker reads others."
        message = f'For input string: "{name.partition(".")[0]}"'
        yield Fact(REFUSES, "name", message, os.path.join(partition, name), remedy)
    epochs = os.path.join(partition, names.LEADER_EPOCH_CHECKPOINT)
    message = checkpoint_refused(epochs, 2, broker) if has(broker, v.LEADER_EPOCHS) else ""
    if message:
        if not has(broker, v.CHECKPOINT_IN_JAVA):
            message = f"Error while reading checkpoint file {epochs}"
        remedy = "Move it away, or rebuild it: kdump reindex --only leader-epochs --write."
        yield Fact(REFUSES, "checkpoint", message, epochs, remedy)
    identity = os.path.join(partition, names.PARTITION_METADATA)
    if not has(broker, v.TOPIC_IDS):
        return
    try:
        text = whole(identity, SMALL_FILE_LIMIT)
    except PathError:
        return
    remedy = "Write it again: version: 0, and topic_id: the topic's id (kdump cluster topics)."
    if not text:
        message = 'Cannot invoke "java.lang.CharSequence.length()" because "this.text" is null'
        yield Fact(REFUSES, "partition-metadata", message, identity, remedy)
    elif not has(broker, v.CHECKPOINT_IN_JAVA) and not text.startswith(b"version: 0"):
        message = f"Error while reading partition metadata file {identity}"
        yield Fact(REFUSES, "partition-metadata", message, identity, remedy)


def _listed(partition: str) -> list[str]:
    try:
        return sorted(os.listdir(partition))
    except OSError:
        return []


_READ = (Kind.LOG, Kind.QUORUM_STATE)
_WRITTEN = (Kind.LOG, Kind.OFFSET_INDEX, Kind.TIME_INDEX)


def _partition_rights(partition: str, broker: Version, user: User) -> Iterator[Fact]:
    """What a user may not do in a partition's directory, as the broker comes to it."""
    epochs = os.path.join(partition, names.LEADER_EPOCH_CHECKPOINT)
    modern = has(broker, v.DIRECTORY_FAILURES)
    remedy = _rights(partition)
    if not user.may(partition, "rx"):
        message = epochs if modern else 'Cannot read the array length because "$this" is null'
        yield Fact(REFUSES, "permission", message, partition, remedy)
        return
    for name in _listed(partition):
        path, kind = os.path.join(partition, name), names.parse(name).kind
        if kind in _READ and not user.may(path, "r"):
            yield Fact(REFUSES, "permission", f"Could not read file {path}", path, remedy)
        elif kind in _WRITTEN and not user.may(path, "rw"):
            denied = "" if kind is Kind.LOG and modern else " (Permission denied)"
            yield Fact(REFUSES, "permission", f"{path}{denied}", path, remedy)
    if modern and not user.may(partition, "wx"):
        message = (
            f"{epochs}.tmp (Permission denied)"
            if has(broker, v.CHECKPOINT_IN_JAVA)
            else f"Error while writing to checkpoint file {epochs}"
        )
        yield Fact(REFUSES, "permission", message, partition, remedy)


def doubled(node: NodeSettings, broker: Version) -> Iterator[Fact]:
    """A partition that lies in two data directories stops every broker (R13)."""
    seen: dict[str, str] = {}
    for directory in node.log_dirs:
        for name, path in _folders(directory):
            found = names.parse_directory(name)
            if found is None or found.retirement is not None:
                continue
            other = seen.setdefault(name, path)
            if other == path:
                continue
            message = (
                f"Duplicate log directories for {name} are found in both {path} and {other}. It "
                "is likely because log directory failure happened while broker was replacing "
                "current replica with future replica. Recover broker from this failure by manually "
                "deleting one of the two directories for this partition. It is recommended to "
                "delete the partition in the log directory that is known to have failed recently."
                if has(broker, v.DIRECTORY_FAILURES)
                else f"Duplicate log directories found: {path}, {other}!"
            )
            remedy = (
                "Compare the two (kdump compare) and move away the one that ends earlier; what "
                "only that one holds is lost then."
            )
            yield Fact(REFUSES, "duplicate-partition", message, path, remedy)
            return
