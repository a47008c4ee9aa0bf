"""`verify`: what is wrong in partitions and data directories, each thing once.

One partition is one unit of work: `verify_partition` is pure, takes what a plan says and gives a
picklable result, so that drivers may run many at once. What concerns several partitions, or the
data directory itself, is looked at when all results are in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from kdump.engine.folding import fold
from kdump.engine.rows import Row
from kdump.engine.scan import PartitionScan, scan
from kdump.engine.settings import Settings, read_settings
from kdump.engine.targets import Selection, Target, resolve
from kdump.errors import KdumpError, PathError
from kdump.storage.file_records import DEFAULT_LIMIT

if TYPE_CHECKING:
    from kdump.engine.checks import Check
    from kdump.engine.findings import Finding


class VerifyOptions(NamedTuple):
    """What is asked for; sizes in bytes."""

    topic: str | None = None
    partition: int | None = None
    server_properties: str | None = None
    deep: bool = False
    quick: bool = False
    limit: int = DEFAULT_LIMIT


class Counts(NamedTuple):
    """What was looked at; `not_checked` says what was not, and how much of it."""

    segments: int = 0
    batches: int = 0
    records_count: int = 0
    bytes: int = 0
    not_checked: tuple[tuple[str, int], ...] = ()


class Result(NamedTuple):
    """What one partition came to."""

    findings: tuple[Finding, ...]
    counts: Counts
    errors: tuple[KdumpError, ...] = ()


def verify(paths: Iterable[str], options: VerifyOptions) -> Iterator[Finding | Row | KdumpError]:
    """Yield findings and errors, and one last `summary` row."""
    settings = read_settings(options.server_properties)
    selection = Selection(options.topic, options.partition, retired=True)
    for target in resolve(paths, selection, options.server_properties, listed=False):
        if isinstance(target, KdumpError):
            yield target
            continue
        result = verify_partition(target, options, settings)
        yield from result.errors
        yield from result.findings


def verify_partition(target: Target, options: VerifyOptions, settings: Settings) -> Result:
    """Look at one partition."""
    partition = PartitionScan(
        target,
        directory=target.log_dir(),
        settings=settings,
        deep=options.deep,
        limit=options.limit,
    )
    try:
        reported = list(scan(partition, checks_of(partition)))
    except PathError as error:
        return Result((), Counts(), (error,))
    return Result(fold(reported), Counts())


def checks_of(partition: PartitionScan) -> list[Check]:
    """Make the checks for one scan, those first whose findings others follow from."""
    return []
