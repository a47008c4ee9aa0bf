"""What a start makes of the data directories themselves: locks, rights, small files (N7, N12)."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from kdump.broker import versions as v
from kdump.broker.node_settings import REFUSES, STARTS, Fact, NodeSettings
from kdump.broker.versions import Version, has
from kdump.errors import PathError
from kdump.findings.shell import format_command, path_word
from kdump.storage import checkpoints, lock, names
from kdump.storage.checkpoints import java_int
from kdump.storage.log_dir import LogDir
from kdump.storage.names import Kind, Retirement
from kdump.storage.properties import no_uuid
from kdump.storage.source import SMALL_FILE_LIMIT, Source, read_whole
from kdump.storage.transaction_index import TransactionIndex
from kdump.tuples import NamedTuple

_LINES = 1 << 31
_EPOCH_FIELDS = 2
_UNREAD = ("Error while reading checkpoint file", "Error while reading partition metadata file")
_INVALID_EPOCH = "Received invalid partition leader epoch entry"
_NO_NUMBER = "For input string: "


#: The cause that goes away by itself: a broker that runs holds its lock rightly.
LOCKED = "lock"
#: The cause of a start that goes on without a data directory.
OFFLINE = "directory-offline"


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


_ABORTED_VERSION = "Unexpected aborted transaction version"
#: How the sentences begin of what is thrown and is no error of input and output (N14).
_NO_IO_ERROR = (
    _NO_NUMBER,
    _INVALID_EPOCH,
    "Cannot invoke",
    "Input string",
    "Illegal base64",
    _ABORTED_VERSION,
)


def is_no_io_error(message: str) -> bool:
    """Whether a broker throws this sentence with another exception than that of an input."""
    return message.startswith(_NO_IO_ERROR)


def _ends_broker(fact: Fact, broker: Version) -> bool:
    """Whether a start ends for this, however many data directories there are (N14).

    Only an error of input and output takes the directory offline that it happens in.
    """
    if not has(broker, v.DIRECTORY_FAILURES) or fact.cause in ("name", "lock-file"):
        return True
    if fact.message.startswith(_UNREAD) and not has(broker, v.SMALL_FILES_FAIL_DIRECTORY):
        return True
    return is_no_io_error(fact.message)


def directory_facts(node: NodeSettings, broker: Version, user: User | None) -> Iterator[Fact]:
    """Say what of its data directories a start trips over, in the order of the broker."""
    named = (
        node.log_dirs if not has(broker, v.LISTS_CHECKED) else tuple(dict.fromkeys(node.log_dirs))
    )
    if len(set(map(os.path.realpath, named))) < len(named):
        message = f"Duplicate log directory found: {', '.join(node.log_dirs)}"
        yield Fact(REFUSES, "settings", message, node.path, "Name each directory once in log.dirs.")
        return
    failed: dict[str, list[Fact]] = {}
    for directory in node.log_dirs:
        for fact in _of_directory(directory, broker, user, kraft=node.kraft):
            if fact.cause == LOCKED or _ends_broker(fact, broker):
                yield fact  # a broker that has the lock may stop: what is behind counts then
            else:
                failed.setdefault(directory, []).append(fact)
    is_last = len(failed) == len(node.log_dirs)
    for directory, facts in failed.items():
        needed = _has_metadata(node, directory) and has(broker, v.METADATA_DIR_NEEDED)
        for fact in facts:
            yield fact if is_last or needed else offline(fact, directory)


def offline(fact: Fact, directory: str) -> Fact:
    """Say of what stops a start that it takes its data directory offline."""
    return fact._replace(
        outcome=STARTS,
        cause=OFFLINE,
        remedy=f"The node starts without {directory}: its replicas are offline. {fact.remedy}",
    )


def _has_metadata(node: NodeSettings, directory: str) -> bool:
    """Whether the metadata log is lost with a directory."""
    return node.kraft and directory == node.metadata_dir


def _of_directory(
    directory: str, broker: Version, user: User | None, *, kraft: bool
) -> Iterator[Fact]:
    if not os.path.exists(directory):
        if not _can_create(directory):
            message = f"Failed to create data directory {directory}"
            yield Fact(REFUSES, "not-a-directory", message, directory, _NOT_MADE)
        return
    if not os.path.isdir(directory) or (user is not None and not user.may(directory, "rx")):
        if has(broker, v.DIRECTORY_FAILURES) and os.path.isdir(directory):
            message = os.path.join(directory, names.META_PROPERTIES + names.TEMPORARY)
        else:
            message = f"{directory} is not a readable log directory."
        cause = "permission" if os.path.isdir(directory) else "not-a-directory"
        yield Fact(REFUSES, cause, message, directory, _rights(directory))
        return
    fails = False
    for fact in _lock(directory, broker, user):
        yield fact
        fails |= fact.cause != LOCKED
    if fails:
        return
    for fact in chain(_names(directory, broker), _checkpoints(directory, broker, user)):
        yield fact
        fails |= not _ends_broker(fact, broker)
    if not fails:  # a directory that is offline has no partition loaded
        yield from _partitions(directory, broker, user, kraft=kraft)


_NOT_MADE = "Mount the volume, or remove the directory from log.dirs."


def _can_create(directory: str) -> bool:
    """Whether a missing directory can be created: everything above it is a directory or missing."""
    while not os.path.lexists(directory):
        directory = os.path.dirname(directory) or os.curdir
    return os.path.isdir(directory)


def _rights(path: str) -> str:
    return f"Give the broker's user access to {path} (chown, chmod); nothing is lost."


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
            "A broker is running on this directory. If it is this broker, stop it first. If it is "
            "another one, two brokers use one volume: find the owner, and do not remove .lock."
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


_LOST_AND_FOUND = "lost+found"  # at the top of a mount of ext2, ext3 and ext4
_SUFFIXES_SINCE = {Retirement.FUTURE: v.FUTURE_REPLICAS, Retirement.STRAY: v.STRAYS_SET_ASIDE}


def _names(directory: str, broker: Version) -> Iterator[Fact]:
    """Directories that are no partition's (R12)."""
    for path in foreign_folders(directory, broker):
        name = os.path.basename(path)
        message = (
            f"Found directory {path}, '{name}' is not in the form of topic-partition or "
            "topic-partition.uniqueId-delete (if marked for deletion)."
        )
        remedy = (
            "It belongs to the file system: create a directory below the mount point, move all "
            "partitions and other files there, and set log.dirs to it."
            if name == _LOST_AND_FOUND
            else "Move it out of the data directory; brokers do not read its contents."
        )
        yield Fact(REFUSES, "name", message, path, remedy)


