"""What a start makes of a KRaft node's metadata log, snapshots and quorum (N8 to N11)."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from kdump import kernels
from kdump.broker import versions as v
from kdump.broker.node_directories import (
    file_facts,
    is_no_io_error,
    refuse_checkpoint,
    refuse_identity,
)
from kdump.broker.node_settings import REFUSES, STARTS, UNKNOWN, Fact, NodeSettings
from kdump.broker.versions import Version, feature_levels, has, metadata_name
from kdump.errors import PathError
from kdump.findings.shell import BOOTSTRAP, format_command
from kdump.kernels import columns as c
from kdump.kernels.layout import FORMATS, HEADER_SIZE_UP_TO_MAGIC
from kdump.messages.records import (
    FRAME_VERSION,
    UNKNOWN_FRAME,
    UNKNOWN_TYPE,
    DecodedValue,
    decoder,
)
from kdump.messages.wire import MalformedError, Reader
from kdump.record.batch import read_batch
from kdump.record.frames import Gap, Run
from kdump.storage import names
from kdump.storage.checkpoints import java_int
from kdump.storage.file_records import DEFAULT_LIMIT, walk
from kdump.storage.local_log import LocalLog, with_next_base
from kdump.storage.names import Kind
from kdump.storage.properties import (
    SIZE_LIMIT,
    is_topic_id,
    no_uuid,
    parse_partition_metadata,
)
from kdump.storage.source import Source, read_whole

LOST = "metadata-lost"
_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
_DIRECTORIES_SINCE = 17  # the metadata.version that keeps where replicas lie
_CORDONED_SINCE = 30  # the one that keeps which of them take no new replicas
_MAY_CORDON = 4  # the version of a broker's registration from which on it says that
_FIELDS = {
    0: ("clusterId", "leaderId", "leaderEpoch", "votedId", "appliedOffset", "currentVoters"),
    1: ("leaderId", "leaderEpoch", "votedId", "votedDirectoryId"),
}
_SNAPSHOTS = tuple(f"{names.SNAPSHOT}{ending}" for ending in ("", names.PART, names.DELETED))
_BATCHES = {each.magic for each in FORMATS if not each.is_legacy}
_APPLIED = "appliedOffset"
_NUMBERS = ("leaderId", "leaderEpoch", "votedId", _APPLIED)
_DROP_VOTE = (
    "Move quorum-state away: the node then does not know its last vote, and asks the other "
    "controllers. Start it only after they have a leader, so that it cannot vote twice in one "
    "epoch."
)
_FETCH = (
    "If other controllers have the log, move __cluster_metadata-0 away and start: the node "
    "fetches it again. If this is the only controller, try the previous snapshot or a backup: "
    "later changes to the cluster are lost."
)
_RUN_NEWER = (
    "Start the version that wrote it, or a newer one; to run this version, first lower "
    "metadata.version there"
)


def quorum_facts(node: NodeSettings, broker: Version) -> Iterator[Fact]:
    """Say what a KRaft node's start makes of its metadata directory."""
    directory = node.metadata_dir
    if not node.kraft or directory is None or not os.path.isdir(directory):
        return
    path = os.path.join(directory, names.METADATA_LOG)
    yield from _bootstrap(directory, broker)
    if os.path.lexists(path) and not os.path.isdir(path):
        yield Fact(REFUSES, "not-a-directory", path, path, _FETCH)
        return
    if not os.path.isdir(path):
        yield _missing_fact(node, path)
        return
    try:
        log = LocalLog.open(path)
    except PathError as error:
        yield Fact(REFUSES, "permission", str(error), path, None)
        return
    yield from file_facts(path, broker)
    yield from _small_files(path, broker)
    yield from _snapshot_names(path)
    yield from _quorum_state(os.path.join(path, names.QUORUM_STATE), broker)
    try:
        yield from _log(node, log, broker)
    except PathError as error:  # such as a link that leads nowhere
        message = f"Whether its records stop the start: they cannot be read ({error.reason})."
        yield Fact(UNKNOWN, "unreadable", message, error.path, _FETCH)


