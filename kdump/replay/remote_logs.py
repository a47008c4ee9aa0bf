"""Replay `__remote_log_metadata` as a broker's metadata manager does (W2).

logs = read_remote_logs(["/data/__remote_log_metadata-0"])
logs["nO5caqCwS4mJy1twxMkd4A", 0]      the RemoteLog of partition 0 of the topic of that id
"""

from __future__ import annotations

from collections.abc import Iterable

from kdump.broker.remote_log import RemoteLog, RemoteSegment
from kdump.errors import PathError
from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.messages.records import decoder
from kdump.messages.table import Fields
from kdump.record.batch import read_batch
from kdump.record.frames import Run
from kdump.storage import names
from kdump.storage.checkpoints import EpochStart
from kdump.storage.file_records import DEFAULT_LIMIT, walk
from kdump.storage.local_log import LocalLog, with_next_base

#: Topic id and number of a partition.
PartitionId = tuple[str, int]
_ADDED, _UPDATED = "remote_log_segment_metadata_record", "remote_log_segment_metadata_update_record"


class RemoteLogs(dict[PartitionId, RemoteLog]):
    """The remote logs of partitions, and the topic that each topic id was of."""

    def __init__(self) -> None:
        super().__init__()
        self.topics: dict[str, str] = {}
        self.tells_aborts = False  # some record says that a segment has no transaction index


def read_remote_logs(paths: Iterable[str], limit: int = DEFAULT_LIMIT) -> RemoteLogs:
    """Read what the metadata logs in some partition directories say of remote segments."""
    found = RemoteLogs()
    for path in paths:
        seen: set[PartitionId] = set()
        problem = _replay(path, found, seen, limit)
        if problem is not None:
            for each in seen:
                found[each].problem = problem
    return found


def _replay(path: str, logs: RemoteLogs, seen: set[PartitionId], limit: int) -> str | None:
    """Replay one partition of the topic; return what a broker cannot read past (W9)."""
    read = decoder(names.REMOTE_LOG_METADATA_TOPIC)
    problem: str | None = None
    try:
        segments = list(with_next_base(LocalLog.open(path).logs))
    except PathError as error:
        return str(error)
    for segment, following in segments:
        try:
            for item in walk(str(segment.log), limit=limit, next_base=following):
                if not isinstance(item, Run):
                    torn = getattr(item, "to_end", False) and following is None
                    problem = problem or (None if torn else f"{segment.log} is damaged")
                    continue
                for row in range(item.batches.count):
                    if item.batches.flags_of(row) & c.WRONG:
                        where = item.batches.position(row)
                        problem = problem or f"{segment.log}: the batch at {where:,} is damaged"
                    for piece in read_batch(item.data, item.base, item.batches, row, limit=limit):
                        for number in range(piece.records.count):
                            value = piece.records.payload(piece.data, number)
                            _take(logs, seen, read(None, value)[1])
                        if piece.reason not in (reasons.END, reasons.FULL):
                            problem = problem or f"{segment.log} has records that cannot be read"
        except PathError as error:
            problem = problem or str(error)
    return problem


def _take(logs: RemoteLogs, seen: set[PartitionId], decoded: object) -> None:
    data: Fields | None = getattr(decoded, "data", None)
    kind = getattr(decoded, "type", None)
    if data is None or kind not in (_ADDED, _UPDATED):
        return
    of = data["remoteLogSegmentId"]["topicIdPartition"]
    segment_id: str = data["remoteLogSegmentId"]["id"]
    partition = of["id"], of["partition"]
    seen.add(partition)
    logs.topics[of["id"]] = of["name"]
    log = logs.setdefault(partition, RemoteLog())
    if kind == _ADDED:
        has_none = bool(data.get("txnIndexEmpty"))
        logs.tells_aborts |= has_none
        epochs = sorted(
            EpochStart(one["leaderEpoch"], one["offset"]) for one in data["segmentLeaderEpochs"]
        )
        log.add(
            RemoteSegment(
                segment_id,
                data["startOffset"],
                data["endOffset"],
                data["maxTimestampMs"],
                data["segmentSizeInBytes"],
                tuple(epochs),
                data["remoteLogSegmentState"],
                data["eventTimestampMs"],
                not has_none if logs.tells_aborts else None,
            )
        )
    else:
        log.update(segment_id, data["remoteLogSegmentState"], data["eventTimestampMs"])
