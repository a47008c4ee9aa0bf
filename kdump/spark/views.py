"""The views of the data source: what is planned for each, and the rows that a task makes of it."""

from __future__ import annotations

import os
import pickle
import zlib
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kdump import __version__
from kdump.engine.dump.split_reader import ProvedReader
from kdump.engine.reading.entries import entries, has_entries
from kdump.engine.reading.log_files import logs_of
from kdump.engine.reading.options import DumpOptions
from kdump.engine.work.pace import Pace
from kdump.engine.work.pipeline import done
from kdump.engine.work.splits import SPLIT_BYTES, Split, plan
from kdump.errors import InternalError, KdumpError, NothingToDo, PathError
from kdump.findings.finding import Finding, internal_error
from kdump.spark import replays
from kdump.spark.columns import Arrow, finding_row, of_items, of_rows
from kdump.spark.driver import MOST_TASKS, PARTITION_BYTES, PARTITION_TASK_BYTES
from kdump.spark.owners import FileFacts, Owners
from kdump.spark.scope import EVERYTHING, Scope
from kdump.spark.segments import segments_of
from kdump.storage import places
from kdump.storage.data_directories import spread
from kdump.storage.targets import Target, resolve

if TYPE_CHECKING:
    from kdump.broker.settings import Settings
    from kdump.engine.coordinators.asked import Coordinators
    from kdump.engine.verify.options import Item, VerifyOptions

Planned = TypeVar("Planned")

#: What a file costs beside its bytes, in bytes of log: it is opened, and named in the plan.
_FILE_BYTES = 1 << 20
#: Files and partitions of a machine's own disk cost so much less than those of a store: a task
#: takes a tenth of a second by itself, 2,000 tiny partitions half a second.
_NEARER = 8
#: What is planned last of all in the view of findings, and read in a task of its own.
_DIRECTORIES = "directories"
_INDEX_ROWS = ("offset-index-entry", "time-index-entry")


class Request(NamedTuple):
    """What a frame asks for. `options` are those of the command that the view is of."""

    view: str
    paths: list[str]
    options: Any
    pack_bytes: int = SPLIT_BYTES
    scope: Scope = EVERYTHING
    fail_on_missing: bool = False

    def sound(self, items: Iterable[Planned | KdumpError]) -> Iterator[Planned]:
        """Yield what is to be read, and raise errors; that nothing is there need not be one."""
        for one in items:
            if isinstance(one, NothingToDo) and not self.fail_on_missing:
                import warnings

                warnings.warn(f"no rows: {one}", RuntimeWarning, stacklevel=2)
                continue
            if isinstance(one, KdumpError):
                raise one
            yield one


def planned_by(request: Request) -> list[tuple[bytes, ...]]:
    """Plan what each task reads: clusters one by one, partitions and splits packed to a size.

    A path that cannot be read is an error. What a task reads is pickled here, and compressed: a
    plan may name millions of files. There are at most MOST_TASKS tasks; where they would be more,
    neighbours are put together.
    """
    pieces: list[tuple[bytes, ...]] = []
    for piece in _planned(request):
        pieces.append((zlib.compress(pickle.dumps(piece), 1),))
        if len(pieces) == 2 * MOST_TASKS:
            pieces = [one + other for one, other in zip(pieces[::2], pieces[1::2], strict=True)]
    if len(pieces) > MOST_TASKS:
        pieces = [sum(pieces[at : at + 2], ()) for at in range(0, len(pieces), 2)]
    return pieces


def planned(pieces: tuple[bytes, ...]) -> Iterator[Any]:
    """Yield what a task reads, as it was planned."""
    for piece in pieces:
        yield from pickle.loads(zlib.decompress(piece))


def _planned(request: Request) -> Iterator[tuple[Any, ...]]:
    view, paths, options = request[:3]
    if not paths and options.server_properties is None:
        return
    if view in replays.VIEWS:
        for of_cluster in replays.clusters(paths, options):
            yield (of_cluster,)
    elif view == "findings":
        yield from packed(_verified(request), PARTITION_TASK_BYTES)
        yield (_DIRECTORIES,)
    elif view in ("index-entries", "segments"):
        yield from packed(_files_alone(request), PARTITION_TASK_BYTES)
    else:
        splits = request.sound(plan(paths, options, request.pack_bytes, request.scope))
        sized = (
            (one, one.size_bytes + _cost(_FILE_BYTES, one.path) * len(one.sizes)) for one in splits
        )
        yield from packed(sized, request.pack_bytes)


def packed(items: Iterable[tuple[Planned, int]], pack_bytes: int) -> Iterator[tuple[Planned, ...]]:
    """Pack items, each with the bytes it counts for, in order into pieces of about a size."""
    piece: list[Planned] = []
    total = 0
    for item, size in items:
        if piece and total + size > pack_bytes:
            yield tuple(piece)
            piece, total = [], 0
        piece.append(item)
        total += size
    if piece:
        yield tuple(piece)


def _verified(request: Request) -> Iterator[tuple[tuple[Item, Settings], int]]:
    """Plan the view of findings: partitions, each with the settings of its topic.

    These are found here, so that no task replays the metadata log.
    """
    from kdump.engine.verify.plan import plan as plan_of_verify
    from kdump.engine.verify.run import settings_for

    asked, named = _verify_options(request.options), _spread(request.paths)
    settings = settings_for(asked, named)
    for item in request.sound(plan_of_verify(named, asked, None)):
        size_bytes = item.size_bytes + _cost(PARTITION_BYTES, item.path)
        yield (item, settings.of(item.path, item.topic)), size_bytes


