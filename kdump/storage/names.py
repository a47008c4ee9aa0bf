"""Parse and make file and directory names: every suffix and fixed name (I1, R11, R12).

A segment's files are named for its base offset: the digits before the first dot. Brokers write
twenty and read any number of them. The name proves no record: the base offset is a lower bound
(I25). In front of a file stand at most three things a name can say: what it holds (`Kind`), the
offset it belongs to, and whether it is on its way in or out (the suffix).

    00000000000000000042.timeindex.deleted     TIME_INDEX, 42, ".deleted"
    00000000000000000616-0000000003.checkpoint METADATA_SNAPSHOT, 616, epoch 3
    replication-offset-checkpoint.tmp          OFFSET_CHECKPOINT, ".tmp"
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from functools import lru_cache

from kdump.record.layout import MAX_INT32, MAX_INT64
from kdump.tuples import NamedTuple

OFFSET_MAX = MAX_INT64
TOPIC_SIZE_MAX = 249

DELETED, CLEANED, SWAP = ".deleted", ".cleaned", ".swap"
SNAPSHOT = ".checkpoint"
PART = ".part"  # a metadata snapshot being written (X15)
TEMPORARY = ".tmp"  # an interrupted checkpoint write
OURS = ".kdump-tmp"  # a file reindex had not finished
BACKUP = ".bak-"  # what reindex replaced; the UTC time follows

LOG_START_CHECKPOINT = "log-start-offset-checkpoint"
REPLICATION_CHECKPOINT = "replication-offset-checkpoint"
RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"
QUORUM_STATE = "quorum-state"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LOCK = ".lock"
REMOTE_LOG_SNAPSHOT = "remote_log_snapshot"
#: What a capture of packets is called in a view, and a file of requests and responses.
CAPTURE, FRAMES = "kafka-capture", "kafka-frames"
REMOTE_LOG_INDEX_CACHE = "remote-log-index-cache"  # a directory, no partition (X11)
LOCAL_TIERED_STORAGE = "kafka-tiered-storage"  # the folder that its class makes
REMOTE_LOG_METADATA_TOPIC = "__remote_log_metadata"
CLUSTER_METADATA_TOPIC = "__cluster_metadata"
METADATA_LOG = f"{CLUSTER_METADATA_TOPIC}-0"


class Kind(Enum):
    """What a file holds, going by its name."""

    LOG = "log"
    PRE08_LOG = "pre08-log"
    OFFSET_INDEX = "offset-index"
    TIME_INDEX = "time-index"
    TRANSACTION_INDEX = "transaction-index"
    PRODUCER_SNAPSHOT = "producer-snapshot"
    METADATA_SNAPSHOT = "metadata-snapshot"  # N-E.checkpoint and bootstrap.checkpoint: logs (X15)
    LEADER_EPOCHS = "leader-epochs"
    OFFSET_CHECKPOINT = "offset-checkpoint"
    OTHER_CHECKPOINT = "other-checkpoint"
    PARTITION_METADATA = "partition-metadata"
    QUORUM_STATE = "quorum-state"
    META_PROPERTIES = "meta-properties"
    CLEAN_SHUTDOWN = "clean-shutdown"
    LOCK = "lock"
    REMOTE_LOG_SNAPSHOT = "remote-log-snapshot"
    CAPTURE = "capture"  # of packets
    FRAMES = "frames"  # requests and responses
    UNKNOWN = "unknown"

    __hash__ = object.__hash__  # Enum's own is Python, and members are keys everywhere


#: With so many a broker writes a base offset (O7).
DIGITS = 20

#: Kinds of the files of a segment by what their names end in.
EXTENSIONS = {
    "log": Kind.LOG,
    "kafka": Kind.PRE08_LOG,
    "index": Kind.OFFSET_INDEX,
    "timeindex": Kind.TIME_INDEX,
    "txnindex": Kind.TRANSACTION_INDEX,
    "snapshot": Kind.PRODUCER_SNAPSHOT,
}
_EXTENSION_OF = {kind: extension for extension, kind in EXTENSIONS.items()}
SEGMENT_KINDS = frozenset(_EXTENSION_OF)
INDEX_KINDS = frozenset({Kind.OFFSET_INDEX, Kind.TIME_INDEX, Kind.TRANSACTION_INDEX})

_FIXED = {
    LOG_START_CHECKPOINT: Kind.OFFSET_CHECKPOINT,
    REPLICATION_CHECKPOINT: Kind.OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT: Kind.OFFSET_CHECKPOINT,
    CLEANER_CHECKPOINT: Kind.OFFSET_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT: Kind.LEADER_EPOCHS,
    PARTITION_METADATA: Kind.PARTITION_METADATA,
    BOOTSTRAP_CHECKPOINT: Kind.METADATA_SNAPSHOT,
    QUORUM_STATE: Kind.QUORUM_STATE,
    META_PROPERTIES: Kind.META_PROPERTIES,
    CLEAN_SHUTDOWN: Kind.CLEAN_SHUTDOWN,
    LOCK: Kind.LOCK,
    REMOTE_LOG_SNAPSHOT: Kind.REMOTE_LOG_SNAPSHOT,
    CAPTURE: Kind.CAPTURE,
    FRAMES: Kind.FRAMES,
}

_SUFFIX = re.compile(r"(\.deleted|\.cleaned|\.swap|\.part|\.tmp|\.kdump-tmp|\.bak-[0-9TZ.:-]+)\Z")
_SEGMENT = re.compile(
    r"([0-9]+)"  # base offset
    r"(?:_[A-Za-z0-9_-]{22})?"  # segment id, in the cache of remote indexes (X11)
    r"\.(log|kafka|index|timeindex|txnindex|snapshot)\Z"
)
_METADATA_SNAPSHOT = re.compile(
    r"([0-9]+)-([0-9]+)"  # end offset, exclusive, and epoch
    r"(-[0-9]+)?"  # while it is being written: a random number
    r"\.checkpoint\Z"
)


class FileName(NamedTuple):
    """What a file's name says. `suffix` is empty for a file in use."""

    name: str
    kind: Kind
    base_offset: int | None = None
    suffix: str = ""
    epoch: int | None = None  # metadata snapshots

    @property
    def is_retired(self) -> bool:
        """Whether the file is on its way in or out, or was put aside."""
        return bool(self.suffix)


