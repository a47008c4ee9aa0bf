"""Run a bulk dump: plan, step and merge over any driver.

Rows go to the parts, written where they are read. What comes back of a split is some hundred
bytes, and its findings. They are shown in the order of the plan, so that a run says the same
whichever worker was done first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from kdump import __version__
from kdump.engine.reading.options import DumpOptions
from kdump.engine.reading.split_edges import SplitEdges
from kdump.engine.work.pace import Progress
from kdump.engine.work.pipeline import Driver, Step, take_up
from kdump.engine.work.splits import SPLIT_BYTES, Split, plan, splits_to_reread
from kdump.errors import InternalError, KdumpError
from kdump.findings.finding import Finding
from kdump.output.parquet_parts import PartJob, PartResult, write_part
from kdump.output.part_directory import PartDirectory
from kdump.output.progress import Written

_ATTEMPTS = 2


def dump_parts(
    paths: Iterable[str],
    options: DumpOptions,
    directory: PartDirectory,
    driver: Driver,
    *,
    progress: Progress | None = None,
    split_bytes: int | None = SPLIT_BYTES,
) -> Iterator[Written | Finding | KdumpError]:
    """Fill a directory with part files; yield what was written, then findings in plan order.

    A path that cannot be read is an error, and the others are dumped; a split that could not be
    done, by its second attempt either, ends the run and leaves nothing.
    """
    progress = progress or Progress()
    splits: list[Split] = []
    kind = "batch header" if options.mode == "batches" else "record"
    failed = False
    try:
        for error in take_up(plan(paths, options, split_bytes), splits, progress):
            failed = True
            yield error
        if failed and not splits:
            directory.drop()
            return
        driver.will_write(str(directory.staging))
        step = partial(write_part, job=PartJob(options, str(directory.staging)))
        results: dict[int, PartResult] = {}
        todo = splits
        while todo:
            for result in _results(driver, step, todo, progress):
                results[result.number] = result
                yield Written(kind, result.rows)
            todo = []
            for of_log in splits_to_reread(
                splits, {number: part.seam for number, part in results.items()}
            ):
                todo.append(of_log[0].uncut())
                for split in of_log:
                    yield Written(kind, -results.pop(split.number).rows)
        places = {split.number: split.target for split in splits}
        ordered = [results[number] for number in sorted(results)]
        parts = [
            (part.name, places[part.number].topic, places[part.number].partition, part.number)
            for part in ordered
            if part.name is not None
        ]
        directory.keep(parts, _success(ordered))
    except BaseException:
        directory.drop()
        raise
    for part in ordered:
        yield from part.findings
        yield from part.errors


def _results(
    driver: Driver, step: Step[Split, PartResult], splits: Sequence[Split], progress: Progress
) -> Iterator[PartResult]:
    """Yield all results. A worker that died, or had no room to write, has a second chance."""
    for attempt in range(_ATTEMPTS):
        failed: list[tuple[Split, KdumpError]] = []
        for split, result in driver(splits, step, progress):
            if isinstance(result, InternalError):
                edges = None if split.segment is None else SplitEdges(sound=False)
                yield PartResult(split.number, None, 0, 0, (), (result,), edges)
            elif isinstance(result, KdumpError):
                failed.append((split, result))
            else:
                yield result
        if not failed:
            return
        if attempt == _ATTEMPTS - 1:
            raise failed[0][1]
        splits = [split for split, _ in failed]


def _success(parts: Sequence[PartResult]) -> dict[str, object]:
    """What `_SUCCESS` says; the same for the same rows, whoever wrote them."""
    return {
        "kdump": __version__,
        "parts": sum(part.name is not None for part in parts),
        "rows": sum(part.rows for part in parts),
        "file_bytes": sum(part.file_bytes for part in parts),
        "findings": sum(len(part.findings) for part in parts),
    }
