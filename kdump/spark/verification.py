"""The views of what `verify` finds: its findings, and sums of what it read of each partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from kdump.engine.work.pace import Pace
from kdump.engine.work.pipeline import run_item
from kdump.errors import InternalError, KdumpError
from kdump.findings.finding import Finding, internal_error
from kdump.rows.row import Row
from kdump.rows.words import Bytes, Int32
from kdump.spark.request import Request, partition_cost
from kdump.storage import places
from kdump.storage.data_directories import spread_all
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.broker.settings import Settings
    from kdump.engine.coordinators.transaction_judge import Coordinators
    from kdump.engine.reading.options import DumpOptions
    from kdump.engine.verify.options import Item, VerifyOptions
    from kdump.engine.verify.results import Result
    from kdump.replay.releases import Releases

VIEWS = ("findings", "summary")
#: What is planned last of all in the view of findings, and read in a task of its own.
DIRECTORIES = "directories"
#: The same for remote storage.
TIER = "tier"


class PartitionSums(Row, kind="summary"):
    """What was read of a partition, what was found, and what was passed over."""

    topic: Annotated[str | None, "its topic"]
    partition: Annotated[Int32 | None, "its partition"]
    segments: Annotated[int, "segments read"]
    batches: Annotated[int, "batches read"]
    records_count: Annotated[int, "records in them"]
    bytes: Annotated[Bytes, "bytes read"]
    findings: Annotated[dict[str, int], "findings by severity, as JSON"]
    codes: Annotated[dict[str, int], "findings by code, as JSON"]
    not_checked: Annotated[dict[str, int], "what was skipped, and how much, as JSON"]
    path: Annotated[str, "its directory"]


class PartitionPlan(NamedTuple):
    """A partition to verify, with the settings of its topic and the release that wrote it.

    Both were found by the plan, so that no task replays the metadata log.
    """

    item: Item
    settings: Settings
    releases: Releases


def plan(request: Request) -> Iterator[tuple[PartitionPlan, int]]:
    """Plan what verifies partitions."""
    from kdump.engine.verify.plan import plan as plan_of_verify
    from kdump.engine.verify.run import settings_for

    asked = _verify_options(request.options)
    named, unsearched = spread_all(request.paths)
    if unsearched:  # whoever reads the rows must not take a part for the whole
        raise unsearched[0]
    settings = settings_for(asked, named)
    for item in request.sound(plan_of_verify(named, asked, None)):
        size_bytes = item.size_bytes + partition_cost(item.path)
        partition = item.path if item.whole else places.parent(item.path)
        releases = settings.releases.restrict_to(places.parent(partition))
        yield PartitionPlan(item, settings.of(partition, item.topic), releases), size_bytes


def findings(
    paths: list[str], pieces: Iterable[Any], options: DumpOptions
) -> Iterator[tuple[Finding, bool]]:
    """Verify the partitions of a task, or what else a piece names, with all that is said of it.

    Each finding comes with whether its file is a node's; the objects of remote storage are not.
    """
    from kdump.engine.coordinators.transaction_judge import Coordinators
    from kdump.engine.verify.run import directory_findings, tier_findings

    named, asked = spread_all(paths)[0], _verify_options(options)
    coordinators = Coordinators(named, options.server_properties)
    for piece in pieces:
        if isinstance(piece, PartitionPlan):
            yield from ((one, True) for one in _result_of(piece, asked, coordinators).findings)
            continue
        is_remote = piece == TIER
        for found in (tier_findings if is_remote else directory_findings)(named, asked):
            if isinstance(found, KdumpError):
                raise found
            yield found, not is_remote or found.path.startswith(tuple(f"{one}/" for one in named))


def sums(paths: list[str], pieces: Iterable[Any], options: DumpOptions) -> Iterator[PartitionSums]:
    """Verify the partitions of a task, and sum up what was read and passed over in each."""
    from kdump.engine.coordinators.transaction_judge import Coordinators
    from kdump.engine.verify.results import FindingCounts

    coordinators = Coordinators(spread_all(paths)[0], options.server_properties)
    for piece in pieces:
        item: Item = piece.item
        result = _result_of(piece, _verify_options(options), coordinators)
        counted = FindingCounts()
        for found in result.findings:
            counted.add(found)
        read = result.counts
        yield PartitionSums(
            topic=item.topic,
            partition=item.partition,
            segments=read.segments,
            batches=read.batches,
            records_count=read.records_count,
            bytes=read.bytes,
            findings=counted.by_severity(),
            codes=counted.by_code(),
            not_checked=dict(sorted(read.not_checked)),
            path=item.path,
        )


def _result_of(piece: PartitionPlan, asked: VerifyOptions, coordinators: Coordinators) -> Result:
    """Verify a partition."""
    from kdump.engine.verify.results import Result
    from kdump.engine.verify.run import verify_item
    from kdump.replay.topic_settings import TopicSettings

    settings = TopicSettings(piece.settings, from_disk=False)
    settings.releases = piece.releases
    pace = Pace([0], 0, None, lambda: None)
    step = partial(
        verify_item, options=asked, settings=settings, deadline=None, coordinators=coordinators
    )
    result = run_item(step, piece.item, pace)
    if isinstance(result, KdumpError):
        result = Result(errors=(result,))
    unforeseen = []
    for error in result.errors:
        if not isinstance(error, InternalError):
            raise error
        unforeseen.append(internal_error(error))
    return result._replace(findings=(*unforeseen, *result.findings))


def _verify_options(options: DumpOptions) -> VerifyOptions:
    from kdump.engine.verify.options import VerifyOptions

    return VerifyOptions(
        selection=options.selection._replace(retired=True),
        server_properties=options.server_properties,
        deep=options.deep,
        decompress_limit=options.decompress_limit,
        tier=options.tier,
        tier_key=options.tier_key,
    )