@lru_cache(maxsize=4096)  # partitions hold files of the same few names, and are listed often
def parse(name: str) -> FileName:
    """Take a file's name apart; a name that says nothing is `Kind.UNKNOWN`."""
    stem, _, extension = name.partition(".")
    if (
        len(stem) == DIGITS  # nearly every name in a data directory, found without a pattern
        and extension in EXTENSIONS
        and stem.isascii()
        and stem.isdigit()
        and int(stem) <= OFFSET_MAX
    ):
        return FileName(name, EXTENSIONS[extension], int(stem))
    found = _SUFFIX.search(name)
    suffix = found[1] if found else ""
    stem = name[: len(name) - len(suffix)]
    if kind := _FIXED.get(stem):
        return FileName(name, kind, suffix=suffix)
    if found := _SEGMENT.match(stem):
        if (base_offset := _number(found[1], OFFSET_MAX)) is not None:
            return FileName(name, EXTENSIONS[found[2]], base_offset, suffix)
    elif found := _METADATA_SNAPSHOT.match(stem):
        end_offset, epoch = _number(found[1], OFFSET_MAX), _number(found[2], MAX_INT32)
        if end_offset is not None and epoch is not None:
            return FileName(name, Kind.METADATA_SNAPSHOT, end_offset, suffix, epoch)
    elif stem.endswith("-checkpoint"):
        return FileName(name, Kind.OTHER_CHECKPOINT, suffix=suffix)
    return FileName(name, Kind.UNKNOWN, suffix=suffix)


def kinds(listed: Iterable[str]) -> set[Kind]:
    """Tell what kinds of file are among many names; most names of a full directory say nothing."""
    return {
        parse(name).kind
        for name in listed
        if "." in name or name in _FIXED or name.endswith("-checkpoint")
    }