def foreign_folders(directory: str, broker: Version) -> Iterator[str]:
    """Yield the directories in a data directory that a start takes for a wrong name (R12)."""
    for name, path in _folders(directory):
        found = names.parse_directory(name)
        since = _SUFFIXES_SINCE.get(found.retirement) if found and found.retirement else None
        if found is not None and (since is None or has(broker, since)):
            continue
        if _is_deleted(name, broker) and not _list_entries(path):
            continue
        if name != names.REMOTE_LOG_INDEX_CACHE or not has(broker, v.REMOTE_INDEX_CACHE):
            yield path


def _is_deleted(name: str, broker: Version) -> bool:
    """Whether a start deletes what has this name, as long as nothing is in it, before it looks."""
    if name == names.META_PROPERTIES + names.TEMPORARY:
        return not has(broker, v.META_ENSEMBLE)
    return name == names.CLEAN_SHUTDOWN and has(broker, v.MARK_READ_FIRST)


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
        elif message := refuse_checkpoint(path, 3, broker):
            if message.startswith(_NO_NUMBER):
                continue  # passed over with a warning
            remedy = (
                f"Move {path} away and start the broker, which writes it again. {_WITHOUT[name]}"
            )
            yield Fact(REFUSES, "checkpoint", message, path, remedy)