def _is_empty(path: str) -> bool:
    """Whether a file has no bytes; one that cannot be asked is left to whoever reads it."""
    try:
        return os.path.getsize(path) == 0
    except OSError:
        return False


def _missing_fact(node: NodeSettings, path: str) -> Fact:
    if node.voters and node.voters == {node.node_id}:
        message = (
            "The only controller starts an empty metadata log: the cluster forgets all topics, and "
            "their partitions are set aside."
        )
        remedy = "Restore __cluster_metadata-0 before any start, from a backup or the old volume."
        return Fact(STARTS, LOST, message, path, remedy)
    message = "The node has neither a metadata log nor a metadata snapshot."
    remedy = (
        "If this is the only controller, restore __cluster_metadata-0 before any start, or the "
        "cluster loses all topics. If there are other controllers, the node fetches the metadata "
        "from them."
    )
    return Fact(STARTS, "metadata-missing", message, path, remedy)


# Small files.


def _bootstrap(directory: str, broker: Version) -> Iterator[Fact]:
    path = os.path.join(directory, names.BOOTSTRAP_CHECKPOINT)
    if not os.path.lexists(path) or not has(broker, v.BOOTSTRAP_CHECKPOINT):
        return
    try:
        levels = [
            record.data
            for record in _records_of(path)
            if record.type == "feature_level_record" and record.data
        ]
    except PathError as error:
        message = "java.io.IOException: Is a directory" if os.path.isdir(path) else str(error)
        yield Fact(REFUSES, "bootstrap", message, path, "Move it away: the log is more complete.")
        return
    if not any(level["name"] == "metadata.version" for level in levels):
        message = (
            "No FeatureLevelRecord for metadata.version was found in the bootstrap metadata from "
            f"the binary bootstrap metadata file: {path}"
        )
        remedy = (
            "If __cluster_metadata-0 has a log, move the file away: only the first start of a "
            "cluster reads it, and nothing is lost."
        )
        yield Fact(REFUSES, "bootstrap", message, path, remedy)


def _small_files(path: str, broker: Version) -> Iterator[Fact]:
    epochs = os.path.join(path, names.LEADER_EPOCH_CHECKPOINT)
    if message := refuse_checkpoint(epochs, 2, broker):
        if not is_no_io_error(message):
            message = f"Error while reading checkpoint file {epochs}"
        remedy = "Move it away: the start writes it again from the log, and nothing is lost."
        yield Fact(REFUSES, "checkpoint", message, epochs, remedy)
    identity = os.path.join(path, names.PARTITION_METADATA)
    message = refuse_identity(identity, broker)
    if message:
        if not is_no_io_error(message):
            message = f"Error while reading partition metadata file {identity}"
    elif os.path.isfile(identity):
        said = None
        with suppress(PathError):  # who may not read it is told so
            said = parse_partition_metadata(read_whole(identity, SIZE_LIMIT)).values.get("topic_id")
        if said is not None and is_topic_id(said) and said != _TOPIC_ID:
            option = f"Some({_TOPIC_ID})"
            if has(broker, v.KRAFT_ONLY):
                option = f"Optional[{_TOPIC_ID}]"
            message = (
                f"Tried to assign topic ID {option} to log for topic partition "
                f"__cluster_metadata-0,but log already contained topic ID {said}"
            )
    if message:
        remedy = "Move the file away: the start writes it again, and nothing is lost."
        yield Fact(REFUSES, "partition-metadata", message, identity, remedy)


def _snapshot_names(path: str) -> Iterator[Fact]:
    """Names that end as a snapshot's and do not begin as one: 20 digits, any letter, 10 digits."""
    for name in sorted(os.listdir(path)):
        if not name.endswith(_SNAPSHOTS):
            continue
        for begin, end, bits in ((0, 20, 63), (21, 31, 31)):
            if len(name) < end:
                message = f"begin {begin}, end {end}, length {len(name)}"
            elif java_int(name[begin:end], 1 << bits) is None:
                message = f'For input string: "{name[begin:end]}"'
            else:
                continue
            remedy = "Move it away; nodes do not read its contents."
            yield Fact(REFUSES, "metadata-snapshot", message, os.path.join(path, name), remedy)
            break