def _files_alone(request: Request) -> Iterator[tuple[Target, int]]:
    """Plan the views of index entries and of segments: the files of each partition."""
    options = request.options
    found = resolve(request.paths, options.selection, options.server_properties)
    for target in request.sound(found):
        named = target.files if request.view == "index-entries" else logs_of(target)
        files = tuple(
            one
            for one in request.scope.files(named)
            if request.view == "segments" or has_entries(os.path.basename(one.path))
        )
        if files:
            size_bytes = _cost(PARTITION_BYTES, target.path) * len(files)
            yield target._replace(log=None, files=files), size_bytes


def _cost(far_bytes: int, path: str) -> int:
    return far_bytes if places.is_uri(path) else far_bytes // _NEARER


def rows_of(request: Request, pieces: tuple[bytes, ...], schema: Arrow) -> Iterator[Arrow]:
    """Yield the rows of what was planned as Arrow record batches."""
    view, paths, options = request[:3]
    owners = Owners(schema.names)
    if view in replays.VIEWS:
        for of_cluster in planned(pieces):
            yield from of_rows(replays.rows_of(view, of_cluster, options), schema)
    elif view == "findings":
        found = _findings(paths, planned(pieces), options)
        yield from of_rows((_finding_row(one, owners) for one in found), schema)
    elif view == "index-entries":
        yield from of_rows(_entries_of(planned(pieces), owners), schema)
    elif view == "segments":
        rows = segments_of(planned(pieces))
        yield from of_rows((one.fields | owners.of_log(one.path).columns for one in rows), schema)
    else:
        files = _files_of(planned(pieces), request, owners)
        yield from of_items(files, schema, headers=view == "batches", decode=options.decode)


def _finding_row(found: Finding, owners: Owners) -> dict[str, object]:
    place = owners.of_place(found.path, in_partition=found.topic is not None)
    return finding_row(found, __version__) | place.owner


def _files_of(
    splits: Iterable[Split], request: Request, owners: Owners
) -> Iterator[tuple[FileFacts, Any]]:
    """Yield each file of splits, or the piece of it, with what is read of it."""
    for split in splits:
        options = request.scope.options_of(split.target, request.options)
        for file, size in zip(split.target.files, split.sizes, strict=True):
            alone = split._replace(target=split.target._replace(files=(file,)), sizes=(size,))
            items = ProvedReader(alone, options).items()
            if options.mode == "records":
                items = _told(file.path, items)
            yield owners.of_log(file.path), items


def _told(path: str, items: Iterable[Any]) -> Iterator[Any]:
    """Pass on what is read of a file; then warn, in the worker's log, that records are left out."""
    first: Finding | None = None
    count = 0
    for item in items:
        if isinstance(item, Finding) and item.entry.leaves_out_records:
            first = first or item
            count += 1 + item.more
        yield item
    if first is not None:
        import warnings

        warnings.warn(_left_out(path, first, count), RuntimeWarning, stacklevel=2)


def _left_out(path: str, first: Finding, count: int) -> str:
    more = f" and at {count - 1:,} more places" if count > 1 else ""
    hint = "; raise decompressLimit to read them" if first.code == "over-decompress-limit" else ""
    return (
        f"{path}: records are left out: {first.code} at position {first.position}{more}{hint}; "
        "the view findings lists every place, with decompressLimit also what is over that limit"
    )


def _entries_of(targets: Iterable[Target], owners: Owners) -> Iterator[dict[str, object]]:
    """Yield the slots of offset and time indexes as far as they are written, in file order."""
    for target in targets:
        for file in target.files:
            known = owners.of_log(file.path).columns
            try:
                for item in entries(file.path):
                    if not isinstance(item, Finding) and item.row in _INDEX_ROWS:
                        yield item.fields | known | {"row": item.row}
            except PathError:
                if places.lexists(file.path):
                    raise


def _spread(paths: list[str]) -> list[str]:
    """Name the data directories below some paths."""
    return [each for path in paths for each in spread(path)]


def _findings(paths: list[str], pieces: Iterable[Any], options: DumpOptions) -> Iterator[Finding]:
    """Verify the partitions of a task, or the data directories with all that is said of them."""
    from kdump.engine.coordinators.asked import Coordinators
    from kdump.engine.verify.run import directory_findings

    named, asked = _spread(paths), _verify_options(options)
    coordinators = Coordinators(named, options.server_properties)
    for piece in pieces:
        if piece == _DIRECTORIES:
            for found in directory_findings(named, asked):
                if isinstance(found, KdumpError):
                    raise found
                yield found
        else:
            item, of_topic = piece
            yield from _findings_of(item, of_topic, asked, coordinators)


def _findings_of(
    item: Item, of_topic: Settings, asked: VerifyOptions, coordinators: Coordinators
) -> Iterator[Finding]:
    """Verify a partition, by the settings of its topic."""
    from kdump.engine.verify.run import verify_item
    from kdump.replay.topic_settings import TopicSettings

    settings = TopicSettings(of_topic, from_disk=False)
    pace = Pace([0], 0, None, lambda: None)
    step = partial(
        verify_item, options=asked, settings=settings, deadline=None, coordinators=coordinators
    )
    result = done(step, item, pace)
    errors = (result,) if isinstance(result, KdumpError) else result.errors
    for error in errors:
        if not isinstance(error, InternalError):
            raise error
        yield internal_error(error)
    if not isinstance(result, KdumpError):
        yield from result.findings


def _verify_options(options: DumpOptions) -> VerifyOptions:
    from kdump.engine.verify.options import VerifyOptions

    return VerifyOptions(
        selection=options.selection._replace(retired=True),
        server_properties=options.server_properties,
        deep=options.deep,
        decompress_limit=options.decompress_limit,
    )
