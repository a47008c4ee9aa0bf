"""Tune the process for runs over millions of rows; name the kernel in use."""

from __future__ import annotations

import gc
import os
import sys

from kdump.kernels import NAME as KERNEL
from kdump.kernels import keep_freed_memory

__all__ = ["KERNEL", "prepare_for_bulk"]

#: How PyArrow is asked for one of its allocators, when it is imported.
_ARROW_POOL = "ARROW_DEFAULT_MEMORY_POOL"


def prepare_for_bulk() -> None:
    """Tune the collector and the allocator for rows made and dropped by the million.

    None of them is part of a cycle, and the cyclic collector would triple the cost of making them;
    see `keep_freed_memory` for the other half. All of it is for the whole process, so a command
    asks for it, never an import.
    """
    gc.freeze()
    gc.enable()
    gc.set_threshold(100_000, 50, 100)
    keep_freed_memory()
    _allocate_arrow_by_malloc()


def _allocate_arrow_by_malloc() -> None:
    """Let PyArrow allocate as the rest of the process does, unless the environment says otherwise.

    Its own allocators keep the pages of a buffer that had to grow. A dump to Parquet takes 20 to
    40 MiB more with them, and a third more where one record has a million headers; no less time.
    """
    if _ARROW_POOL in os.environ:
        return
    os.environ[_ARROW_POOL] = "system"
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is not None:
        pyarrow.set_memory_pool(pyarrow.system_memory_pool())