def _quorum_state(path: str, broker: Version) -> Iterator[Fact]:
    if not os.path.lexists(path):
        return
    unread = f"Error while reading the Quorum status from the file {path}"
    try:
        lines = read_whole(path, SIZE_LIMIT).decode("utf-8").splitlines()
        said: Any = json.loads(lines[0], parse_float=_Fraction)
        if not isinstance(said, dict) or "data_version" not in said:
            raise ValueError
    except (PathError, ValueError, IndexError, RecursionError):
        yield _unread_quorum_state(unread, path, broker)
        return
    if message := _refuse_quorum(said, broker):
        yield Fact(REFUSES, Kind.QUORUM_STATE.value, message, path, _DROP_VOTE)


def _unread_quorum_state(message: str, path: str, broker: Version) -> Fact:
    if has(broker, v.QUORUM_STATE_MATTERS):
        return Fact(REFUSES, Kind.QUORUM_STATE.value, message, path, _DROP_VOTE)
    said = "The start clears this file, which it cannot read, with a warning."
    remedy = (
        "The node forgets its vote in the last epoch; if the quorum has other nodes, start it "
        "after they have a leader."
    )
    return Fact(STARTS, Kind.QUORUM_STATE.value, said, path, remedy)


def _refuse_quorum(said: dict[str, Any], broker: Version) -> str:
    version = said["data_version"]
    version = version if isinstance(version, int) else 0  # as Jackson takes a text for a number
    newest = int(has(broker, v.QUORUM_VERSION_1))
    if has(broker, v.QUORUM_VERSION_CHECKED) and not 0 <= version <= newest:
        if not newest:
            return f"Unknown data version of {version}"
        shown = newest if has(broker, v.KRAFT_VERSION) else "$d"  # 3.8 leaves it so
        within = f"within the min (0) and max ({shown}) supported version"
        return f"data_version ({version}) is not {within}"
    rules = version if newest else 0
    for name in _FIELDS[rules]:
        if name not in said:
            return (
                f"QuorumStateData: unable to locate field '{name}', which is mandatory in version "
                f"{version}"
            )
        if name in _NUMBERS and (message := _no_number(said[name], 31 + 32 * (name == _APPLIED))):
            return f"QuorumStateData: {message}"
    if rules == 0 and said["currentVoters"] is None:
        return (
            'Cannot invoke "java.util.List.stream()" because the return value of '
            '"org.apache.kafka.raft.generated.QuorumStateData.currentVoters()" is null'
        )
    if rules == 1 and said.get("currentVoters"):
        return "Can't read version 1 of Voter"
    return no_uuid(str(said.get("votedDirectoryId", _TOPIC_ID)))


class _Fraction(str):
    """A number with a fraction, as it is written."""


def _no_number(value: Any, bits: int) -> str:
    """What Kafka says of a member of a JSON object that is to be a number; empty where it is."""
    if isinstance(value, str) and not isinstance(value, _Fraction):
        return "expected an integer or string type, but got STRING"
    written = value if isinstance(value, _Fraction) else json.dumps(value)
    text = "" if isinstance(value, (dict, list)) else written
    known = java_int(text, 1 << bits) is not None
    return "" if known else f'failed to parse number: For input string: "{text}"'


# The log and its snapshots.


_CRC, _COVERED = 17, 21  # where a batch has its checksum, and what that is of


def _sums(path: str, position: int) -> tuple[int, int]:
    """The checksum that a batch has, and the one that its bytes call for."""
    with Source(path) as source:
        length = int.from_bytes(source.read(position + 8, 4), "big")
        data = source.read(position, min(12 + max(length, 0), DEFAULT_LIMIT))
    return int.from_bytes(data[_CRC:_COVERED], "big"), kernels.crc32c(data, _COVERED, len(data))


def _records_of(path: str) -> Iterator[DecodedValue]:
    decode = decoder(names.CLUSTER_METADATA_TOPIC)
    for run in walk(path):
        for value in _values(run, 0) if isinstance(run, Run) else ():
            if (record := decode(None, value)[1]) is not None:
                yield record