def stops_start(name: str) -> bool:
    """Whether a name ends like a segment's and does not begin with a number.

    Brokers read the number before the first dot and fail over such a file when they load the
    partition, also where `.swap` or `.cleaned` follows (seen on 4.1.1).
    """
    bare = name
    for suffix in (SWAP, CLEANED):
        bare = bare.removesuffix(suffix)
    _, dot, extension = bare.rpartition(".")
    if not dot or extension not in EXTENSIONS or EXTENSIONS[extension] is Kind.PRE08_LOG:
        return False
    return lacks_number(name)


def is_usual(name: str) -> bool:
    """Whether a file is a number and a kind, or one that is named so by brokers, as nearly all are.

    No start fails over its name; a transaction index, which it may fail over, is not among them.
    """
    found = parse(name)
    return not (found.suffix or "_" in name or found.kind in _UNUSUAL)


_UNUSUAL = (Kind.UNKNOWN, Kind.TRANSACTION_INDEX)


def lacks_number(name: str) -> bool:
    """Whether what stands before the first dot of a name is no number that Java can read."""
    digits = name.partition(".")[0].removeprefix("-")
    return not (digits.isdecimal() and digits.isascii()) or _number(digits, OFFSET_MAX) is None


def _number(digits: str, largest: int) -> int | None:
    """Read ASCII digits as Java reads a bounded number: any count of them, no overflow."""
    digits = digits.lstrip("0") or "0"
    if len(digits) > 19:
        return None
    number = int(digits)
    return number if number <= largest else None


def file_name(kind: Kind, base_offset: int, suffix: str = "") -> str:
    """Name a segment's file as a broker does: twenty digits, the extension, the suffix."""
    return f"{base_offset:0{DIGITS}d}.{_EXTENSION_OF[kind]}{suffix}"


def backup_name(name: str, utc: str) -> str:
    """Name the file that keeps what `name` was before it was replaced at `utc`."""
    return f"{name}{BACKUP}{utc}"


class Retirement(Enum):
    """Why a partition directory is not the live one (R11)."""

    DELETE = "delete"  # being deleted
    FUTURE = "future"  # being moved between data directories
    STRAY = "stray"  # not assigned to this broker


_RETIREMENT_ENDINGS = {f"-{retirement.value}": retirement for retirement in Retirement}
_ANY_RETIREMENT = tuple(_RETIREMENT_ENDINGS)
_TOPIC = r"[A-Za-z0-9._-]+\Z"
_JAVA_SPACE = r"[ \t\n\x0b\f\r]"


class DirectoryName(NamedTuple):
    """What a partition directory's name says."""

    topic: str
    partition: int
    retirement: Retirement | None = None
    id: str | None = None  # of a retired directory: 32 hexadecimal digits as brokers write it

    @property
    def legal(self) -> bool:
        """Whether a broker would create a topic of that name; loading asks less."""
        return (
            re.match(_TOPIC, self.topic) is not None
            and self.topic not in (".", "..")
            and len(self.topic) <= TOPIC_SIZE_MAX
        )


@lru_cache(maxsize=4096)  # a data directory is listed some times by a run
def parse_directory(name: str) -> DirectoryName | None:
    """Take a directory's name apart as a broker does at load; None where that fails (R12)."""
    retirement = unique = None
    for ending, meaning in _RETIREMENT_ENDINGS.items() if name.endswith(_ANY_RETIREMENT) else ():
        if name.endswith(ending):
            name, _, unique = name[: -len(ending)].rpartition(".")
            if not unique or re.search(_JAVA_SPACE, name) or re.search(_JAVA_SPACE, unique):
                return None
            retirement = meaning
    topic, _, digits = name.rpartition("-")
    if not topic or not digits.isascii() or not digits.isdigit():
        return None
    partition = _number(digits, MAX_INT32)
    return None if partition is None else DirectoryName(topic, partition, retirement, unique)


def directory_name(topic: str, partition: int) -> str:
    """Name a live partition directory."""
    return f"{topic}-{partition}"
