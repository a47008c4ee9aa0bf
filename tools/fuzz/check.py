"""One input through the readers, and what must hold: no traceback, in time, in bounded memory.

Also held: what a walk finds adds up to the file, JSON Lines are JSON, and the twins agree.

Memory is bounded by a multiple of the decompression limit and a fixed part. The multiple is 4: the
plain text, the pieces it is joined from, a copy of one value, and one more. Not so for Arrow, where
a record header that is two bytes of text takes eight, the ends of its key and of its value, and a
row cannot be cut: four texts beside the plain one and its pieces make 7. To write that as Parquet,
PyArrow's encoder holds of each column two levels of two bytes for every header, its page with four
bytes of length for every value, as it is built, as it is put together and as it is compressed:
8 to 9 more, 16 in all.
"""

from __future__ import annotations

import ctypes
import gc
import io
import json
import os
import resource
import sys
import time
import traceback
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from fuzz.cases import Case, Run  # noqa: TC002 - told apart at run time too
from fuzz.seeds import LIMIT

from kdump import kernels
from kdump.engine.dump.run import dump
from kdump.engine.kafka_text.dump import kafka_dump
from kdump.engine.kafka_text.log import read_frames
from kdump.engine.reading.options import DumpOptions
from kdump.errors import KdumpError
from kdump.findings.finding import Finding
from kdump.kernels import _pure, reasons
from kdump.output.messages import Messages
from kdump.output.process_tuning import prepare_for_bulk
from kdump.output.progress import Tally
from kdump.output.report import pour
from kdump.output.sink import Sink
from kdump.output.values import BYTES_MODES
from kdump.record import compression
from kdump.record.frames import Gap
from kdump.record.frames import Run as WalkRun
from kdump.storage.file_records import FileRecords
from kdump.storage.source import Source
from kdump.storage.targets import Selection

SECONDS_A_MIB = 2.0
#: The pure kernel is held to the same shape of growth, not to the same speed.
PURE_FACTOR = 10.0
#: What a person reads, one entry at a time: thirty times the size of the file.
HEX_FACTOR = 2.0
#: What `machine_seconds` gives where the bound was set; a slower or busy machine gets more.
REFERENCE_SECONDS = 0.020
MEMORY_FACTOR = {"arrow": 7, "parquet": 16}
MEMORY_FACTOR_ELSE = 4
#: What a run takes whatever the limit: blocks, a chunk of columns and its text; and for Arrow the
#: record batch being gathered, with its encoders.
MEMORY_FIXED = {"arrow": 32 << 20, "parquet": 32 << 20}
MEMORY_FIXED_ELSE = 4 << 20
MIB = 1 << 20
OLD = 1_700_000_000
#: With sanitizers (`sanitize.py`) neither the time nor the memory is kdump's own.
SANITIZED = "KDUMP_SANITIZED" in os.environ

_FUNCTIONS = _pure.__all__
_OTHER_TWIN = _pure if kernels.NAME == "compiled" else None


class Failure(NamedTuple):
    """What went wrong with one input. `kind` is one word, `where` names the run."""

    number: int
    family: str
    kind: str
    where: str
    detail: str


class RunCost(NamedTuple):
    """The cost of one run, beside what it may cost."""

    seconds: float
    allowed_seconds: float
    peak_bytes: int
    where: str


class _BoundedText(io.TextIOBase):
    """A text stream that keeps what is written to it up to a size, and forgets the rest."""

    encoding = "utf-8"  # type: ignore[assignment]

    def __init__(self, keep: int = 0) -> None:
        self.lines: list[str] = []
        self.left = keep

    def write(self, text: str) -> int:
        self.left -= len(text)
        if self.left >= 0:
            self.lines.append(text)
        return len(text)

    def fileno(self) -> int:
        raise OSError("no file")

    def isatty(self) -> bool:
        return False


class _Output:
    """Takes results; keeps them while they are few, and a sum of all of them."""

    def __init__(self, keep: int) -> None:
        self.keep = keep
        self.kept = bytearray()
        self.size_bytes = 0
        self.crc = 0

    def write(self, data: bytes | bytearray | memoryview) -> int:
        size = memoryview(data).nbytes
        self.size_bytes += size
        if self.keep:
            self.crc = zlib.crc32(data, self.crc)
        if self.size_bytes <= self.keep:
            self.kept += data
        return size

    @property
    def whole(self) -> bytes | None:
        return bytes(self.kept) if self.size_bytes <= self.keep else None