#: What it costs to start without a checkpoint.
_WITHOUT = {
    names.RECOVERY_POINT_CHECKPOINT: "After an unclean shutdown, the start reads all logs, which "
    "takes time.",
    names.LOG_START_CHECKPOINT: "Records deleted with kafka-delete-records may be served again, "
    "back to the start of their segment.",
    names.REPLICATION_CHECKPOINT: "High watermarks start at 0 until the replicas catch up.",
    names.CLEANER_CHECKPOINT: "Compacted topics are compacted from their start again.",
}


def refuse_checkpoint(path: str, fields: int, broker: Version) -> str:
    """What a broker says of a checkpoint file it cannot take; empty where it can (X1)."""
    if os.path.isdir(path):
        return "Is a directory"
    try:
        data = read_whole(path, checkpoints.SIZE_LIMIT)
    except PathError:
        return ""
    lines = data.decode("utf-8", "replace").splitlines()
    if not lines or checkpoints.plain_words(data, fields) is not None:
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
        said = checkpoints.split_like_java(line)
        if len(said) != fields:
            return malformed(line)
        for one, limit in zip(said[-2:], (1 << 31, 1 << 63), strict=True):
            number = java_int(one, limit)
            if number is None:
                return f'{_NO_NUMBER}"{one}"' if java else malformed(line)
            if number < 0 and fields == _EPOCH_FIELDS and has(broker, v.EPOCHS_CHECKED):
                ends = "[]" if has(broker, v.EPOCHS_ARE_RECORDS) else "()"
                entry = f"EpochEntry{ends[0]}epoch={said[0]}, startOffset={said[1]}{ends[1]}"
                return f"{_INVALID_EPOCH} {entry}"
    found = len(lines) - 2
    if found == declared:
        return ""
    return (
        f"Expected [{declared}] entries in checkpoint file [{path}], but found only [{found}]"
        if java
        else f"Expected {declared} entries in checkpoint file ({path}), but found only {found}"
    )


def _partitions(
    directory: str, broker: Version, user: User | None, *, kraft: bool
) -> Iterator[Fact]:
    for name, path in _folders(directory):
        if names.parse_directory(name) is None:
            continue
        if not name.startswith(names.CLUSTER_METADATA_TOPIC):
            yield from file_facts(path, broker)
            yield from _small_files(path, broker, kraft=kraft)
        if user is not None:
            yield from _partition_rights(path, broker, user)


def file_facts(partition: str, broker: Version) -> Iterator[Fact]:
    """Say which names and kinds of files in the directory of a partition stop a start (N12)."""
    present = _list_entries(partition)
    for name in present:
        if not present[name] and names.is_usual(name):
            continue
        path = os.path.join(partition, name)
        if _stops_start(name, broker):
            remedy = (
                "Move it away; segments are named with twenty digits, and no broker reads others."
            )
            message = f'{_NO_NUMBER}"{name.partition(".")[0]}"'
            yield Fact(REFUSES, "name", message, path, remedy)
        elif present[name] and _is_opened(path, present, broker):
            # Indexes are opened as old Java does, which words an error in its own way.
            in_java = names.parse(name).kind not in _INDEXES and has(broker, v.DIRECTORY_FAILURES)
            message = f"{path}: Is a directory" if in_java else f"{path} (Is a directory)"
            remedy = "Move that directory away; the file of that name is gone."
            yield Fact(REFUSES, "not-a-file", message, path, remedy)
        elif message := _refuse_aborted(path, present, broker):
            remedy = "Move it away: the start rebuilds it from the log, and nothing is lost."
            yield Fact(REFUSES, "transaction-index", message, path, remedy)


