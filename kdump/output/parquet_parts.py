"""One split as one Parquet file: the step of a bulk dump, pure and alike in every driver."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kdump.engine.dump import DumpOptions
from kdump.engine.findings import Finding
from kdump.engine.pieces import SplitReader
from kdump.engine.rows import BatchChunk, BatchRow, RecordChunk
from kdump.errors import KdumpError, PathError

if TYPE_CHECKING:
    from typing import BinaryIO

    from kdump.engine.pace import Pace
    from kdump.engine.splits import Seam, Split
    from kdump.output.arrow import ArrowSink
    from kdump.output.sink import Item

#: Told by the directories a part lies in.
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
    seam: Seam | None


def write_part(split: Split, pace: Pace, *, job: PartJob) -> PartResult:
    """Write the rows of a split to a file of its own in `job.staging`.

    The file has a name that no other attempt has. The directory is not made here: where it is
    missing, this machine does not see the one that the results go to.
    """
    part = _Part(Path(job.staging) / f"{split.number}-{uuid.uuid4().hex}.parquet")
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

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
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

            try:
                self._file = self._path.open("xb", buffering=0)
            except OSError as error:
                raise PathError.from_os(str(self._path.parent), error) from error
            self._sink = ArrowSink("parquet", self._file, left_out=_OF_THE_DIRECTORY)
        self.rows += count
        self._sink.write(item)

    def finish(self) -> None:
        """Write the file's end, and see to it that it survives a power failure."""
        if self._sink is None or self._file is None:
            return
        self._sink.finish()
        try:
            os.fsync(self._file.fileno())
            self.file_bytes = self._file.tell()
            self._file.close()
        except OSError as error:
            raise PathError.from_os(str(self._path.parent), error) from error
        self.name = self._path.name

    def drop(self) -> None:
        if self._sink is not None:
            self._sink.abandon()
        if self._file is not None:
            self._file.close()
            self._path.unlink(missing_ok=True)
        self.name, self.rows = None, 0