def _values(run: Run, begin: int) -> Iterator[bytes | None]:
    """The values of the records of batches that reach an offset, without control records."""
    for row in range(run.batches.count):
        if run.batches.last_offset(row) < begin or run.batches.flags_of(row) & c.CONTROL:
            continue
        for piece in read_batch(run.data, run.base, run.batches, row, limit=DEFAULT_LIMIT):
            for number in range(len(piece.records.offsets)):
                yield piece.records.payload(piece.data, number)


def _log(node: NodeSettings, log: LocalLog, broker: Version) -> Iterator[Fact]:
    snapshots = log.snapshots(Kind.METADATA_SNAPSHOT)
    newest = snapshots[-1] if snapshots else None
    logs = [segment for segment in log.logs if segment.log is not None]
    first = logs[0].base_offset if logs else None
    empty = all(_is_empty(str(segment.log)) for segment in logs)
    if newest is None and (first is None or (empty and first == 0)):
        yield _missing_fact(node, log.path)
        return
    if first and (newest is None or newest[0] < first):
        larger, none = (
            ("than", "Optional.empty") if has(broker, v.LARGER_THAN_START) else ("then", "None")
        )
        message = (
            "Inconsistent snapshot state: there must be a snapshot at an offset larger "
            f"{larger} the current log start offset {first}, but the latest snapshot is {none}"
        )
        yield Fact(REFUSES, "metadata-gap", message, log.path, _FETCH)
        return
    judge = _Judge(broker)
    begin = 0
    if newest is not None:
        begin, path = newest
        found = judge.snapshot(path)
        if (found is not None or judge.cut) and not has(broker, v.METADATA_SNAPSHOTS_END):
            yield _passed_fact("It is cut short." if found is None else found[1], path)
            return
        yield from _stop_facts(found, path, broker)
    else:
        path = log.path
    if judge.refused:
        return
    found = judge.log(logs, begin)
    path = str(logs[-1].log) if logs else path
    if found is not None and not has(broker, v.METADATA_RECORDS_END) and not _hangs(found):
        yield _passed_fact(found[1], path)
        return
    yield from _stop_facts(found, path, broker)
    if not judge.refused:
        yield from _stop_facts(judge.end(), log.path, broker)


def _hangs(found: tuple[str, str]) -> bool:
    """Whether a node of 3.3 never comes to its start over a record of the log (N11)."""
    cause, message = found
    return cause == "feature" or message.startswith("Can't find topic")


def _passed_fact(message: str, path: str) -> Fact:
    said = f"The node starts without the metadata that it cannot load here: {message}"
    remedy = (
        "Repair this before clients connect: if there are other controllers, move "
        "__cluster_metadata-0 away, and the node fetches it again; otherwise try the previous "
        "snapshot, or a backup."
    )
    return Fact(STARTS, "metadata-not-loaded", said, path, remedy)


def _stop_facts(found: tuple[str, str] | None, path: str, broker: Version) -> Iterator[Fact]:
    if found is None:
        return
    cause, message = found
    remedy = _FETCH if cause.startswith("metadata") else _run_newer(broker)
    outcome = UNKNOWN if not message else REFUSES
    if outcome == UNKNOWN:
        message = (
            "The snapshot is truncated, so it is unknown whether the log contradicts its missing "
            "part."
        )
    yield Fact(outcome, cause, message, path, remedy)


def _run_newer(broker: Version) -> str:
    """What to do about a level of a feature; metadata.version to the highest that this one runs."""
    levels = feature_levels(broker)
    if levels is None:
        return f"{_RUN_NEWER}."
    words = ("kafka-features.sh", "--bootstrap-server", BOOTSTRAP, "downgrade", "--metadata")
    lower = format_command((*words, metadata_name(levels["metadata.version"][1])))
    return f"{_RUN_NEWER}: {lower}"


