"""Where a log starts: records below that may lie in its files, and no consumer is handed them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.storage import names

if TYPE_CHECKING:
    from kdump.storage.log_dir import LogDir


def log_start(
    first_base: int, directory: LogDir | None, topic: str | None, partition: int | None
) -> int:
    """The log start offset: the first segment's base, or the checkpoint's where that is above it.

    Without a data directory, or with a checkpoint that no broker could read, the base (L16, X3).
    """
    if directory is None:
        return first_base
    return max(first_base, directory.offset(names.LOG_START_CHECKPOINT, topic, partition) or 0)
