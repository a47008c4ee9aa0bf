"""Tune the process for runs over millions of rows; name the kernel in use."""

from __future__ import annotations

import gc

from kdump.kernels import NAME as KERNEL
from kdump.kernels import keep_freed_memory

__all__ = ["KERNEL", "prepare_for_bulk"]


def prepare_for_bulk() -> None:
    """Tune the collector and the allocator for rows made and dropped by the million.

    None of them is part of a cycle, and the cyclic collector would triple the cost of making them;
    see `keep_freed_memory` for the other half. Both are for the whole process, so a command asks
    for them, never an import.
    """
    gc.freeze()
    gc.enable()
    gc.set_threshold(100_000, 50, 100)
    keep_freed_memory()
