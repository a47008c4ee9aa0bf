"""Make lookup rows, for logs with indexes and for those of 0.7."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kdump.broker.settings import Settings, SettingsOnDemand, index_settings
from kdump.engine.find.remote import RemotePlace
from kdump.engine.find.reset import NO_RESET, Reset
from kdump.rows.find import FoundStep, TimeLookup

if TYPE_CHECKING:
    from kdump.broker.list_offsets import TimeAnswer
    from kdump.broker.partition import Step
    from kdump.engine.find.options import FindOptions
    from kdump.rows.words import Setting
    from kdump.storage.index import OffsetPosition
    from kdump.storage.targets import Target
    from kdump.storage.time_index import TimestampOffset

SCANNED = ("scan_offset",)
NOT_TIERED = RemotePlace()
RESET = ("reset_offset", "reset_to")


def time_lookup(
    target: Target,
    target_ms: int,
    answer: TimeAnswer,
    *,
    offsets: list[int] | None,
    scan_offset: int | None,
    steps: list[FoundStep] | None,
    reset: Reset = NO_RESET,
    settings: list[Setting] | None = None,
    error: str | None = None,
    place: RemotePlace = NOT_TIERED,
    asked: tuple[str, ...] = (),
) -> TimeLookup:
    """Make the row of an answer; `asked` names members that it has even where they are null."""
    return TimeLookup(
        topic=target.topic,
        partition=target.partition,
        target_ms=target_ms,
        segment=answer.segment,
        time_index_entry=entry_fields(answer.time_index_entry),
        index_entry=entry_fields(answer.index_entry),
        position=answer.position,
        offset=answer.offset if answer.offset >= 0 else None,
        timestamp_ms=answer.timestamp_ms if answer.timestamp_ms >= 0 else None,
        leader_epoch=answer.leader_epoch,
        batches_scanned=answer.batches_scanned,
        offsets=offsets,
        scan_offset=scan_offset,
        reset_offset=reset.offset,
        reset_to=reset.to,
        settings=settings,
        error=error,
        **place._asdict(),
        steps=steps,
        asked_=asked,
    )


def entry_fields(entry: OffsetPosition | TimestampOffset | None) -> dict[str, int] | None:
    """An index entry as a member of a row."""
    return None if entry is None else entry._asdict()


def steps_of(steps: Iterable[Step], options: FindOptions) -> list[FoundStep] | None:
    """Return the steps as a member of a row, None where they are not asked for."""
    return [step.fields() for step in steps] if options.explain else None


def settings_of(settings: Settings | SettingsOnDemand | None) -> list[Setting] | None:
    """Return settings on demand, if a start needed them to rebuild an index of the segments."""
    needed = settings.found if isinstance(settings, SettingsOnDemand) else None
    return None if needed is None else index_settings(needed)
