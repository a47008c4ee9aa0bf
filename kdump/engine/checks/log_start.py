"""Find the log start of a partition on disk; records may lie below it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.log_start import log_start as broker_log_start
from kdump.storage import names

if TYPE_CHECKING:
    from kdump.engine.reading.partition_scan import PartitionScan


def log_start(partition: PartitionScan) -> tuple[int, bool]:
    """The log start offset, and whether disk tells: a checkpoint names those above the first base.

    Beside a copy of a partition directory there is none.
    """
    first = partition.segments[0].base_offset if partition.segments else 0
    directory = partition.directory
    if directory is None:
        return first, False
    name = names.LOG_START_CHECKPOINT
    known = directory.offsets(name) is not None and directory.checkpoint_time(name) is not None
    target = partition.target
    return broker_log_start(first, directory, target.topic, target.partition), known


def trimmed_to(partition: PartitionScan) -> int:
    """Where the leader epochs begin, 0 where that is not known.

    A log start that is raised trims them (X2), so in a copy without the data directory's
    checkpoints the first of them says where the log starts.
    """
    starts = partition.log.epoch_starts()  # LeaderEpochs reports what is wrong with them
    return starts[0].start_offset if starts else 0