# Memory ------------------------------------------------------------------------------------------

try:
    _trim = ctypes.CDLL(None).malloc_trim
except (AttributeError, OSError):
    _trim = None


def peak_bytes() -> int:
    """The most memory that was resident since `forget_peak`, or since the start."""
    try:
        with Path("/proc/self/status").open("rb") as status:
            for line in status:
                if line.startswith(b"VmHWM"):
                    return int(line.split()[1]) << 10
    except OSError:
        pass
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if os.uname().sysname == "Darwin" else peak << 10


def forget_peak() -> int:
    """Give back what is free, start the measure anew where the system can, and return it."""
    if "pyarrow" in sys.modules:
        sys.modules["pyarrow"].default_memory_pool().release_unused()
    if _trim is not None:
        _trim(0)
    try:
        with Path("/proc/self/clear_refs").open("wb") as clear:
            clear.write(b"5")
    except OSError:
        pass
    return peak_bytes()


def machine_seconds() -> float:
    """Time some Python of the kind that readers run; the better of two."""
    taken = []
    for _ in range(2):
        started = time.process_time()
        rows = [{"row": number, "text": f"{number:x}"} for number in range(60_000)]
        rows.sort(key=lambda row: row["text"])
        taken.append(time.process_time() - started)
    return min(taken)


# One run -----------------------------------------------------------------------------------------


class _PlainCount:
    """Counts the plain text that codecs gave out: work is owed for it too."""

    def __init__(self) -> None:
        self.size_bytes = 0

    def __enter__(self) -> _PlainCount:
        self._real = real = compression.decompress

        def counting(*args: Any, **options: Any) -> compression.Plain:
            plain = real(*args, **options)
            over = plain.reason == reasons.OVER_LIMIT
            self.size_bytes += args[2] if over else len(plain.data or b"")
            return plain

        compression.decompress = counting  # type: ignore[assignment]
        return self

    def __exit__(self, *_: object) -> None:
        compression.decompress = self._real


def decodes(run: Run) -> bool:
    """Whether values are decoded: where that is the default, and in half of the files."""
    return run.mode == "records" and BYTES_MODES[run.bytes_mode] in ("auto", "base64")


def sink_of(run: Run, output: _Output, messages: Messages, directory: Path) -> tuple[Sink, Any]:
    """Make the sink of a run as the command does, and the file it writes to, if any."""
    if run.form == "jsonl":
        from kdump.output.jsonl import JsonLines

        return JsonLines(output.write, run.bytes_mode), None
    if run.form == "csv":
        from kdump.output.delimited import DelimitedSink

        return DelimitedSink(output.write, run.bytes_mode, terminal=run.terminal), None
    if run.form == "kafka":
        from kdump.output.kafka_text import KafkaText

        return KafkaText(output.write, messages.line, terminal=run.terminal), None
    if run.form == "table":
        from kdump.output.table import Table

        records = run.mode == "records"
        return Table(
            output.write, _BoundedText(), run.bytes_mode, headers_among_records=records
        ), None
    from kdump.output.arrow import arrow_sink

    file = (directory / "out").open("wb")
    return arrow_sink(run.form, file, "output", decode=decodes(run)), file


def call(run: Run, target: str, directory: Path, *, keep: int = 0) -> tuple[_Output, list[str]]:
    """Do what the command does; return the results and the lines of standard error."""
    output, errors = _Output(keep), _BoundedText(keep)
    messages = Messages(errors, as_json=not run.terminal, colour=False, before=lambda: None)  # type: ignore[arg-type]
    asked = dict(run.options)
    selection = Selection.take(asked)
    options = DumpOptions(
        **{"selection": selection, "mode": run.mode, "decompress_limit": LIMIT, **asked},
        decode=decodes(run),
    )
    sink, file = sink_of(run, output, messages, directory)
    try:
        ask = kafka_dump if run.form == "kafka" else dump
        pour(ask([target], options), sink, messages, Tally(), lambda: None)
    except KdumpError as error:
        messages.error(error)
        if file is not None:
            sink.abandon()  # type: ignore[attr-defined]
    finally:
        if file is not None:
            file.close()
            (directory / "out").unlink()
    return output, errors.lines


