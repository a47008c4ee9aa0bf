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
    starts = None if directory is None else directory.offsets(names.LOG_START_CHECKPOINT)
    return max(first_base, (starts or {}).get((topic or "", partition or 0), 0))