class _Judge:
    """Goes through records as a controller of a version does; says what stops it."""

    def __init__(self, broker: Version) -> None:
        self._broker = broker
        self._decode = decoder(names.CLUSTER_METADATA_TOPIC)
        self._brokers: set[int] = set()
        self._has_directories = False
        self._may_cordon = False
        self._topics: dict[str, str] = {}  # name -> id
        self._known: dict[str, tuple[str, set[int]]] = {}  # id -> name, and its partitions
        self._before: tuple[dict[str, str], dict[str, tuple[str, set[int]]]] | None = None
        self._level = 0
        self.cut = False
        self.refused = False

    def snapshot(self, path: str) -> tuple[str, str] | None:
        """Read a snapshot whole; nothing of it may be broken, but it may end too early."""
        if _is_empty(path):
            return self._stop("metadata-snapshot", "No value present")
        for item in walk(path):
            if isinstance(item, Gap):
                with Source(path) as source:
                    at = item.position + HEADER_SIZE_UP_TO_MAGIC - 1
                    byte = int.from_bytes(source.read(at, 1), "big", signed=True)
                if byte not in _BATCHES:
                    message = f"Invalid magic found in record: {byte}"
                    return self._stop("metadata-snapshot", message)
                if item.reason in ("cut-short", "short-tail"):
                    self.cut = True
                    continue
                stored, computed = _sums(path, item.position)
                message = f"Record is corrupt (stored crc = {stored}, computed crc = {computed})"
                return self._stop("metadata-snapshot", message)
            if isinstance(item, Run):
                magics = map(item.batches.magic, range(item.batches.count))
                odd = next((magic for magic in magics if magic not in _BATCHES), None)
                if odd is not None:
                    return self._stop("metadata-snapshot", f"Invalid magic found in record: {odd}")
                if found := self._run(item, 0):
                    return found
        return None

    def log(self, logs: list[Any], begin: int) -> tuple[str, str] | None:
        """Read the log up to where recovery cuts it."""
        for segment, following in with_next_base(logs):
            if following is not None and following <= begin:
                continue
            for item in walk(str(segment.log), next_base=following):
                if not isinstance(item, Run):
                    return None
                if found := self._run(item, begin):
                    return found
        return None

    def end(self) -> tuple[str, str] | None:
        """Say what does not go together once all is read."""
        for since, has_them, what in (
            (_DIRECTORIES_SINCE, self._has_directories, "online"),
            (_CORDONED_SINCE, self._may_cordon, "cordoned"),
        ):
            if not 0 < self._level < since or not has_them:
                continue
            message = (
                "Metadata has been lost because the following could not be represented in "
                f"metadata.version {metadata_name(self._level)}: the {what} log directories of one "
                "or more brokers"
            )
            return self._stop("feature", message)
        return None

    def _stop(self, cause: str, message: str) -> tuple[str, str]:
        self.refused = True
        return cause, message

    def _run(self, run: Run, begin: int) -> tuple[str, str] | None:
        return next(filter(None, map(self._record, _values(run, begin))), None)

    def _record(self, value: bytes | None) -> tuple[str, str] | None:
        if value is None:
            return self._stop("metadata-record", "Got an unexpected null value in the record")
        if not value:
            return self._stop("metadata-record", "Got an unexpected empty value in the record")
        record = self._decode(None, value)[1]
        assert record is not None
        message = _refuse_record(record, value, self._broker)
        if message:
            return self._stop("metadata-record", message)
        return self._replay(record)

    def _replay(self, record: DecodedValue) -> tuple[str, str] | None:
        data = record.data or {}
        if record.type == "register_broker_record":
            self._brokers.add(data["brokerId"])
            self._has_directories |= bool(data.get("logDirs"))
            self._may_cordon |= record.version is not None and record.version >= _MAY_CORDON
        elif record.type == "broker_registration_change_record":
            if self.cut and data["brokerId"] not in self._brokers:
                message = (
                    f"Tried to change broker {data['brokerId']}, but that broker was not "
                    "registered."
                )
                return self._stop("metadata-snapshot", message)
        elif message := self._topic(record.type, data):
            return self._stop("metadata-record", message)
        elif record.type == "feature_level_record":
            return self._feature(data["name"], data["featureLevel"])
        return None

    def _topic(self, kind: str | None, data: dict[str, Any]) -> str:
        """What a controller says of a record that does not go with the topics it knows."""
        topic, number = data.get("topicId", ""), data.get("partitionId", -1)
        if kind == "begin_transaction_record":
            self._before = dict(self._topics), copy.deepcopy(self._known)
        elif kind == "abort_transaction_record" and self._before is not None:
            self._topics, self._known = self._before
        elif kind == "topic_record":
            name = data["name"]
            before = self._topics.get(name)
            if before is not None and has(self._broker, v.TOPIC_TWICE_ENDS):
                other = (
                    f"a different ID than before. Previous ID was {before} and new ID is {topic}"
                )
                which = f"topic ID {topic}" if before == topic else other
                return f"Found duplicate TopicRecord for {name} with {which}"
            self._topics[name] = topic
            self._known[topic] = name, set()
        elif kind in ("partition_record", "partition_change_record"):
            if topic not in self._known:
                return (
                    'Cannot invoke "org.apache.kafka.image.TopicImage.partitions()" because '
                    '"this.image" is null'
                )
            if kind == "partition_record":
                self._known[topic][1].add(number)
            elif number not in self._known[topic][1]:
                return f"Unable to find partition {topic}:{number}"
        elif kind == "remove_topic_record":
            if topic not in self._known:
                if not has(self._broker, v.METADATA_RECORDS_END):
                    return f"Can't find topic with ID {topic} to remove."
                return f"Unable to delete topic with id {topic}: no such topic found."
            del self._topics[self._known.pop(topic)[0]]
        return ""

    def _feature(self, name: str, level: int) -> tuple[str, str] | None:
        levels = feature_levels(self._broker)
        if levels is None:
            return None
        low, high, named = levels.get(name, (0, 0, 0))
        if name == "metadata.version":
            self._level = level
            if not low <= level <= named and has(self._broker, v.METADATA_LEVELS_NAMED):
                return self._stop("feature", self._no_level(level))
        if (level and not low <= level <= high) or level < 0:
            supports = f"{low}-{high}" if high > low else str(low)
            message = (
                f"Tried to apply FeatureLevelRecord FeatureLevelRecord(name='{name}', "
                f"featureLevel={level}), but this controller only supports versions {supports}"
            )
            return self._stop("feature", message)
        return None

    def _no_level(self, level: int) -> str:
        if has(self._broker, v.KRAFT_ONLY):
            return _UNSUPPORTED
        what = "feature level" if has(self._broker, v.QUORUM_STATE_MATTERS) else "metadata version"
        return f"No MetadataVersion with {what} {level}"


