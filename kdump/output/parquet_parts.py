"""Write one split as one Parquet file: the step of a bulk dump, the same in every driver."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, NamedTuple

from kdump.engine.dump.split_reader import SplitReader
from kdump.engine.reading.options import DumpOptions
from kdump.errors import KdumpError, path_errors
from kdump.findings.finding import Finding
from kdump.findings.rows import BatchChunk, BatchRow, RecordChunk
from kdump.output.part_files import files_at

if TYPE_CHECKING:
    from kdump.engine.reading.split_edges import SplitEdges
    from kdump.engine.work.pace import Pace
    from kdump.engine.work.splits import Split
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


def write_part(split: Split, pace: Pace, *, job: PartJob) -> PartResult:
    """Write the rows of a split to a file of its own in `job.staging`.

    The file has a name that no other attempt has. The directory is not made here: where it is
    missing, this machine does not see the one that the results go to.
    """
    name = f"{split.number}-{uuid.uuid4().hex}.parquet"
    part = _Part(job.staging, name, decode=job.options.decode)
    reader = SplitReader(split, job.options)
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