def _is_opened(path: str, present: Mapping[str, bool], broker: Version) -> bool:
    """Whether a start opens a file, so that a directory may not be in its place.

    One in the place of a log is passed over, unless it is the only one. Indexes are opened when
    they are asked, but for those of the newest segment and of segments that are recovered.
    """
    name = os.path.basename(path)
    stem = name.partition(".")[0]
    found = names.parse(name)
    logs = sorted(each for each in present if names.parse(each).kind is Kind.LOG)
    if found.kind is Kind.LOG:
        return len(logs) == 1
    if found.kind is Kind.TRANSACTION_INDEX:
        return has(broker, v.TRANSACTION_INDEX) and stem in _stems(logs)
    if found.kind not in _INDEXES:
        return False
    if not has(broker, v.INDEXES_OPENED_LATE) or not logs or stem >= logs[-1].partition(".")[0]:
        return True
    partition = os.path.dirname(path)
    where = names.parse_directory(os.path.basename(partition))
    directory = os.path.dirname(partition)
    if os.path.lexists(os.path.join(directory, names.CLEAN_SHUTDOWN)) or where is None:
        return False
    said = LogDir.open(directory).offset(
        names.RECOVERY_POINT_CHECKPOINT, where.topic, where.partition
    )
    following = next((each for each in logs if each.partition(".")[0] > stem), logs[-1])
    return said is None or int(following.partition(".")[0]) > said


def _stems(files: Iterable[str]) -> set[str]:
    return {name.partition(".")[0] for name in files}


def _refuse_aborted(path: str, present: Mapping[str, bool], broker: Version) -> str:
    """What a broker says of a transaction index whose entries have another version (I22)."""
    name = os.path.basename(path)
    if not has(broker, v.TRANSACTION_INDEX) or (
        names.parse(name).kind is not Kind.TRANSACTION_INDEX
        or name.partition(".")[0]
        not in _stems(each for each in present if names.parse(each).kind is Kind.LOG)
    ):
        return ""
    one_byte = not has(broker, v.BOTH_VERSION_BYTES)
    try:
        with Source(path) as source:
            version = TransactionIndex(source, 0, one_byte=one_byte).find_refused_version()
    except PathError:
        return ""
    if version is None:
        return ""
    known = "current version is 0" if one_byte else "supported version range is 0 to 0"
    return f"{_ABORTED_VERSION} {version} in transaction index {path}, {known}"


def _small_files(partition: str, broker: Version, *, kraft: bool) -> Iterator[Fact]:
    epochs = os.path.join(partition, names.LEADER_EPOCH_CHECKPOINT)
    message = refuse_checkpoint(epochs, 2, broker) if has(broker, v.LEADER_EPOCHS) else ""
    if message:
        if not has(broker, v.CHECKPOINT_IN_JAVA) and not message.startswith(_INVALID_EPOCH):
            message = f"{_UNREAD[0]} {epochs}"
        rebuild = ("kdump", "reindex", "--only", "leader-epochs", "--write", path_word(partition))
        remedy = f"Move it away, or rebuild it: {format_command(rebuild)}"
        yield Fact(REFUSES, "checkpoint", message, epochs, remedy)
    identity = os.path.join(partition, names.PARTITION_METADATA)
    if has(broker, v.TOPIC_IDS) and (message := refuse_identity(identity, broker)):
        remedy = (
            "Write it again with the lines `version: 0` and `topic_id: ID`; kdump cluster --what "
            "topics shows the id."
            if kraft
            else "Move it away: the start writes it again with the id that ZooKeeper has, and "
            "nothing is lost."
        )
        yield Fact(REFUSES, "partition-metadata", message, identity, remedy)


def _stops_start(name: str, broker: Version) -> bool:
    """Whether a broker fails over the name of a file, because it begins with no number."""
    if name.endswith(names.SWAP) and has(broker, v.SWAPS_RENAMED_FIRST):
        return names.lacks_number(name)
    since = _KINDS_SINCE.get(name.rpartition(".")[2])
    return names.stops_start(name) and (since is None or has(broker, since))


_KINDS_SINCE = {
    "snapshot": v.PRODUCER_STATE,
    "timeindex": v.TIME_INDEX,
    "txnindex": v.TRANSACTION_INDEX,
}


