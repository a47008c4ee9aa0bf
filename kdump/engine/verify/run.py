"""Run verify: plan, one step for each partition, then checks of all of them together."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from kdump.engine.checks.survey import PartitionFacts, group_surveys
from kdump.engine.coordinators.transaction_judge import Coordinators
from kdump.engine.reading.check import NOT_CHECKED
from kdump.engine.reading.damage import unread_finding
from kdump.engine.verify.options import (
    NOT_READ,
    OUT_OF_TIME,
    OUT_OF_TIME_BYTES,
    VERIFIED_BEFORE,
    Item,
    VerifyOptions,
)
from kdump.engine.verify.partition import verify_partition
from kdump.engine.verify.plan import LeftOut, plan, split_bytes_for, target_of
from kdump.engine.verify.results import Counts, FindingCounts, Groups, Result
from kdump.engine.verify.ways import WaysPast
from kdump.engine.work.pace import Pace, Progress
from kdump.engine.work.pipeline import ONE_BY_ONE, Driver, make_error, take_up
from kdump.errors import (
    InternalError,
    KdumpError,
    PathError,
    StoreError,
    attempt,
    guard,
)
from kdump.findings.finding import Finding, Severity, finding, internal_error
from kdump.findings.rows import Place, Row
from kdump.kernels import NAME as KERNEL
from kdump.replay.topic_settings import TopicSettings, topic_settings
from kdump.rows.verify import Recovery, VerifySummary
from kdump.storage import places
from kdump.storage.data_directories import spread_all
from kdump.storage.directory_facts import facts_of
from kdump.storage.names import Kind
from kdump.storage.targets import data_directories

if TYPE_CHECKING:
    from kdump.engine.verify.predict import Predictor
    from kdump.engine.verify.state import VerifyState


def verify(
    paths: Iterable[str],
    options: VerifyOptions,
    *,
    progress: Progress | None = None,
    state: VerifyState | None = None,
    driver: Driver = ONE_BY_ONE,
    split_bytes: int | None = None,
) -> Iterator[Finding | Row | KdumpError]:
    """Yield findings and errors in the order of the paths, and one last `summary` row.

    The order is the same for any number of workers, and for any driver. With `state`, what was
    seen before is left out, its findings are reported again, and under a time limit what was
    unseen longest comes first. What `options.summary_by` asks for comes as `summary-by` rows before
    the `summary`. `split_bytes`: partitions with more to read are read in pieces of
    that size (1: of one batch); None: as many workers as there are make it worth while. With
    `options.append` there is an `append` row for each partition, and nothing else.
    """
    if options.append is not None:
        from kdump.engine.verify.append import appends

        yield from appends(paths, options)
        return
    started = time.monotonic()
    deadline = None if options.max_duration_s is None else started + options.max_duration_s
    progress = progress or Progress()
    sums = _Sums()
    items: list[Item] = []
    named, unsearched = spread_all(paths)
    yield from map(sums.error, unsearched)
    not_prepared: list[KdumpError] = []
    settings = attempt(
        "topic settings",
        partial(settings_for, options, named),
        settings_for(options._replace(topic_configs=False)),
        not_prepared,
    )
    surveyed: list[PartitionFacts] = []
    is_tier_alone = options.tier is not None and not named and not options.server_properties
    planned = () if is_tier_alone else plan(named, options, state)
    yield from map(sums.error, take_up(planned, items, progress))
    if state is not None and deadline is not None:
        items.sort(key=lambda item: item.verified_s)
    around = {places.parent(item.path): None for item in items if item.whole}
    progress.directories = [facts_of(path) for path in around]
    attempt("topic settings", partial(settings.prepare, around), None, not_prepared)
    predict = totals = None
    if options.predict:
        from kdump.engine.verify.predict import measure_disks, node_rows, predictor, refused_rows
        from kdump.rows.verify import REFUSALS

        predict = attempt(
            "the forecast",
            partial(predictor, progress.directories, settings),
            None,
            not_prepared,
        )
        measured = measure_disks(items) if options.measure else None
        if predict is not None:
            totals = predict.totals(options.recovery_rate, options.recovery_threads, measured)
    step = partial(
        verify_item,
        options=options,
        settings=settings,
        deadline=deadline,
        predict=predict,
        coordinators=Coordinators(named, options.server_properties),
    )
    if split_bytes is None:
        split_bytes = split_bytes_for(items, options, driver)
    if split_bytes is not None and any(item.size_bytes > split_bytes for item in items):
        from kdump.engine.verify.split_walk import read_in_splits

        items = read_in_splits(
            items,
            options,
            settings.broker,
            driver=driver,
            progress=progress,
            split_bytes=split_bytes,
        )
    yield from map(sums.error, not_prepared)
    groups = Groups(options.summary_by, progress.directories)
    stopping: list[Recovery] = []
    waiting: list[Recovery] = []

    def foretold(rows: list[Recovery]) -> Iterator[Finding | Row]:
        if not rows:
            return
        from kdump.engine.predict.remedies import findings_with_remedies

        for found, row in findings_with_remedies(rows):
            if found is not None:
                groups.add_directory_finding(found)
                yield sums.count_finding(found)
            yield row

    for item, result in driver(items, step, progress):
        if isinstance(result, KdumpError):
            yield sums.error(result)
            continue
        if state is not None:
            state.record(item, result, deep=options.deep)
        sums.add(result)
        if options.summary_by:
            groups.add(item, result)
        if result.findings or not progress.findings:
            progress.findings = sums.by_severity()
        if result.facts is not None:
            surveyed.append(result.facts)
        yield from map(sums.error, result.errors)
        yield from result.findings
        if result.recovery is not None and totals is not None:
            totals.add(result.recovery)
            if result.recovery.remedies:
                waiting.append(result.recovery)  # what the others lose by them decides
            else:
                yield from foretold([result.recovery])
            if result.recovery.outcome in REFUSALS:
                stopping.append(result.recovery)
    yield from foretold(waiting)
    whole = len(surveyed) == sum(item.whole for item in items)
    try:
        checked = _directories(named, options, surveyed, whole=whole)
        for reported in guard("the data directories", checked):
            if isinstance(reported, KdumpError):
                yield sums.error(reported)
                continue
            groups.add_directory_finding(reported)
            yield sums.count_finding(reported)
    except StoreError as error:
        yield sums.error(error)
    if options.tier is not None:
        from kdump.engine.verify.tier import check_tier

        for seen in guard("the remote storage", check_tier(named, options, settings)):
            if isinstance(seen, KdumpError):
                yield sums.error(seen)
            else:
                yield sums.count_finding(seen) if isinstance(seen, Finding) else seen
    if predict is not None:
        starts = node_rows(named, options, settings.releases, stopping)
        about_nodes = guard("the start of the node", starts)
        about_directories = refused_rows(progress.directories, stopping, settings.releases)
        for said in chain(about_nodes, guard("the data directories", about_directories)):
            if isinstance(said, KdumpError):
                yield sums.error(said)
            else:
                yield sums.count_finding(said) if isinstance(said, Finding) else said
    progress.findings = sums.by_severity()
    yield from sums.ways.rows()
    if options.summary_by:
        yield from groups.rows()
    summary = sums.row(options, time.monotonic() - started)
    if totals is not None:
        asked = (*summary.asked_, "forecast")
        summary = summary.replaced(forecast=totals.fields(), asked_=asked)
    yield summary


def settings_for(options: VerifyOptions, directories: Iterable[str] = ()) -> TopicSettings:
    """Make what tells the settings of each topic, by what may lie in some data directories."""
    given = options.server_properties
    return topic_settings(
        given,
        directories,
        configs=options.configs,
        from_disk=options.topic_configs,
        broker_version=options.broker_version,
        tier=options.tier,
        tier_key=options.tier_key,
    )


def _directories(
    named: list[str], options: VerifyOptions, facts: list[PartitionFacts], *, whole: bool
) -> Iterator[Finding | PathError]:
    """Look at the data directories that were named, when their partitions were looked at.

    `whole`: all of them were, so that what is not among the facts is not there.
    """
    settings = options.server_properties
    own: list[str] = []
    if settings is not None:
        try:
            own = data_directories(settings)
        except PathError:
            if not named:
                raise  # else a file that gives settings only
    if named:
        read = {places.real(path) for path in named}
        own = [path for path in own if places.real(path) in read]
    selection = options.selection
    whole = whole and not selection.is_narrowed
    for paths, one_node in ((named, False), (own, True)):
        surveyed = group_surveys(paths, facts, whole=whole)
        if not surveyed:
            continue
        from kdump.engine.checks.node import check_directories

        for reported in check_directories(
            surveyed, one_node=one_node, limit=options.decompress_limit
        ):
            if (
                isinstance(reported, PathError)
                or reported.topic is None
                or selection.admits(reported.topic, reported.partition)
            ):
                yield reported


def directory_findings(named: list[str], options: VerifyOptions) -> Iterator[Finding | KdumpError]:
    """Look at the data directories alone.

    Of a log no more is read than `--quick` reads, unless what is said of it depends on the rest.
    """
    quick = options._replace(quick=True, deep=False)
    settings = settings_for(quick, named)
    items = [one for one in plan(named, quick, None) if not isinstance(one, KdumpError)]
    settings.prepare({places.parent(item.path): None for item in items if item.whole})
    coordinators = Coordinators(named, options.server_properties)
    known: dict[str, PartitionFacts | None] = dict.fromkeys(item.path for item in items)

    def read(items: list[Item], asked: VerifyOptions) -> None:
        step = partial(
            verify_item, options=asked, settings=settings, deadline=None, coordinators=coordinators
        )
        for item, result in ONE_BY_ONE(items, step, Progress()):
            known[item.path] = None if isinstance(result, KdumpError) else result.facts

    read(items, quick)
    # Damage further in, too, may leave the end of a log open.
    ends = {path for path, one in known.items() if one is not None and one.next_offset is not None}
    doubted = [item for item in items if item.path not in ends]
    whole = sum(item.whole for item in items)
    while True:
        read(doubted, options)
        done = {item.path for item in doubted}
        items = [item for item in items if item.path not in done]
        facts = [one for one in known.values() if one is not None]
        found = [*_directories(named, quick, facts, whole=len(facts) == whole)]
        suspected = {(one.topic, one.partition) for one in found if isinstance(one, Finding)}
        doubted = [item for item in items if (item.topic, item.partition) in suspected]
        if not doubted:
            yield from found
            return


def tier_findings(named: list[str], options: VerifyOptions) -> Iterator[Finding | KdumpError]:
    """Look at remote storage alone."""
    from kdump.engine.verify.tier import check_tier

    for seen in check_tier(named, options, settings_for(options, named)):
        if isinstance(seen, (Finding, KdumpError)):
            yield seen


def verify_item(
    item: Item,
    pace: Pace,
    *,
    options: VerifyOptions,
    settings: TopicSettings,
    deadline: float | None,
    predict: Predictor | None = None,
    coordinators: Coordinators | None = None,
) -> Result:
    """Look at one item of a plan: its partition is listed again, then read."""
    left_out = LeftOut(item.skips, deadline)
    if left_out.late:
        late = ((OUT_OF_TIME, len(item.sizes)), (OUT_OF_TIME_BYTES, item.size_bytes))
        kept = tuple(known for skip in item.skips.values() for known in skip.known)
        return Result(kept, Counts(not_checked=late))
    target = target_of(item)
    if isinstance(target, KdumpError):
        reported = unread_finding(target, Place(item.topic, item.partition, None, item.path))
        return Result((reported,)) if isinstance(reported, Finding) else Result(errors=(reported,))
    kind = target.files[0].name.kind if target.files else None
    if kind in (Kind.CAPTURE, Kind.FRAMES):
        return _capture(target.path, kind, options)
    if target.log is None:
        reason = "is not part of a partition; give a partition directory or a data directory"
        return Result(errors=(PathError(item.path, reason),))
    if not target.whole and target.files[0].name.kind is Kind.UNKNOWN:
        reason = "is not named like a Kafka file: not checked"
        return Result(errors=(PathError(item.path, reason),))
    of_topic = settings.of(target.log.path, target.topic)
    broker = settings.releases.of(places.parent(target.log.path))
    result = verify_partition(
        target,
        options._replace(broker_version=broker),
        of_topic,
        pace=pace,
        leave_out=left_out,
        walked=item.walked,
        coordinators=coordinators,
        releases=settings.releases,
    )
    if predict is None or not target.whole:
        return result
    predict = predict._replace(settings=of_topic)
    try:
        recovery = predict.partition(target)
        if not places.isdir(target.path):  # no start sees what is gone by now
            gone = finding(
                "file-vanished", path=target.path, topic=target.topic, partition=target.partition
            )
            known = any(found.code == gone.code for found in result.findings)
            return result if known else result._replace(findings=(*result.findings, gone))
        from kdump.engine.predict.verdict import verdict
        from kdump.engine.verify.predict import find_unserved

        damaged = any(found.severity is Severity.DAMAGE for found in result.findings)
        if damaged or verdict(recovery) is not None:
            recovery = recovery.replaced(remedies=predict.remedies(target))
        found = find_unserved(target, result.findings, recovery, predict, options.decompress_limit)
        recovery = recovery.replaced(unserved=found, asked_=("unserved",))
    except KdumpError:
        raise
    except Exception as error:  # what the checks found stands
        return result._replace(errors=(*result.errors, make_error(item, error)))
    return result._replace(recovery=recovery)


def _capture(path: str, kind: Kind, options: VerifyOptions) -> Result:
    """Check the requests and responses in a capture, and the records that they carry."""
    from kdump.engine.frames.check import check_capture

    limit, deep = options.decompress_limit, options.deep
    try:
        checked = check_capture(path, kind, options.selection, limit, deep=deep)
    except KdumpError as error:
        return Result(errors=(error,))
    return Result(checked.findings, Counts(1, *checked[1:]))


class _Sums:
    """What the summary adds up."""

    def __init__(self) -> None:
        self._paths = 0
        self._counts = Counts()
        self._findings = FindingCounts()
        self._not_checked: Counter[str] = Counter()
        self._errors = 0
        self.ways = WaysPast()

    def error(self, error: KdumpError) -> KdumpError:
        """Count a path that was not finished."""
        self._errors += 1
        if isinstance(error, InternalError):
            self.count_finding(internal_error(error))
        return error

    def add(self, result: Result) -> None:
        """Add what one partition came to."""
        self._paths += result.was_looked_at
        self._counts = self._counts.plus(result.counts)
        self._not_checked.update(dict(result.counts.not_checked))
        for found in result.findings:
            self.count_finding(found)

    def count_finding(self, finding: Finding) -> Finding:
        """Count a finding, and those that it stands for."""
        self._findings.add(finding)
        self.ways.add(finding)
        return finding

    def by_severity(self) -> dict[str, int]:
        """Give the counts, the worst first."""
        return self._findings.by_severity()

    def row(self, options: VerifyOptions, seconds: float) -> VerifySummary:
        """Make the summary row."""
        read, left = self._counts, self._not_checked
        late, unread = left[OUT_OF_TIME], left[NOT_READ]
        return VerifySummary(
            paths=self._paths,
            segments=read.segments,
            tails=read.tails if options.quick else None,
            batches=read.batches,
            records_count=read.records_count,
            bytes=read.bytes,
            findings=self._findings.by_severity(),
            codes=self._findings.by_code(),
            not_checked=dict(sorted(left.items())),
            # Of segments that were left out it is known what was found in them.
            segments_checked=read.segments + read.tails + left[VERIFIED_BEFORE],
            segments_unchecked=late if options.quick else late + unread,
            unchecked=late + unread + sum(left[word] for word in NOT_CHECKED.values()),
            paths_unfinished=self._errors,
            finished=not self._errors and not late,
            mode="deep" if options.deep else "quick" if options.quick else "default",
            seconds=round(seconds, 3),
            kernel=KERNEL,
        )
