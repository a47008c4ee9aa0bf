"""Run a bulk dump: plan, step and merge over any driver.

Rows go to the parts, written where they are read. What comes back of a split is some hundred
bytes, and its findings. They are shown in the order of the plan, so that a run says the same
whichever worker was done first.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kdump import __version__
from kdump.engine.dump.run import decoder_findings
from kdump.engine.dump.split_reader import SplitReader
from kdump.engine.reading.options import DumpOptions
from kdump.engine.reading.schemas import with_schemas
from kdump.engine.reading.split_edges import SplitEdges
from kdump.engine.work.pace import Progress
from kdump.engine.work.pipeline import Driver, Step, take_up
from kdump.engine.work.splits import SPLIT_BYTES, Split, plan, splits_to_reread
from kdump.errors import InternalError, KdumpError, path_errors
from kdump.findings.finding import Finding
from kdump.findings.rows import BatchChunk, BatchRow, RecordChunk
from kdump.output.part_directory import PartDirectory
from kdump.output.part_files import files_at
from kdump.output.progress import WrittenRows
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.engine.work.pace import Pace
    from kdump.output.arrow import ArrowSink
    from kdump.output.part_files import PartFiles
    from kdump.output.sink import Item


#: Columns that the directories stand for in which a part lies.
_OF_THE_DIRECTORY = frozenset({"topic", "partition"})


class PartJob(NamedTuple):
    """What all splits of a run share; `staging` is the directory that takes the parts."""

    options: DumpOptions
    staging: str


class PartResult(NamedTuple):
    """What came of one split. `name` is the staged file; None where there is no row for it."""

    number: int
    name: str | None
    rows: int
    file_bytes: int
    findings: tuple[Finding, ...]
    errors: tuple[KdumpError, ...]
    seam: SplitEdges | None
    undecoded: Mapping[str, int] = MappingProxyType({})  # keys and values, by reason
    ended: Finding | None = None  # the user's decoder, of the process that wrote this


def write_part(split: Split, pace: Pace, *, job: PartJob) -> PartResult:
    """Write the rows of a split to a file of its own in `job.staging`.

    The file has a name that no other attempt has. The directory is not made here: where it is
    missing, this machine does not see the one that the results go to.
    """
    name = f"{split.number}-{uuid.uuid4().hex}.parquet"
    part = _Part(job.staging, name, decode=job.options.decode)
    reader = SplitReader(split, job.options)
    opened = None if job.options.schemas is None else job.options.schemas.open()
    before = Counter[str]() if opened is None else opened.undecoded.copy()
    findings: list[Finding] = []
    errors: list[KdumpError] = []
    try:
        for item in reader.items():
            if isinstance(item, Finding):
                findings.append(item)
            elif isinstance(item, KdumpError):
                errors.append(item)
            elif job.options.mode == "batches" or not isinstance(item, (BatchChunk, BatchRow)):
                # A header among records stands for a batch that cannot be read; a finding says so.
                part.write(item)
        if reader.seam is not None and not reader.seam.sound:
            part.drop()
        else:
            part.finish()
    except BaseException:
        part.drop()
        raise
    pace(split.size_bytes)
    return PartResult(
        split.number,
        part.name,
        part.rows,
        part.file_bytes,
        tuple(findings),
        tuple(errors),
        reader.seam,
        {} if opened is None else opened.undecoded - before,
        next(decoder_findings(job.options), None),
    )


class _Part:
    """A Parquet file that is there only if it has rows."""

    def __init__(self, directory: str, name: str, *, decode: bool) -> None:
        self._directory = directory
        self._name = name
        self._decode = decode
        self._files: PartFiles | None = None
        self._file: Any = None
        self._sink: ArrowSink | None = None
        self.name: str | None = None
        self.rows = 0
        self.file_bytes = 0

    def write(self, item: Item) -> None:
        count = len(item) if isinstance(item, (RecordChunk, BatchChunk)) else 1
        if not count:
            return
        if self._sink is None:
            from kdump.output.arrow import ArrowSink

            with path_errors(self._directory):
                self._files = files_at(self._directory)
                self._file = self._files.create(self._name)
            self._sink = ArrowSink(
                "parquet",
                self._file,
                self._directory,
                left_out=_OF_THE_DIRECTORY,
                decode=self._decode,
            )
        self.rows += count
        self._sink.write(item)

    def finish(self) -> None:
        """Write the file's end, and see to it that it survives a power failure."""
        if self._sink is None or self._files is None:
            return
        with path_errors(self._directory):
            self._sink.finish()
            self.file_bytes = self._files.close(self._file)
        self.name = self._name

    def drop(self) -> None:
        if self._sink is not None:
            self._sink.abandon()
        if self._file is not None and self._files is not None:
            self._file.close()
            self._files.remove(self._name)
        self.name, self.rows = None, 0


_ATTEMPTS = 2


def dump_parts(
    paths: Iterable[str],
    options: DumpOptions,
    directory: PartDirectory,
    driver: Driver,
    *,
    progress: Progress | None = None,
    split_bytes: int | None = SPLIT_BYTES,
) -> Iterator[WrittenRows | Finding | KdumpError]:
    """Fill a directory with part files; yield what was written, then findings in plan order.

    A path that cannot be read is an error, and the others are dumped; a split that could not be
    done, by its second attempt either, ends the run and leaves nothing.
    """
    progress = progress or Progress()
    paths = tuple(paths)
    options = with_schemas(paths, options)
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
                yield WrittenRows(kind, result.rows)
            todo = []
            for of_log in splits_to_reread(
                splits, {number: part.seam for number, part in results.items()}
            ):
                todo.append(of_log[0].uncut())
                for split in of_log:
                    yield WrittenRows(kind, -results.pop(split.number).rows)
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
    yield from [part.ended for part in ordered if part.ended is not None][:1]
    if options.schemas is not None and (opened := options.schemas.open()) is not None:
        opened.undecoded = sum((Counter(part.undecoded) for part in ordered), Counter())


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
