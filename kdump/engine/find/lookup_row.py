"""Make the members of lookup rows, for logs with indexes and for those of 0.7."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kdump.broker.settings import Settings, SettingsOnDemand, index_settings
from kdump.rows.find import OffsetLookup, TimeLookup
from kdump.rows.row import Row

if TYPE_CHECKING:
    from kdump.broker.list_offsets import TimeAnswer
    from kdump.broker.partition import Step
    from kdump.engine.find.options import FindOptions
    from kdump.storage.offset_index import OffsetPosition
    from kdump.storage.targets import Target
    from kdump.storage.time_index import TimestampOffset


_UNKNOWN_YET = (
    "segment", "index_entry", "position", "size_bytes", "base_offset", "last_offset", "offset",
    "timestamp_ms",
)  # fmt: skip


def offset_fields(target: Target, offset: int) -> dict[str, Any]:
    """The members of an `offset-lookup` row of which nothing is known yet."""
    known = {"topic": target.topic, "partition": target.partition, "target": offset}
    return {**known, **dict.fromkeys(_UNKNOWN_YET), "batches_scanned": 0}


def time_fields(target: Target, target_ms: int, answer: TimeAnswer) -> dict[str, Any]:
    """The members of a `time-lookup` row."""
    return {
        "topic": target.topic,
        "partition": target.partition,
        "target_ms": target_ms,
        "segment": answer.segment,
        "time_index_entry": entry_fields(answer.time_index_entry),
        "index_entry": entry_fields(answer.index_entry),
        "position": answer.position,
        "offset": answer.offset if answer.offset >= 0 else None,
        "timestamp_ms": answer.timestamp_ms if answer.timestamp_ms >= 0 else None,
        "leader_epoch": answer.leader_epoch,
        "batches_scanned": answer.batches_scanned,
    }


def entry_fields(entry: OffsetPosition | TimestampOffset | None) -> dict[str, int] | None:
    """An index entry as a member of a row."""
    return None if entry is None else entry._asdict()


def finished(
    kind: str,
    row: dict[str, Any],
    error: str | None,
    steps: Iterable[Step],
    options: FindOptions,
    settings: Settings | SettingsOnDemand | None = None,
) -> Row:
    """Add what every lookup row ends with: the error, if any, and the steps, if asked for.

    Settings on demand are said if a start needed them, to rebuild an index of the segments asked.
    """
    needed = settings.found if isinstance(settings, SettingsOnDemand) else None
    row["settings"] = None if needed is None else index_settings(needed)
    row["error"] = error
    if options.explain:
        row["steps"] = [step.fields() for step in steps]
    made: type[OffsetLookup | TimeLookup] = OffsetLookup if kind == "offset-lookup" else TimeLookup
    return made(**row, asked_=tuple(row))
