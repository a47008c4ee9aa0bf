"""Find out how a broker stopped from its data directory: a start depends on it (R1)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.broker.log_reader import RefusalError
from kdump.broker.versions import CHECKPOINTS_FORGIVEN, LOG_START, RECOVERY_POINTS, Version, has
from kdump.record.layout import MAX_INT64
from kdump.storage import names
from kdump.storage.names import Retirement
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.storage.local_log import LocalLog
    from kdump.storage.log_dir import LogDir

_LAST_SEGMENT_ONLY = MAX_INT64


class Stop(NamedTuple):
    """How the broker stopped, as the data directory tells: the checkpoints' offsets, 0 if absent.

    `clean`: the mark is there. `recovers` is False for a directory that is about to be deleted.
    """

    clean: bool
    recovery_point: int = 0
    log_start: int = 0
    recovers: bool = True


def stop_of(log: LocalLog, directory: LogDir | None, broker: Version) -> Stop:
    """Read how the broker stopped (R1). Nothing but the mark makes a stop clean."""
    name = log.name
    if directory is None or name is None:
        return Stop(clean=False)
    partition = (name.topic, name.partition)
    recovers = name.retirement is not Retirement.DELETE
    marks = {os.path.basename(path) for path in directory.files}
    if name.topic == names.CLUSTER_METADATA_TOPIC:
        return Stop(clean=False)
    recovery = directory.offsets(names.RECOVERY_POINT_CHECKPOINT)
    starts = directory.offsets(names.LOG_START_CHECKPOINT)
    if recovery is None and not has(broker, CHECKPOINTS_FORGIVEN):
        raise RefusalError("IOException: the recovery point checkpoint cannot be read")
    if not has(broker, RECOVERY_POINTS):
        recovery = {partition: _LAST_SEGMENT_ONLY}
    return Stop(
        names.CLEAN_SHUTDOWN in marks,
        (recovery or {}).get(partition, 0),
        (starts or {}).get(partition, 0) if has(broker, LOG_START) else 0,
        recovers,
    )


def stop_for_lookup(log: LocalLog, directory: LogDir | None, broker: Version) -> Stop:
    """The same for a lookup, which takes a partition that lies in no data directory as it lies.

    Such a directory tells nothing of how its broker stopped.
    """
    marks = {os.path.basename(path) for path in directory.files} if directory else set()
    stop = stop_of(log, directory, broker)
    if not marks & {names.META_PROPERTIES, names.RECOVERY_POINT_CHECKPOINT}:
        return stop._replace(clean=True)
    return stop