@contextmanager
def twin(module: Any) -> Iterator[None]:
    """Put the functions of another kernel in the place of the chosen one's."""
    real = {name: getattr(kernels, name) for name in _FUNCTIONS}
    for name in _FUNCTIONS:
        setattr(kernels, name, getattr(module, name))
    try:
        yield
    finally:
        for name, function in real.items():
            setattr(kernels, name, function)


class Checker:
    """Writes inputs to a directory and puts them through the readers."""

    def __init__(self, directory: Path) -> None:
        self.root = directory
        self.worst: list[RunCost] = []

    def warm_up(self, cases: list[Case]) -> None:
        """Import and allocate all that any run needs, and take that for the idle process."""
        prepare_for_bulk()
        for case in cases:
            self.check(case, twins=False)
        self.worst.clear()
        gc.collect()
        gc.freeze()

    def check(self, case: Case, *, twins: bool) -> list[Failure]:
        """Return what is wrong with one input."""
        self._write(case)
        here = Path.cwd()
        os.chdir(self.root)
        try:
            return list(self._check(case, twins=twins))
        finally:
            os.chdir(here)
            self._remove(case)

    def _check(self, case: Case, *, twins: bool) -> Iterator[Failure]:
        for nth, run in enumerate(case.runs):
            keep = MIB // 4 if nth == 0 else 0
            yield from self._one(case, run, keep)
        for path in case.files:
            if path.endswith(".log") and path == case.target:
                yield from self._guard(case, "walk", lambda path=path: walk_covers(path))
        if twins and _OTHER_TWIN is not None:
            runs = [_for_twins(run) for run in case.runs]
            for run in (run for nth, run in enumerate(runs) if run not in runs[:nth]):
                yield from self._guard(case, f"twins {run}", lambda run=run: self._twins(run, case))

    def _guard(self, case: Case, where: str, work: Any) -> Iterator[Failure]:
        ignored: list[str] = []
        sys.unraisablehook = lambda said: ignored.append(
            f"ignored in {said.object!r}:\n"
            + "".join(traceback.format_exception(said.exc_type, said.exc_value, said.exc_traceback))
        )
        try:
            wrong = work()
            if ignored:
                wrong = ignored[0]
                where = f"traceback {where}"
        except BaseException:
            yield Failure(case.number, case.family, "traceback", where, traceback.format_exc())
        else:
            if wrong:
                yield Failure(case.number, case.family, where.split()[0], where, wrong)

    def _one(self, case: Case, run: Run, keep: int) -> Iterator[Failure]:
        if "from_time_ms" in run.options or run.options:
            keep = 0
        idle = forget_peak()
        kept: list[_Output] = []
        with _PlainCount() as opened:
            started = time.process_time()
            yield from self._guard(
                case, str(run), lambda: kept.append(call(run, case.target, self.root, keep=keep)[0])
            )
            seconds = time.process_time() - started
        peak = peak_bytes() - idle
        # Results cost time too: 1 MiB of plain text may be 30 MiB of JSON, and was asked for.
        worked = (case.size_bytes + opened.size_bytes) / MIB
        allowed = SECONDS_A_MIB * max(1.0, worked)
        if kernels.NAME == "pure":
            allowed *= PURE_FACTOR
        if run.mode == "hex":
            allowed *= HEX_FACTOR
        if seconds > allowed:
            allowed *= max(1.0, machine_seconds() / REFERENCE_SECONDS)
        self._note(RunCost(seconds, allowed, peak, f"{case.number} {case.family}: {run}"))
        if seconds > allowed and not SANITIZED:
            told = f"{seconds:.2f} s of CPU, {allowed:.2f} s allowed for {worked:.2f} MiB"
            yield Failure(case.number, case.family, "slow", str(run), told)
        bound = MEMORY_FACTOR.get(run.form, MEMORY_FACTOR_ELSE) * LIMIT
        if peak > bound + MEMORY_FIXED.get(run.form, MEMORY_FIXED_ELSE) and not SANITIZED:
            told = f"{peak / MIB:.1f} MiB above the idle process, limit {LIMIT / MIB:.0f} MiB"
            yield Failure(case.number, case.family, "memory", str(run), told)
        if kept and keep and run.form == "jsonl" and (text := kept[0].whole) is not None:
            yield from self._guard(case, "json", lambda: json_lines(text))

    def _note(self, measured: RunCost) -> None:
        self.worst.append(measured)
        if len(self.worst) > 1000:
            self.worst = list({*self.slowest(10), *self.largest(10)})

    def slowest(self, count: int) -> list[RunCost]:
        """The runs that came nearest to their time."""
        return sorted(self.worst, key=lambda one: -one.seconds / one.allowed_seconds)[:count]

    def largest(self, count: int) -> list[RunCost]:
        """The runs that took the most memory."""
        return sorted(self.worst, key=lambda one: -one.peak_bytes)[:count]

    def _twins(self, run: Run, case: Case) -> str:
        one, one_errors = call(run, case.target, self.root, keep=MIB)
        with twin(_OTHER_TWIN):
            two, two_errors = call(run, case.target, self.root, keep=MIB)
        if (one.crc, one.size_bytes) != (two.crc, two.size_bytes):
            lines = _difference(one.kept.split(b"\n"), two.kept.split(b"\n"))
            return lines or f"{one.size_bytes} and {two.size_bytes} bytes"
        return _difference(one_errors, two_errors)

    def _write(self, case: Case) -> None:
        for path, data in case.files.items():
            at = self.root / path
            at.parent.mkdir(parents=True, exist_ok=True)
            at.write_bytes(data)
            if not case.fresh:
                os.utime(at, (OLD, OLD))

    def _remove(self, case: Case) -> None:
        for path in case.files:
            (self.root / path).unlink(missing_ok=True)
        parents = {parent for path in case.files for parent in Path(path).parents} - {Path()}
        for path in sorted(parents, key=lambda path: -len(path.parts)):
            (self.root / path).rmdir()


