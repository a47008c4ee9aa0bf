"""Verify one partition: run all checks over one scan of it.

One partition is one unit of work: `verify_partition` is pure, takes what a plan says and gives a
picklable result, so that drivers may run many at once. Of a huge one the closed logs may have been
read in pieces before, by many (`pieces`). What concerns several partitions, or the data
directory itself, is looked at when all results are in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING

from kdump.broker.versions import NEWEST
from kdump.engine.checks.batch_types import BatchTypes
from kdump.engine.checks.files import Files
from kdump.engine.checks.folding import fold
from kdump.engine.checks.framing import Framing
from kdump.engine.checks.index_proof import IndexProof
from kdump.engine.checks.leader_epochs import LeaderEpochs
from kdump.engine.checks.limits import Limits
from kdump.engine.checks.pre08 import Pre08Counts, scan_pre08
from kdump.engine.checks.producers import Producers
from kdump.engine.checks.rolling import Rolling
from kdump.engine.checks.size_limits import OffsetRange, SizeLimits
from kdump.engine.checks.survey import Survey
from kdump.engine.checks.transactions import ControlBatches
from kdump.engine.reading.partition_scan import Judge, LeaveOut, PartitionScan
from kdump.engine.reading.scan import scan
from kdump.engine.verify.options import NOT_READ, VerifyOptions
from kdump.engine.verify.recheck import listing_of, settle
from kdump.engine.verify.results import Counts, Result
from kdump.errors import InternalError, KdumpError, attempt, guard
from kdump.replay.releases import Releases
from kdump.storage.local_log import LocalLog
from kdump.storage.log_dir import LISTED_SECONDS

if TYPE_CHECKING:
    from kdump.broker.settings import Settings
    from kdump.engine.reading.background_source import Pace
    from kdump.engine.reading.check import Check, Reported
    from kdump.engine.reading.header_columns import PackedHeaders
    from kdump.engine.verify.plan import LeftOut
    from kdump.findings.finding import Finding
    from kdump.storage.targets import Target


def verify_partition(
    target: Target,
    options: VerifyOptions,
    settings: Settings,
    *,
    pace: Pace | None = None,
    leave_out: LeftOut | None = None,
    walked: Mapping[int, Sequence[PackedHeaders]] = MappingProxyType({}),
    coordinators: Judge | None = None,
    releases: Releases | None = None,
) -> Result:
    """Look at one partition; see `looks` for what happens where a broker changes it meanwhile.

    `walked` is what is left of logs that were read in pieces; further looks read the files.
    """
    assert target.log is not None
    path, directory = target.log.path, target.log_dir(LISTED_SECONDS)

    def look(
        leave: LeaveOut | None, log: LocalLog, walked: Mapping[int, Sequence[PackedHeaders]]
    ) -> Result:
        partition = PartitionScan(
            target._replace(log=log),
            directory=directory,
            settings=settings,
            deep=options.deep,
            quick=options.quick,
            limit=options.decompress_limit,
            broker=options.broker_version or NEWEST,
            pace=pace,
            leave_out=leave,
            walked=walked,
            coordinators=coordinators,
        )
        return _once(partition, adds_up=options.volumes)

    def look_again(bases: frozenset[int]) -> tuple[Finding, ...]:
        kept = frozenset() if leave_out is None else leave_out.planned_bases
        wanted = bases - kept
        log = LocalLog(path, listing_of(path))
        return look(lambda base, _: None if base in wanted else (), log, {}).findings

    before = target.log.statuses
    result = look(leave_out, target.log, walked)
    failed = list(result.errors)
    findings = result.findings
    if findings:
        findings = _attempt(
            target,
            partial(settle, target, path, before, findings, look_again),
            findings,
            failed,
        )
    if findings:
        from kdump.engine.advice.advisor import add_advice

        if releases is None:
            releases = Releases(options.broker_version or NEWEST)
        asked = partial(add_advice, releases=releases, limit=options.decompress_limit)
        findings = _attempt(
            target, partial(asked, target, findings, settings=settings), findings, failed
        )
    counts = result.counts
    if leave_out is not None:
        not_checked = (*counts.not_checked, *leave_out.counts.items())
        counts = counts._replace(not_checked=not_checked)
    return result._replace(findings=findings, counts=counts, errors=tuple(failed))


def _attempt(
    target: Target,
    work: Callable[[], tuple[Finding, ...]],
    otherwise: tuple[Finding, ...],
    failed: list[KdumpError],
) -> tuple[Finding, ...]:
    """Return what some work makes of findings, or the findings as they are where it fails."""
    topic, partition = target.topic, target.partition
    return attempt(target.path, work, otherwise, failed, topic=topic, partition=partition)


def _once(partition: PartitionScan, *, adds_up: bool) -> Result:
    old = Pre08Counts()
    survey = Survey(partition)
    checks: list[Check] = [*checks_of(partition), survey]
    volume = None
    if adds_up:
        from kdump.engine.checks.volumes import Volumes

        checks.append(volumes := Volumes(partition))
        volume = volumes.volume
    scanned = chain(scan_pre08(partition, old), scan(partition, checks))
    findings = fold(_report(partition, scanned))
    complete = {log.base_offset for log in partition.segments if log.complete}
    if any(isinstance(error, InternalError) for error in partition.errors):
        return Result(findings, _counts(partition, checks, old), tuple(partition.errors))
    return Result(
        findings,
        _counts(partition, checks, old),
        tuple(partition.errors),
        frozenset(complete | old.complete),
        survey.facts(findings),
        replayed=partition.replayed,
        volume=volume,
    )


def _report(partition: PartitionScan, reported: Iterable[Reported]) -> Iterator[Reported]:
    """Yield what the checks report, up to where one of them fails."""
    place = partition.place
    for one in guard(place.path, reported, topic=place.topic, partition=place.partition):
        if isinstance(one, KdumpError):
            partition.errors.append(one)
        else:
            yield one


def checks_of(partition: PartitionScan) -> list[Check]:
    """Make the checks for one scan, those first whose findings others follow from."""
    deep: list[Check] = []
    if partition.deep:
        from kdump.engine.checks.records import Records

        deep = [Records(partition)]
    return [
        Framing(partition),
        *deep,
        IndexProof(partition),
        ControlBatches(partition),
        Producers(partition),
        LeaderEpochs(partition),
        Files(partition),
        Rolling(partition),
        Limits(partition),
        BatchTypes(partition),
        SizeLimits(partition),
        OffsetRange(partition),
    ]


def _counts(partition: PartitionScan, checks: list[Check], old: Pre08Counts) -> Counts:
    compressed, unread = old.wrappers, 0
    batches, records_count, size, tails = old.batches, old.records_count, old.bytes, 0
    for log in (*partition.segments, *partition.snapshots):
        compressed += log.compressed
        unread += not log.complete and log.base_offset not in partition.left_out
        batches += log.batches
        records_count += log.records_count
        size += log.end_position - log.start_position
        tails += log.tail_read and not log.is_snapshot
    not_checked = {"compressed_batches": 0 if partition.deep else compressed, NOT_READ: unread}
    for check in checks:
        for what, count in check.not_checked.items():
            not_checked[what] = not_checked.get(what, 0) + count
    return Counts(
        old.segments + sum(log.complete for log in partition.segments),
        batches,
        records_count,
        size,
        tuple((what, count) for what, count in not_checked.items() if count),
        tails,
    )