def refuse_identity(path: str, broker: Version) -> str:
    """What a broker says of a `partition.metadata` that it cannot take; empty where it can (X8)."""
    try:
        lines = read_whole(path, SMALL_FILE_LIMIT).decode("utf-8", "replace").splitlines()
        message = _find_malformed(path, lines, broker)
    except PathError:
        message = "Is a directory" if os.path.isdir(path) else ""
    if not message or is_no_io_error(message):
        return message  # not an error of input and output, which older brokers say in their words
    java = has(broker, v.CHECKPOINT_IN_JAVA)
    return message if java else f"{_UNREAD[1]} {path}"


def _find_malformed(path: str, lines: list[str], broker: Version) -> str:
    kind = "partition metadata" if has(broker, v.IDENTITY_REWORDED) else "checkpoint"
    for number, line in enumerate([*lines[:2], *[None] * (2 - len(lines))]):
        if line is None:
            return 'Cannot invoke "java.lang.CharSequence.length()" because "this.text" is null'
        said = re.split(r":\s+", line)
        version = java_int(said[-1], _LINES) if number == 0 else 0
        if len(said) != 2 or version is None or not said[-1]:
            return f"Malformed line in {kind} file [{path}]: {line}"
        if version < 0 or (version and not has(broker, v.IDENTITY_OF_ANY_VERSION)):
            return f"Unrecognized version of partition metadata file + ({path}): {version}"
        if number == 1:
            zero = f"Invalid topic ID in partition metadata file ({path})"
            return no_uuid(said[1]) or (zero if said[1].rstrip("=") == "A" * 22 else "")
    return ""


def _list_entries(partition: str) -> dict[str, bool]:
    """Name what lies in a directory, in order, each with whether it is a directory itself."""
    try:
        with os.scandir(partition) as entries:
            found = {
                one.name: os.path.isdir(one.path) if one.is_symlink() else one.is_dir()
                for one in entries
            }
    except OSError:
        return {}
    return dict(sorted(found.items()))


_READ = (Kind.LOG, Kind.QUORUM_STATE)
_READ_SMALL = (Kind.LEADER_EPOCHS, Kind.PARTITION_METADATA, Kind.TRANSACTION_INDEX)
_INDEXES = (Kind.OFFSET_INDEX, Kind.TIME_INDEX)
_WRITTEN = (Kind.LOG, *_INDEXES)


def _partition_rights(partition: str, broker: Version, user: User) -> Iterator[Fact]:
    """What a user may not do in a partition's directory, as the broker comes to it."""
    epochs = os.path.join(partition, names.LEADER_EPOCH_CHECKPOINT)
    modern = has(broker, v.DIRECTORY_FAILURES)
    remedy = _rights(partition)
    if not user.may(partition, "rx"):
        message = epochs if modern else 'Cannot read the array length because "$this" is null'
        yield Fact(REFUSES, "permission", message, partition, remedy)
        return
    present = _list_entries(partition)
    snapshots = [name for name in present if names.parse(name).kind is Kind.PRODUCER_SNAPSHOT]
    for name in present:
        path, kind = os.path.join(partition, name), names.parse(name).kind
        if (
            modern
            and (kind in _READ_SMALL or name in snapshots[-1:])
            and (kind is not Kind.PARTITION_METADATA or has(broker, v.TOPIC_IDS))
            and not user.may(path, "r")
        ):
            early = kind is Kind.LEADER_EPOCHS and not has(broker, v.SMALL_FILES_FAIL_DIRECTORY)
            message = f"{_UNREAD[0]} {path}" if early else path
            yield Fact(REFUSES, "permission", message, path, remedy)
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


def find_duplicates(node: NodeSettings, broker: Version) -> Iterator[Fact]:
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
                "Compare the two (kdump compare) and move away the one that ends earlier; records "
                "that only it contains are then lost."
            )
            yield Fact(REFUSES, "duplicate-partition", message, path, remedy)
            return