def _for_twins(run: Run) -> Run:
    """Ask for the form in which twins are compared: several runs may be one."""
    if run.mode == "hex":
        return run._replace(form="table")
    return run if run.form in ("jsonl", "kafka") else run._replace(form="jsonl")


def _difference(one: list[Any], two: list[Any]) -> str:
    for nth, (first, second) in enumerate(zip(one, two, strict=False)):
        if first != second:
            return f"line {nth}:\ncompiled {first!r}\npure     {second!r}"
    return "" if len(one) == len(two) else f"{len(one)} lines and {len(two)} lines"


def json_lines(text: bytes) -> str:
    """Say which line is no JSON object."""
    for line in text.splitlines():
        try:
            row = json.loads(line)
        except ValueError as error:
            return f"{error}: {line[:300]!r}"
        if not isinstance(row, dict) or next(iter(row)) != "row":
            return f"no row: {line[:300]!r}"
    return ""


def walk_covers(path: str) -> str:
    """Say where the parts of a walk do not add up to the file."""
    with Source(path) as source:
        for walk, items in (
            ("walk", FileRecords(source, limit=LIMIT).walk()),
            ("framed", read_frames(source, LIMIT)),
        ):
            position = 0
            for item in items:
                if isinstance(item, Gap):
                    pieces = [(item.position, item.size_bytes)]
                else:
                    batches = item.batches
                    pieces = list(zip(batches.positions, batches.sizes, strict=True))
                for start, size in pieces:
                    if start != position or size <= 0:
                        kind = type(item).__name__
                        return f"{walk}: {kind} of {size} bytes at {start}, due at {position}"
                    position += size
                if isinstance(item, WalkRun):
                    first = batches.position(0) - item.base
                    if first < 0 or first + 12 > len(item.data):
                        return f"{walk}: a run outside its data"
            if position != source.size:
                return f"{walk}: ends at {position} of {source.size}"
    return ""


__all__ = ["Checker", "Failure", "Finding", "call", "walk_covers"]
