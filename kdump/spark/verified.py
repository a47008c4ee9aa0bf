"""The views of what `verify` finds: its findings, and sums of what it read of each partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from kdump.engine.work.pace import Pace
from kdump.engine.work.pipeline import done
from kdump.errors import InternalError, KdumpError
from kdump.findings.finding import Finding, internal_error
from kdump.rows.row import Row
from kdump.rows.words import Bytes, Int32
from kdump.spark.request import Request, partition_cost
from kdump.storage.data_directories import spread

if TYPE_CHECKING:
    from kdump.broker.settings import Settings
    from kdump.engine.coordinators.asked import Coordinators
    from kdump.engine.reading.options import DumpOptions
    from kdump.engine.verify.options import Item, VerifyOptions
    from kdump.engine.verify.results import Result

VIEWS = ("findings", "summary")
#: What is planned last of all in the view of findings, and read in a task of its own.
DIRECTORIES = "directories"


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
    not_checked: Annotated[dict[str, int], "what was passed over, and how much of it, as JSON"]
    path: Annotated[str, "its directory"]


def planned(request: Request) -> Iterator[tuple[tuple[Item, Settings], int]]:
    """Plan what verifies partitions, each with the settings of its topic.

    These are found here, so that no task replays the metadata log.
    """
    from kdump.engine.verify.plan import plan as plan_of_verify
    from kdump.engine.verify.run import settings_for

    asked, named = _verify_options(request.options), _spread(request.paths)
    settings = settings_for(asked, named)
    for item in request.sound(plan_of_verify(named, asked, None)):
        size_bytes = item.size_bytes + partition_cost(item.path)
        yield (item, settings.of(item.path, item.topic)), size_bytes


def _spread(paths: list[str]) -> list[str]:
    """Name the data directories below some paths."""
    return [each for path in paths for each in spread(path)]


def findings(paths: list[str], pieces: Iterable[Any], options: DumpOptions) -> Iterator[Finding]:
    """Verify the partitions of a task, or the data directories with all that is said of them."""
    from kdump.engine.coordinators.asked import Coordinators
    from kdump.engine.verify.run import directory_findings

    named, asked = _spread(paths), _verify_options(options)
    coordinators = Coordinators(named, options.server_properties)
    for piece in pieces:
        if piece == DIRECTORIES:
            for found in directory_findings(named, asked):
                if isinstance(found, KdumpError):
                    raise found
                yield found
        else:
            item, of_topic = piece
            yield from _result_of(item, of_topic, asked, coordinators).findings


def sums(paths: list[str], pieces: Iterable[Any], options: DumpOptions) -> Iterator[PartitionSums]:
    """Verify the partitions of a task, and sum up what was read and passed over in each."""
    from kdump.engine.coordinators.asked import Coordinators
    from kdump.engine.verify.results import FindingCounts

    coordinators = Coordinators(_spread(paths), options.server_properties)
    for item, of_topic in pieces:
        result = _result_of(item, of_topic, _verify_options(options), coordinators)
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


def _result_of(
    item: Item, of_topic: Settings, asked: VerifyOptions, coordinators: Coordinators
) -> Result:
    """Verify a partition, by the settings of its topic."""
    from kdump.engine.verify.results import Result
    from kdump.engine.verify.run import verify_item
    from kdump.replay.topic_settings import TopicSettings

    settings = TopicSettings(of_topic, from_disk=False)
    pace = Pace([0], 0, None, lambda: None)
    step = partial(
        verify_item, options=asked, settings=settings, deadline=None, coordinators=coordinators
    )
    result = done(step, item, pace)
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
    )
