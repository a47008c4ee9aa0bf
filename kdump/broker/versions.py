"""Every change of broker behaviour that kdump knows, by name: since which release, and where from.

A version is a tuple of its numbers; one cut short, (0, 10), stands before all its patches. No other
module compares versions: it asks `has(version, CHANGE)`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from typing import TypeVar

from kdump.tuples import NamedTuple

Answer = TypeVar("Answer")

Version = tuple[int, ...]

#: The newest release whose rules are known here: what is assumed where nobody names a version.
NEWEST: Version = (4, 4)
_FIRST_RELEASE: Version = (0, 6)
_LAST_MINORS = {0: 11, 1: 1, 2: 8, 3: 9}  # of the series that have ended


class Change(NamedTuple):
    """What brokers do from one release on, up to, not including, `until` where that is known.

    `source` names rules of docs/broker, improvement proposals (KIP-) and tickets (KAFKA-).
    """

    since: Version
    source: str
    does: str
    until: Version | None = None


#: The changes that `has` was called with, by identity, for each `same_answer` that is running.
#: None: a version was compared in another way.
_noting: tuple[dict[int, Change | None], ...] = ()
_CHANGES_NOTING = Lock()


def has(version: Version, change: Change) -> bool:
    """Whether a broker of this version does what the change says."""
    for noted in _noting:
        noted[id(change)] = change
    return change.since <= version and (change.until is None or version < change.until)


def _does(version: Version, change: Change) -> bool:
    return change.since <= version and (change.until is None or version < change.until)


def same_answer(
    work: Callable[[], Answer], releases: Iterable[tuple[Version, Version]]
) -> tuple[Answer, bool]:
    """Return what some work gives, and whether it is sure to give the same for other releases.

    It is sure if both releases agree on every change that the work looked up.
    """
    global _noting
    mine: dict[int, Change | None] = {}
    with _CHANGES_NOTING:
        _noting = (*_noting, mine)
    try:
        found = work()
    finally:
        with _CHANGES_NOTING:
            _noting = tuple(noted for noted in _noting if noted is not mine)
    return found, all(
        one == other
        or all(
            change is not None and _does(one, change) == _does(other, change)
            for change in mine.values()
        )
        for one, other in releases
    )


def note_more() -> None:
    """Take note that work looks at a release otherwise than by a change."""
    for noted in _noting:
        noted[0] = None


COUNTED_OFFSETS = Change((0, 8), "S2", "Offsets count messages; before, they were byte positions.")
RECOVERY_POINTS = Change(
    (0, 8, 1), "R1 X3", "Recovery reads everything from the recovery point on."
)
MISSING_INDEX_REBUILT = Change(
    (0, 8, 1),
    "R6",
    "A segment without an offset index is recovered; before, the broker did not start.",
)
BROKEN_INDEX_STOPS = Change(
    (0, 8, 1), "I11", "An index that fails its check stops the broker.", until=(0, 9)
)
META_PROPERTIES = Change((0, 8, 2), "N4", "meta.properties names the owner of a data directory.")
SETS_FIT_SEGMENTS = Change(
    (0, 8, 2),
    "V26",
    "A record set that is larger than segment.bytes after recompression is rejected.",
)
BROKEN_INDEX_REBUILT = Change(
    (0, 9), "I11 I17 KAFKA-7283", "An index that fails its check is rebuilt.", until=(2, 3)
)
EMPTY_INDEX_MADE_FIRST = Change(
    (0, 9), "R6", "A missing index is created empty before the check for it.", until=(0, 10, 1)
)
CHECKPOINTS_FORGIVEN = Change((0, 9), "R1", "A start continues without recovery points.")
KEYS_REQUIRED = Change((0, 9), "V19", "A compacted topic rejects records without a key.")
TOPICS_HAVE_CODECS = Change((0, 9), "V6", "compression.type names the codec that is stored.")
SWAPS_AFTER_LOADING = Change(
    (0, 9),
    "R6",
    "Segments in .swap files are put in place after the others are loaded; before, immediately.",
)
MESSAGE_TIMESTAMPS = Change((0, 10), "KIP-32 L12", "Messages have timestamps: magic 1.")
SIZE_HELD_AGAINST_END = Change(
    (0, 10),
    "S3",
    "The size of an entry is compared with the end of the file before memory is allocated.",
)
WRAPPERS_TIMED = Change(
    (0, 10, 1),
    "V24",
    "A wrapper stored unchanged gets the newest time of its messages; in 0.10.0, it kept its own.",
)
INNER_MAGIC_NAMED = Change(
    (0, 10, 1),
    "V10",
    "A message with another magic inside a wrapper is a corrupt-message error; "
    "in 0.10.0, an unknown error.",
)
TIME_INDEX = Change((0, 10, 1), "KIP-33 I12", "Segments have a time index.")
TIME_LOOKUP = Change((0, 10, 1), "KIP-79 L12", "ListOffsets answers with an offset for a time.")
FIRST_ENTRY_WHOLE = Change(
    (0, 10, 1), "KIP-74 L3", "A fetch returns its first batch complete, however large."
)
READ_BY_CLIENTS_CODE = Change(
    (0, 10, 2),
    "V21",
    "Wrappers are read as clients read them; before, truncated ones ended silently.",
)
IMPOSSIBLE_SIZE_RAISES = Change(
    (0, 10, 2), "S5 L2", "An impossible entry size raises an exception."
)
SIZES_WRAP = Change(
    (0, 10, 2),
    "S6",
    "The end of an entry is computed in 32 bits and can overflow.",
    until=(1, 1, 1),
)
CLEANER_STOPPED_BY_OFFSETS = Change(
    (0, 10, 2),
    "K8 KAFKA-6264",
    "An offset outside the range of an index stops the cleaner.",
    until=(2, 0),
)
RECORD_BATCHES = Change(
    (0, 11), "KIP-98 S6 F22", "Record batches (magic 2); the layout is checked by magic."
)
REQUEST_CHECKED = Change(
    (0, 11), "V32", "A request with a batch of magic 2 contains only that batch."
)
TIMESTAMP_NOT_NEEDED = Change(
    (0, 11), "V22", "Timestamp limits ignore records without a timestamp."
)
PRODUCER_STATE = Change((0, 11), "KIP-98 R8", "A start rebuilds the producer state.")
LEADER_EPOCHS = Change((0, 11), "KIP-101 X2", "A partition has a leader epoch checkpoint.")
TRANSACTION_INDEX = Change((0, 11), "KIP-98 I21 I22", "Segments have a transaction index.")
LOG_START = Change((0, 11), "KIP-107 L16 X3", "A log may start inside a segment.")
EMPTY_RANGE_OF_SEGMENTS = Change((0, 11), "R6", "No segment covers an empty offset range.")
SWAP_DROPS_EVERY_INDEX = Change(
    (0, 11), "R6", "Replacing a log or index by its .swap file deletes all indexes of the segment."
)
PROTOCOL_REWORDED = Change((1, 0), "N2", "Contradictory versions have a different error message.")
DIRECTORY_FAILURES = Change(
    (1, 0), "KIP-112 N7", "A data directory that fails goes offline; before, the broker stops."
)
FIVE_BATCHES_KNOWN = Change(
    (1, 0),
    "R20 KAFKA-5494",
    "The last five batches of a producer are recognized as duplicates; before, only the last.",
)
LAG_REWORDED = Change((1, 0), "N1", "A lag that is too low has a different error message.")
META_ADDRESS_REFUSED = Change((1, 0), "N1", "A broker cannot advertise the address 0.0.0.0.")
FUTURE_REPLICAS = Change((1, 1), "KIP-113 R12", "Replicas can be moved between directories.")
COUNTS_COMPARED = Change(
    (1, 1), "V11", "A batch's count is compared with its offsets; before, with 0."
)
LAST_OFFSETS_INDEXED = Change(
    (2, 0), "I9", "Index entries name a batch's last offset; before, its first."
)
OFFSETS_REFUSED = Change((2, 0), "V27", "A follower reports offsets that do not increase.")
INDEX_MAY_END_AT_BASE = Change(
    (2, 0), "I11", "An index whose last entry names the base offset passes its check."
)
OVERFLOW_SPLIT = Change(
    (2, 0), "R15 KAFKA-6264", "A segment with offsets outside the range of its index is split."
)
SWAP_REPLACES_WHAT_OVERLAPS = Change(
    (2, 0), "R6", "A .swap segment does not delete a segment that ends below it."
)
OFFSETS_KEPT_A_WEEK = Change(
    (2, 0), "KIP-186 G6", "offsets.retention.minutes is 10080 unless set; before, 1440."
)
MAGIC_BEFORE_SIZE = Change((2, 0), "V1", "The magic of an incomplete entry is also checked.")
OFFSETS_EXPIRE_WITH_GROUP = Change(
    (2, 1),
    "KIP-211 G6",
    "Offsets of a group with members do not expire; before, each had its own expiry.",
)
FIRST_ENTRY_LOOKED_AT = Change(
    (2, 1),
    "V32",
    "A request whose record set does not begin with an entry closes the connection.",
    (2, 8),
)
REQUEST_ANSWERED = Change(
    (2, 1),
    "V32",
    "A request that cannot carry its record set gets an error; before, the connection was closed.",
)
CLEANER_GOES_ON = Change(
    (2, 1),
    "K5 KIP-346",
    "A partition on which the cleaner fails is skipped; before, the cleaner thread stopped.",
)
ZSTD = Change((2, 1), "KIP-110 N1", "Batches may be compressed with zstd.")
ZSTD_END_NOT_READ = Change(
    (2, 1), "F31 V21", "Only the part of a zstd stream that the records need is read.", until=(3, 0)
)
PROTOCOL_VALIDATED = Change(
    (2, 1), "N2", "A version in a setting is checked when the setting is read."
)
EPOCHS_ANSWERED = Change((2, 1), "KIP-320 L17", "ListOffsets answers with a leader epoch.")
WARM_SECTION_SEARCH = Change((2, 1), "I4 KAFKA-6432", "The end of an index is searched first.")
INDEXES_OPENED_LATE = Change(
    (2, 3), "N12 KAFKA-7283", "Indexes of older segments are opened on first use."
)
META_OPENED_AS_PATH = Change(
    (2, 3),
    "N4",
    "A meta.properties that cannot be opened is an error; before, it counted as missing.",
)
LOG_START_KEPT = Change(
    (2, 3), "R5", "A log that ends below its log start offset starts over at that offset."
)
FETCH_ENDS_AT_POSITION = Change(
    (2, 3),
    "L3",
    "A fetch ends at a position; before, its last offset was looked up in the segment.",
)
CLUSTER_ID_KEPT = Change((2, 4), "KAFKA-7335 N4", "meta.properties names the cluster.")
ONE_BATCH = Change(
    (2, 4),
    "V9 V10",
    "A record set that is compressed or has magic 2 is one batch, and magics cannot be mixed.",
)
INVALID_NAMED = Change((2, 4), "KIP-467 V20", "INVALID_RECORD is a separate error.")
ORDER_INSIDE = Change(
    (2, 4),
    "V16",
    "Offsets in a compressed record set that are not 0, 1, 2, and so on are rejected.",
    until=(2, 5),
)
LAG_OF_HALF_A_MINUTE = Change(
    (2, 5), "KIP-537 N1", "replica.lag.time.max.ms is 30 seconds unless set; before, 10."
)
RECORD_ERRORS = Change((2, 5), "KIP-467 V20", "All records of a batch are checked.")
ANY_FIRST_SEQUENCE = Change(
    (2, 5), "KIP-360 R20", "An unknown producer can start at any sequence number."
)
MESSAGES_OF_A_MEBIBYTE = Change(
    (2, 5), "V5", "message.max.bytes is 1048588 unless set; before, 1000012."
)
FOLLOWER_SIZES_FREE = Change(
    (2, 5), "V5", "Followers accept batches larger than max.message.bytes."
)
KEYS_SKIPPED = Change(
    (2, 6), "V16", "Keys and values are not read in a batch that is stored unchanged."
)
EPOCHS_CHECKED = Change((2, 7), "N12", "A negative epoch or offset in a checkpoint is rejected.")
RANGES_REWORDED = Change((2, 8), "N1", "A number outside its range has a different error message.")
LISTENER_NAMES_FIRST = Change(
    (2, 8), "N1", "Duplicate listener names are checked before duplicate ports."
)
META_VERSION_IMPLIED = Change(
    (2, 8),
    "N4",
    "A meta.properties without a version counts as version 0; before, it was rejected.",
)
MARK_READ_FIRST = Change(
    (2, 8), "R1 N12", "The clean shutdown file is read and deleted before directories are listed."
)
KRAFT = Change((2, 8), "KIP-500 N1", "With KRaft, a node can store the cluster metadata itself.")
TOPIC_IDS = Change((2, 8), "KIP-516 X8", "partition.metadata names the topic by its id.")
LOG_START_GOES_FIRST = Change(
    (3, 0),
    "KAFKA-12177 K1",
    "Retention checks log start, size, then time; before, in reverse order.",
)
SWAPS_RENAMED_FIRST = Change(
    (3, 0), "R6", "Swapped segments get their plain names before any segment is loaded."
)
MAX_TIMESTAMP_LOOKUP = Change(
    (3, 0), "KIP-734 L11", "The time -3 requests the largest timestamp; before, it was a time."
)
FORMATS_FIXED = Change(
    (3, 0), "KIP-724 V33", "Messages have magic 2, unless inter.broker.protocol.version is old."
)
SMALL_FILES_FAIL_DIRECTORY = Change(
    (3, 0),
    "N14",
    "A malformed small file of a partition takes its data directory offline; before, it stopped "
    "the start.",
)
ROLES_CHECKED = Change(
    (3, 0), "N1", "Voters and controller.listener.names are checked against process.roles."
)
DELETE_HORIZON = Change(
    (3, 1),
    "KIP-534 K6",
    "Tombstones and markers expire by their batch's horizon; before, by files.",
)
CONTROLLER_LISTENERS_CHECKED = Change(
    (3, 1), "N1", "Controller listeners are checked against roles, and have a default protocol."
)
ONE_NODE_ID = Change((3, 3), "N1", "node.id and broker.id must be the same, also with ZooKeeper.")
VERSIONS_UNQUOTED = Change((3, 3), "N2", "An unknown version has a different error message.")
CHECKPOINT_IN_JAVA = Change((3, 3), "N12", "A bad checkpoint has a different error message.")
BOOTSTRAP_CHECKPOINT = Change(
    (3, 3), "N10", "bootstrap.checkpoint contains the first records of the metadata log."
)
METADATA_LEVELS_NAMED = Change(
    (3, 4), "N11", "A metadata.version without a name has its own error message."
)
PRODUCER_EXPIRATION = Change(
    (3, 4), "KIP-854 R10", "Idle producers are remembered for one day; before, for seven."
)
METADATA_RECORDS_END = Change(
    (3, 4), "N11", "A record of the metadata log that cannot be loaded stops the start."
)
EARLIEST_LOCAL_LOOKUP = Change(
    (3, 5), "KIP-405 L11", "The time -4 requests the local log start; before, it was a time."
)
PORTS_OF_TWO_FAMILIES = Change(
    (3, 6), "KIP-797 N1", "Two listeners may share a port, one with IPv4 and the other with IPv6."
)
REMOTE_INDEX_CACHE = Change(
    (3, 6), "KIP-405 X11", "The cache of tiered indexes is not a partition."
)
BEFORE_AND_AFTER = Change(
    (3, 6), "KIP-937 V22", "Timestamps have separate limits before and after the broker's time."
)
TRANSACTIONS_VERIFIED = Change(
    (3, 6), "KIP-890 V34", "A leader asks the coordinator before a transaction begins in a log."
)
TIERED_STORAGE = Change(
    (3, 6), "KIP-405 W1", "Older segments of a topic can be in remote storage only."
)
METADATA_SNAPSHOTS_END = Change(
    (3, 6), "N9", "A metadata snapshot that cannot be loaded stops the start."
)
TOPIC_TWICE_ENDS = Change(
    (3, 6),
    "N11",
    "A topic created twice in the metadata log stops the start; before, it was replaced.",
)
REMOTE_STATE_CHECKED = Change(
    (3, 6, 1), "W5", "A lookup by time skips remote segments whose copy is not finished."
)
STOP_NAMES_EPOCH = Change(
    (3, 7), "X6", "The clean shutdown file contains the broker epoch; before, it was empty."
)
DIRECTORY_IDS = Change(
    (3, 7), "KIP-858 X5", "meta.properties of a KRaft node contains the directory.id."
)
METADATA_DIR_NEEDED = Change(
    (3, 7), "N14 KIP-858", "A node stops when the directory of its metadata log fails."
)
IDENTITY_OF_ANY_VERSION = Change(
    (3, 7), "N12", "The version of partition.metadata is ignored; before, it had to be 0."
)
META_ENSEMBLE = Change(
    (3, 7), "KIP-858 N3", "All meta.properties are read, then verified together, by path."
)
STRAYS_SET_ASIDE = Change(
    (3, 7),
    "R11",
    "A partition that the cluster does not assign to the broker is renamed to -stray.",
)
QUORUM_VERSION_CHECKED = Change(
    (3, 7), "N8", "A quorum-state with another version stops the start; before, it was ignored."
)
QUORUM_STATE_MATTERS = Change(
    (3, 8), "N8", "An unreadable quorum-state stops the start; before, it was cleared."
)
QUORUM_VERSION_1 = Change(
    (3, 8), "KIP-853 N8", "quorum-state can name the directory that was voted for."
)
EXACT_MAX_TIMESTAMP = Change(
    (3, 8),
    "KAFKA-16310 L15",
    "A lookup finds the record with the largest timestamp; before, its batch.",
)
CONTROLLERS_ADVERTISED = Change((3, 9), "KIP-853 N1", "Controllers have advertised listeners, too.")
LATEST_TIERED_LOOKUP = Change(
    (3, 9), "KIP-1005 L11", "The time -5 requests the last tiered offset; before, it was a time."
)
LOWER_TIMES_REFUSED = Change(
    (3, 9), "L11", "A negative time without a meaning is rejected; before, it was a time."
)
KRAFT_VERSION = Change(
    (3, 9), "KIP-853 N11", "A cluster has a level for the feature kraft.version."
)
LAST_BATCH_KEPT = Change(
    (3, 9, 2),
    "KAFKA-17076 K6",
    "The last batch of a compaction is kept even if it is empty.",
    until=(4, 4),
)
KRAFT_ONLY = Change(
    (4, 0), "KIP-500 N1", "Nodes require process.roles; ZooKeeper is no longer supported."
)
TWO_RECOVERY_THREADS = Change(
    (4, 0), "KIP-1030", "num.recovery.threads.per.data.dir is 2 unless set; before, 1."
)
FUTURE_LIMITED = Change(
    (4, 0), "KIP-1030 V22", "message.timestamp.after.max.ms is an hour unless set."
)
BATCHES_ONLY = Change(
    (4, 0), "KIP-896 V32", "Requests with messages of magic 0 or 1 are no longer supported."
)
REMOTE_DELETION_RETRIED = Change(
    (4, 0), "W13", "An unfinished deletion of a remote segment is retried."
)
OLD_MESSAGES_REWRITTEN = Change(
    (4, 0), "KIP-724 K6", "The cleaner rewrites messages of magic 0 and 1 as record batches."
)
READ_GIVES_BASE_OFFSET = Change(
    (4, 0), "KAFKA-17803 L7", "The first unstable offset is at the start of a batch that exists."
)
LOCAL_COPY_SEARCHED = Change(
    (4, 0), "KAFKA-17498 W5", "A time in a remote segment that is also local is looked up locally."
)
BASE_OFFSET_SEARCH = Change(
    (4, 1), "KAFKA-18989 L2", "A search within a segment compares base offsets first."
)
SHORT_MARKERS_RAISE = Change(
    (4, 1), "R7", "A marker with too short a value stops the load; before, recovery ended there."
)
CONTROLLER_LISTENERS_REQUIRED = Change((4, 2), "N1", "controller.listener.names is checked first.")
EARLIEST_PENDING_LOOKUP = Change(
    (4, 2), "KIP-1023 L11", "The time -6 requests the first offset that is not yet uploaded."
)
LARGER_THAN_START = Change((4, 2), "N9", "A missing snapshot has a different error message.")
EPOCHS_ARE_RECORDS = Change((4, 2), "N12", "The error message for a bad epoch has brackets.")
IDENTITY_REWORDED = Change((4, 2), "N12", "A bad partition.metadata has a different error message.")
LISTS_CHECKED = Change(
    (4, 2), "KIP-1161 N1", "Lists are checked for emptiness and repeats when they are read."
)
REMOTE_TIME_EXCEEDED = Change(
    (4, 3),
    "W13",
    "A remote segment exactly as old as retention.ms is kept; before, it was deleted.",
)
NEWER_BROKER_RECORD = Change((4, 3), "N11", "Brokers register with version 4 of the record.")
SETTINGS_REWORDED = Change(
    (4, 4), "N1", "Conflicting ids and listeners have a different error message."
)
LAST_REPLICATED_BATCH_KEPT = Change(
    (4, 4), "KAFKA-20452 K6", "The batch below the high watermark is kept even if it is empty."
)
BOTH_VERSION_BYTES = Change(
    (4, 4),
    "I21",
    "Both bytes of an aborted transaction's version are read; before, only the first.",
)
FUTURE_SEGMENTS_BY_FILE_TIME = Change(
    (4, 4, 1), "KAFKA-20609 K7", "A tiered segment with future timestamps expires by its file time."
)


#: Release -> the highest metadata.version it runs, and the highest that it has a name for (N11).
_METADATA_LEVELS = {
    (3, 3): (7, 7), (3, 4): (8, 8), (3, 5): (11, 11), (3, 6): (14, 14), (3, 7): (19, 20),
    (3, 8): (20, 23), (3, 9): (21, 25), (4, 0): (25, 26), (4, 1): (27, 29), (4, 2): (29, 30),
    (4, 3): (30, 33), (4, 4): (33, 34),
}  # fmt: skip
_METADATA_NAMES = (
    "3.0-IV1 3.1-IV0 3.2-IV0 3.3-IV0 3.3-IV1 3.3-IV2 3.3-IV3 3.4-IV0 3.5-IV0 3.5-IV1 3.5-IV2 "
    "3.6-IV0 3.6-IV1 3.6-IV2 3.7-IV0 3.7-IV1 3.7-IV2 3.7-IV3 3.7-IV4 3.8-IV0 3.9-IV0 4.0-IV0 "
    "4.0-IV1 4.0-IV2 4.0-IV3 4.1-IV0 4.1-IV1 4.2-IV0 4.2-IV1 4.3-IV0 4.4-IV0 4.4-IV1 4.4-IV2 "
    "4.5-IV0"
).split()


#: The minor releases, oldest first. Before 0.8 and 0.10 patches had features of their own.
RELEASES: tuple[Version, ...] = (
    (0, 7), (0, 8, 0), (0, 8, 1), (0, 8, 2), (0, 9), (0, 10, 0), (0, 10, 1), (0, 10, 2), (0, 11),
    (1, 0), (1, 1), *((2, minor) for minor in range(9)), *((3, minor) for minor in range(10)),
    *((4, minor) for minor in range(NEWEST[1] + 1)),
)  # fmt: skip


def first_with(change: Change) -> Version:
    """Return the first minor release that does what a change says."""
    return next(release for release in RELEASES if change.since <= release)


def last_without(change: Change) -> Version:
    """Return the last minor release before a change."""
    return RELEASES[RELEASES.index(first_with(change)) - 1]


def find_release_by_levels(levels: Mapping[str, int]) -> Version | None:
    """Return the release whose nodes register with these highest levels; None: none known does.

    A node may be told to run levels that are not stable yet. Then metadata.version may be that of
    a later release, which would run more of the other features.
    """
    level = levels.get("metadata.version", 0)
    found = [
        (level == stable, release)
        for release, (stable, named) in _METADATA_LEVELS.items()
        if level in (stable, named)
        and all(
            one[1] <= levels.get(name, 0) for name, one in (feature_levels(release) or {}).items()
        )
    ]
    return max(found)[1] if found else None


def first_of(version: Version) -> Version | None:
    """Return the minor release that a version is of; None: it is newer than all."""
    return next((release for release in RELEASES if not is_newer(version, release)), None)


def find_first_release(level: int) -> Version | None:
    """Return the first release that runs a level of metadata.version; None: none known does."""
    if level < _METADATA_LEVELS[(3, 3)][0]:
        return None
    able = (release for release, (_, named) in _METADATA_LEVELS.items() if level <= named)
    return next(able, NEWEST)


def metadata_name(level: int) -> str:
    """Name a level of metadata.version."""
    return _METADATA_NAMES[level - 1] if 0 < level <= len(_METADATA_NAMES) else str(level)


def feature_levels(version: Version) -> dict[str, tuple[int, int, int]] | None:
    """Give the levels of features that a release runs: lowest, highest, highest that has a name.

    None for a release of which they are not known.
    """
    note_more()
    major, minor = min(version[:2], NEWEST)
    levels = _METADATA_LEVELS.get((major, minor))
    if levels is None:
        return None
    lowest = 7 if has(version, KRAFT_ONLY) else 1
    found = {"metadata.version": (lowest, *levels)}
    if has(version, KRAFT_VERSION):
        found["kraft.version"] = (0, 1, 1)
    if has(version, KRAFT_ONLY):
        found |= {"transaction.version": (0, 2, 2), "group.version": (0, 1, 1)}
        found["eligible.leader.replicas.version"] = (0, 1, 1)
        share = 2 if has(version, LISTS_CHECKED) else 1
        found["share.version"] = (0, share, share)
        found["streams.version"] = (0, share - 1, share - 1)
    return found


def read_version(text: str) -> Version:
    """Read a version of Kafka, as in 2.8, 4.1.1 or 0.10.0-IV1."""
    match = re.fullmatch(r"(\d+(?:\.\d+){1,3})(?:-IV\d+)?", text.strip())
    if match is None:
        raise ValueError("is not a version; use, for example, 2.8 or 0.10.2.1")
    return tuple(map(int, match[1].split(".")))


def read_broker_version(text: str) -> Version:
    """Read the version of a broker: one that there is, or one that may come."""
    version = read_version(text)
    major, minor = version[:2]
    if version < _FIRST_RELEASE or minor > _LAST_MINORS.get(major, minor):
        raise ValueError("is not a release of Kafka; use, for example, 2.8 or 0.10.2.1")
    return version


def protocol_version(text: str) -> Version | None:
    """Read the version of a protocol or of messages: a release, or one of its steps."""
    try:
        return read_version(text)
    except ValueError:
        return None


def is_newer(version: Version, broker: Version) -> bool:
    """Whether a protocol came with a later release than the broker's."""
    note_more()
    return version[:2] > broker[:2] if version[0] else version[:3] > broker[:3]


#: Release -> the newest step of the protocol that it speaks, from 0.10.2 on; 3.x keeps to 3.0.
_PROTOCOLS = {
    (0, 10): "0.10.2-IV0", (0, 11): "0.11.0-IV2", (1, 0): "1.0-IV0", (1, 1): "1.1-IV0",
    (2, 0): "2.0-IV1", (2, 1): "2.1-IV2", (2, 2): "2.2-IV1", (2, 3): "2.3-IV1", (2, 4): "2.4-IV1",
    (2, 5): "2.5-IV0", (2, 6): "2.6-IV0", (2, 7): "2.7-IV2", (2, 8): "2.8-IV1",
}  # fmt: skip


def newest_protocol(version: Version) -> str | None:
    """Name the step of the protocol whose messages a release writes unless told otherwise (N2)."""
    note_more()
    if version < (0, 10, 2):
        return None
    major, minor = version[:2]
    return _PROTOCOLS.get((major, minor), "3.0-IV1")


def is_newer_than_known(version: Version) -> bool:
    """Whether the rules of the newest release known stand in for those of this one."""
    note_more()
    return version[: len(NEWEST)] > NEWEST


def text_of(version: Version) -> str:
    """Write a version as releases are named."""
    return ".".join(map(str, version))
