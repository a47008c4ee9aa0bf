"""Decide whether a broker is writing a log: its last entry may then be incomplete."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kdump.storage import lock, places

if TYPE_CHECKING:
    from kdump.storage.source import Source

# A log written to this short a time ago may have a last entry that is not there in full yet.
BEING_WRITTEN_SECONDS = 10


def is_being_written(source: Source) -> bool:
    """Whether the end of a newest segment is being written while we look.

    A file that grew meanwhile is, whoever writes it: a broker may run on another machine. Else
    something has to hold `.lock` of the data directory, and to have written a moment ago. Where the
    lock cannot be asked for, the time of the file alone has to do.
    """
    if source.in_store:
        return False
    if source.is_growing() or source.grew:
        return True
    return was_just_written(source) and (
        lock.is_held_around(places.parent(source.path)) is not False
    )


def was_just_written(source: Source) -> bool:
    """Whether the file's time is that of this moment; the clock may be behind the file's."""
    return time.time() - source.status().st_mtime < BEING_WRITTEN_SECONDS
