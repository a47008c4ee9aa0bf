"""The sources of what lies beside logs: `meta.properties`, checkpoints, `partition.metadata`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.engine.timeline.raw_event import DERIVED, FILE, INFERRED, NO_CLOCK, RawEvent
from kdump.storage import names, places
from kdump.storage.log_dir import LOG_DIRS

if TYPE_CHECKING:
    from kdump.engine.timeline.replica import Replica


def format_events(replica: Replica) -> None:
    """Tell when a data directory was formatted."""
    path = os.path.join(replica.item.path, names.META_PROPERTIES)
    try:
        modified = places.stat(path).st_mtime_ns // 1_000_000
    except OSError:
        return
    node = replica.item.node
    replica.take(
        RawEvent(
            *("format", str(node), "meta.properties was written"),
            broker_id=node,
            node=node,
            clock=FILE if places.keeps_times(path) else NO_CLOCK,
            clock_of=node,
            at_ms=modified,
            path=path,
        )
    )


def checkpoint_events(replica: Replica) -> None:
    """Tell from checkpoints and the first segment what was deleted and cleaned, and its start."""
    home, place = replica.item.path, replica.event[3:5]
    made_path = os.path.join(home, names.PARTITION_METADATA)
    if (made := replica.modification_ms(made_path)) is not None:
        text = "the replica was created here"
        replica.take(file_event(replica, "file-created", made_path, text, made))
    directory = LOG_DIRS.find_parent(home)

    def offset(name: str) -> int | None:
        return directory.offset(name, *place) if directory else None

    def tell(what: str, offset: int, text: str, name: str) -> None:
        path = os.path.join(places.parent(home), name)
        event = replica.event._replace(what=what, offset=offset, text=text, path=path)
        replica.take(event._replace(basis=DERIVED))

    first = next((one.base_offset for one in replica.log.logs if not one.is_pre08), None)
    start = offset(names.LOG_START_CHECKPOINT)
    if first is not None and start is not None and start > first:
        text = f"records below offset {start:,} were deleted on request"
        tell("delete", start, text, names.LOG_START_CHECKPOINT)
    elif first:
        text = f"segments below offset {first:,} were removed"
        event = replica.event._replace(what="retention", offset=first, text=text)
        replica.take(event._replace(path=home, segment=first, basis=INFERRED))
    cleaned = offset(names.CLEANER_CHECKPOINT)
    if cleaned and replica.holes_to:
        text = f"compacted up to offset {cleaned:,} (fewer records than offsets below it)"
        tell("clean", cleaned, text, names.CLEANER_CHECKPOINT)


def file_event(replica: Replica, what: str, path: str, text: str, at_ms: int) -> RawEvent:
    """Make an event of what the time of a file shows, by the clock of the broker that has it."""
    event = replica.event._replace(what=what, text=text, path=path, at_ms=at_ms, basis=INFERRED)
    return event._replace(clock=FILE, clock_of=replica.item.node)
