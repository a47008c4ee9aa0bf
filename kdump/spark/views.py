"""The views of the data source: what is planned for each, and the rows that a task makes of it."""

from __future__ import annotations

import os
import pickle
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

from kdump import __version__
from kdump.engine.dump.split_reader import ProvedReader
from kdump.engine.reading.entries import entries, has_entries
from kdump.engine.reading.log_files import logs_of
from kdump.engine.work.splits import Split, plan
from kdump.errors import PathError
from kdump.findings.finding import Finding
from kdump.spark import replays, verification
from kdump.spark.columns import Arrow, finding_row, of_items, of_rows
from kdump.spark.driver import MOST_TASKS, PARTITION_TASK_BYTES
from kdump.spark.owners import FileFacts, Owners
from kdump.spark.request import FILE_BYTES, Planned, Request, cost, partition_cost
from kdump.spark.scope import Range, narrow
from kdump.spark.segment_rows import segments_of
from kdump.storage import places
from kdump.storage.targets import Target, resolve

_INDEX_ROWS = ("offset-index-entry", "time-index-entry")


def plan_tasks(request: Request) -> list[tuple[bytes, ...]]:
    """Plan what each task reads: clusters one by one, partitions and splits packed to a size.

    A path that cannot be read is an error. What a task reads is pickled here, and compressed: a
    plan may name millions of files. There are at most MOST_TASKS tasks; where they would be more,
    neighbours are put together.
    """
    pieces: list[tuple[bytes, ...]] = []
    for piece in _plan(request):
        pieces.append((zlib.compress(pickle.dumps(piece), 1),))
        if len(pieces) == 2 * MOST_TASKS:
            pieces = [one + other for one, other in zip(pieces[::2], pieces[1::2], strict=True)]
    if len(pieces) > MOST_TASKS:
        pieces = [sum(pieces[at : at + 2], ()) for at in range(0, len(pieces), 2)]
    return pieces


def read_planned(pieces: tuple[bytes, ...]) -> Iterator[Any]:
    """Yield what a task reads, as it was planned."""
    for piece in pieces:
        yield from pickle.loads(zlib.decompress(piece))


def _plan(request: Request) -> Iterator[tuple[Any, ...]]:
    view, paths, options = request[:3]
    tier = options.tier if view == "findings" else None
    if not paths and options.server_properties is None:
        if tier is not None:
            yield (verification.TIER,)
        return
    if view in replays.VIEWS:
        for of_cluster in replays.clusters(paths, options):
            yield (of_cluster,)
    elif view in verification.VIEWS:
        yield from pack(verification.plan(request), PARTITION_TASK_BYTES)
        if view == "findings":
            yield (verification.DIRECTORIES,)
        if tier is not None:
            yield (verification.TIER,)
    elif view in ("index-entries", "segments"):
        yield from pack(_files_alone(request), PARTITION_TASK_BYTES)
    else:
        splits = request.sound(plan(paths, options, request.pack_bytes, request.scope))
        sized = (
            (
                (one, request.scope.range_of(one.target)),
                one.size_bytes + cost(FILE_BYTES, one.path) * len(one.sizes),
            )
            for one in splits
        )
        yield from pack(sized, request.pack_bytes)


def pack(items: Iterable[tuple[Planned, int]], pack_bytes: int) -> Iterator[tuple[Planned, ...]]:
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


def _files_alone(request: Request) -> Iterator[tuple[Target, int]]:
    """Plan the views of index entries and of segments: the files of each partition."""
    options = request.options
    found = resolve(request.paths, options.selection, options.server_properties)
    for target in request.sound(found):
        named = target.files if request.view == "index-entries" else logs_of(target)
        files = tuple(
            one
            for one in request.scope.files(target, named)
            if request.view == "segments" or has_entries(os.path.basename(one.path))
        )
        if files:
            size_bytes = partition_cost(target.path) * len(files)
            yield target._replace(log=None, files=files), size_bytes


def rows_of(request: Request, pieces: tuple[bytes, ...], schema: Arrow) -> Iterator[Arrow]:
    """Yield the rows of what was planned as Arrow record batches."""
    view, paths, options = request[:3]
    owners = Owners(schema.names)
    if view in replays.VIEWS:
        for of_cluster in read_planned(pieces):
            yield from of_rows(replays.rows_of(view, of_cluster, options), schema)
    elif view == "findings":
        found = verification.findings(paths, read_planned(pieces), options)
        yield from of_rows((_finding_row(*one, owners) for one in found), schema)
    elif view == "summary":
        sums = verification.sums(paths, read_planned(pieces), options)
        yield from of_rows((_sums_row(one, owners) for one in sums), schema)
    elif view == "index-entries":
        yield from of_rows(_entries_of(read_planned(pieces), owners), schema)
    elif view == "segments":
        rows = segments_of(read_planned(pieces))
        yield from of_rows((one.fields | owners.of_log(one.path).columns for one in rows), schema)
    else:
        files = _files_of(read_planned(pieces), request, owners)
        yield from of_items(files, schema, headers=view == "batches", decode=options.decode)


def _finding_row(found: Finding, has_owner: bool, owners: Owners) -> dict[str, object]:
    row = finding_row(found, __version__)
    if not has_owner:
        return row
    return row | owners.of_place(found.path, in_partition=found.topic is not None).owner


def _sums_row(sums: verification.PartitionSums, owners: Owners) -> dict[str, object]:
    return sums.fields | owners.of_place(sums.path, in_partition=True).owner


def _files_of(
    splits: Iterable[tuple[Split, Range]], request: Request, owners: Owners
) -> Iterator[tuple[FileFacts, Any]]:
    """Yield each file of splits, or the piece of it, with what is read of it."""
    for split, bounds in splits:
        options = narrow(request.options, bounds)
        for file, size in zip(split.target.files, split.sizes, strict=True):
            alone = split._replace(target=split.target._replace(files=(file,)), sizes=(size,))
            items = ProvedReader(alone, options).items()
            if options.mode == "records":
                items = _warn_left_out(file.path, items)
            yield owners.of_log(file.path), items


def _warn_left_out(path: str, items: Iterable[Any]) -> Iterator[Any]:
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

        warnings.warn(_left_out_text(path, first, count), RuntimeWarning, stacklevel=2)


def _left_out_text(path: str, first: Finding, count: int) -> str:
    more = f" and at {count - 1:,} more places" if count > 1 else ""
    hint = "; raise decompressLimit to read them" if first.code == "over-decompress-limit" else ""
    return (
        f"{path}: records are omitted: {first.code} at position {first.position}{more}{hint}; "
        "the view findings lists every place, with decompressLimit also those over that limit"
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