_UNSUPPORTED = (
    "Unsupported metadata version - if you are currently upgrading your cluster, please ensure the "
    "metadata version is set to 3.3-IV3 (or higher) before updating the software version. The "
    "metadata version can be updated via the `kafka-features` command-line tool."
)


def _refuse_record(record: DecodedValue, value: bytes, broker: Version) -> str:
    """What a controller says of a record that it cannot take apart; empty where it can."""
    reader, frame = Reader(value), FRAME_VERSION
    for what in ("frame version", "type", "version"):
        try:
            number = reader.varint()
        except MalformedError:
            return f"Error while reading {what}"
        frame = number if what == "frame version" else frame
        if frame != FRAME_VERSION:
            break
    if frame == 0:
        return (
            "Could not deserialize metadata record with frame version 0. Note that upgrades from "
            "the preview release of KRaft in 2.8 to newer versions are not supported."
        )
    if record.problem == UNKNOWN_FRAME:
        return (
            f"Could not deserialize metadata record due to unknown frame version {value[0]}(only "
            "frame version 1 is supported)"
        )
    newer = has(broker, v.NEWER_BROKER_RECORD)
    if record.problem == UNKNOWN_TYPE or (record.type_id == 29 and not newer):
        return (
            "org.apache.kafka.common.errors.UnsupportedVersionException: Unknown metadata id "
            f"{record.type_id}"
        )
    too_new = {0: 4, 17: 3}.get(record.type_id or 0) == record.version and not newer
    if record.data is None or too_new:
        return f"Failed to deserialize record with type {record.type_id}"
    if record.rest:
        return f"Found {len(record.rest)} byte(s) of garbage after {record.type_id}"
    return ""
