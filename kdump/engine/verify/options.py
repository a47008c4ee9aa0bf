"""Options of verify."""

from __future__ import annotations

from typing import NamedTuple

from kdump.broker.versions import Version
from kdump.storage.file_records import DEFAULT_LIMIT


class VerifyOptions(NamedTuple):
    """What is asked for; sizes in bytes."""

    topic: str | None = None
    partition: int | None = None
    server_properties: str | None = None
    deep: bool = False
    quick: bool = False
    limit: int = DEFAULT_LIMIT
    jobs: int = 1
    bytes_per_second: int | None = None
    max_duration_s: float | None = None
    subset: tuple[int, int] | None = None
    recheck_s: float | None = None  # what a state says was seen longer ago is read again
    predict: bool = False
    broker_version: Version | None = None  # None: the newest
    recovery_rate: int | None = None  # bytes a second and thread; None: a plain disk's
    recovery_threads: int | None = None  # a data directory's; None: as the broker has it
    summary_by: tuple[str, ...] = ()  # broker, topic, or both
