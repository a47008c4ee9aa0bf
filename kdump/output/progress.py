"""Count progress always, and draw it where a person waits at a terminal."""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from kdump.findings.rows import BatchChunk, HexText, Pre08Row, RecordChunk, RecordRow, Row

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kdump.engine.work.pace import Progress
    from kdump.findings.rows import Place
    from kdump.output.items import Item

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def counted(count: int, word: str) -> str:
    """Write a number and a word, in the plural where it is one."""
    plural = "" if count == 1 or word in ("damage", "rebuild") else "s"
    plural = "es" if plural and word == "batch" else plural
    return f"{count:,} {word}{plural}"


def size_text(size_bytes: float) -> str:
    """Write a size with a binary unit and three digits or so."""
    unit = 0
    while size_bytes >= 1024 and unit < len(_UNITS) - 1:
        size_bytes /= 1024
        unit += 1
    return f"{size_bytes:,.0f} {_UNITS[unit]}" if unit < 1 else f"{size_bytes:,.1f} {_UNITS[unit]}"


class Written(NamedTuple):
    """Rows that workers wrote to files of their own; below zero: that were thrown away."""

    kind: str
    rows: int


class Tally:
    """What has gone by: rows, bytes of log, and where the work is now."""

    __slots__ = ("_counts", "_file_bytes", "_started", "_whole_bytes", "at", "place")

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._counts = {"record": 0, "batch header": 0, "batch": 0, "row": 0}
        self._whole_bytes = 0  # of files behind us
        self._file_bytes = 0  # of the file at hand
        self.place: Place | None = None
        self.at = ""  # where the work is, when many are at it

    @property
    def seconds(self) -> float:
        """Time since the start."""
        return time.monotonic() - self._started

    @property
    def size_bytes(self) -> int:
        """Bytes of log files gone over."""
        return self._whole_bytes + self._file_bytes

    def count(self, item: Item | Written) -> None:
        """Count one item: constant work for a chunk, however many rows it has."""
        if isinstance(item, (RecordChunk, BatchChunk)):
            name = "record" if isinstance(item, RecordChunk) else "batch header"
            self._counts[name] += len(item)
            if item.place is not self.place:
                self._at(item.place)
            last = item.batches.count - 1
            if last >= 0:
                self._file_bytes = item.batches.end_position(last)
        elif isinstance(item, (RecordRow, Pre08Row)):
            self._counts["record"] += 1
        elif isinstance(item, HexText):
            self._counts["batch"] += 1
        elif isinstance(item, Row):
            self._counts["row"] += 1
        elif isinstance(item, Written):
            self._counts[item.kind] += item.rows
        else:  # of kafka-dump-log's forms only those that carry a chunk count
            inside = getattr(item, "records", None) or getattr(item, "batches", None)
            if isinstance(inside, (RecordChunk, BatchChunk)):
                self.count(inside)

    def follow(self, progress: Progress) -> None:
        """Take over how far several workers have come."""
        self._file_bytes = progress.done_bytes
        self.at = f"{progress.items_done} of {progress.planned_items} pieces"
        self.at += f" · {progress.at[0]}" if progress.at else ""

    def _at(self, place: Place) -> None:
        if self.place is not None and place != self.place:
            self._whole_bytes += self._file_bytes
            self._file_bytes = 0
        self.place = place

    def text(self) -> str:
        """Write the tally on one line."""
        parts = [counted(count, name) for name, count in self._counts.items() if count]
        parts = parts or ["nothing"]
        if self.size_bytes:
            parts.append(size_text(self.size_bytes))
        parts.append(f"{self.seconds:.2f} s")
        return " · ".join(parts)

    @property
    def done(self) -> int:
        """How far the bar has come."""
        return self.size_bytes

    def amount_text(self) -> str:
        """Write how much is done, and how fast it goes."""
        done = self.size_bytes
        return f"{size_text(done)} at {size_text(done / max(self.seconds, 0.001))}/s"

    def total(self) -> int | None:
        """Say where the bar ends; None: at the bytes of all files, which have to be asked."""
        return None

    def place_text(self) -> str:
        """Write where the work is."""
        from kdump.output.escape import visible

        if self.at:
            return visible(self.at)
        if self.place is None:
            return "nothing read yet"
        topic, partition, segment, path = self.place
        where = path if topic is None else f"{topic}-{partition}"
        if segment is not None and topic is not None:
            where = f"{where} · segment {segment}"
        return visible(f"{where} · position {self._file_bytes:,}")


class PlannedTally(Tally):
    """What has gone by of a plan, whose size is known from the start; `word` names its items."""

    __slots__ = ("_progress", "_word")

    def __init__(self, progress: Progress, word: str = "partition") -> None:
        super().__init__()
        self._progress = progress
        self._word = word

    @property
    def size_bytes(self) -> int:
        """Bytes of logs read so far."""
        return self._progress.done_bytes

    def count(self, item: object) -> None:
        """Count nothing: the plan's own counters are looked at."""

    def total(self) -> int | None:
        """Say how many bytes of logs are to be read."""
        return self._progress.planned_bytes

    def text(self) -> str:
        """Write how far the plan has come on one line."""
        progress = self._progress
        total = progress.planned_bytes
        parts = [
            f"{progress.items_done:,} of {counted(progress.planned_items, self._word)}",
            f"{size_text(self.size_bytes)} of {size_text(total)}",
            f"{size_text(self.size_bytes / max(self.seconds, 0.001))}/s",
        ]
        if 0 < self.size_bytes < total:
            left = self.seconds * (total - self.size_bytes) / self.size_bytes
            parts.append(f"{left:,.0f} s left")
        parts += [counted(n, word) for word, n in progress.findings.items() if n]
        parts.append(f"{self.seconds:.2f} s")
        return " · ".join(parts)

    def amount_text(self) -> str:
        """Write how much is done, how fast it goes, and what was found so far."""
        total, done = self._progress.planned_bytes, self.size_bytes
        rate = size_text(done / max(self.seconds, 0.001))
        parts = [f"{size_text(done)} of {size_text(total)} at {rate}/s"]
        found = self._progress.findings
        parts += [counted(n, word) for word, n in found.items() if n and word != "note"]
        return " · ".join(parts)

    def place_text(self) -> str:
        """Write which partitions are being read."""
        from kdump.output.escape import visible

        at = self._progress.at
        if not at:
            return "nothing read yet"
        more = f" and {len(at) - 1} more" if len(at) > 1 else ""
        return visible(os.path.basename(os.path.abspath(at[0]))) + more


class LookupTally(Tally):
    """What has gone by of many lookups: partitions, since next to nothing of them is read."""

    __slots__ = ("_progress",)

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self._progress = progress

    @property
    def done(self) -> int:
        """Partitions that were asked for."""
        return self._progress.items_done

    def total(self) -> int | None:
        """Say how many partitions there are."""
        return self._progress.planned_items

    def follow(self, progress: Progress) -> None:
        """Take over where the work is."""
        self.at = progress.at[0] if progress.at else ""

    def amount_text(self) -> str:
        """Write how much is done."""
        return f"{self.done:,} of {counted(self._progress.planned_items, 'partition')}"

    def text(self) -> str:
        """Write how far the lookups have come on one line."""
        return f"{self.amount_text()} · {self.seconds:.2f} s"


class Bar:
    """A progress bar on standard error that appears when the work takes over a second."""

    def __init__(self, file: TextIO, tally: Tally, paths: Iterable[str]) -> None:
        self._file = file
        self._tally = tally
        self._paths = paths
        self._next = 1.0
        self._progress: Any = None
        self._task: Any = None

    def tick(self) -> None:
        """Draw, if it is time to."""
        tally = self._tally
        if tally.seconds < self._next:
            return
        self._next = tally.seconds + 0.1
        if self._progress is None:
            self._start()
        self._progress.update(
            self._task,
            completed=tally.done,
            description=tally.place_text(),
            amount=tally.amount_text(),
        )
        self._progress.refresh()

    def _start(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress,
            TaskProgressColumn,
            TextColumn,
            TimeRemainingColumn,
        )

        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[amount]}"),
            TimeRemainingColumn(),
            console=Console(file=self._file),
            auto_refresh=False,
            transient=True,
        )
        self._progress.start()
        total = self._tally.total()
        total = _disk_bytes(self._paths) if total is None else total
        self._task = self._progress.add_task("", amount="", total=total or None)

    def clear(self) -> None:
        """Take the bar away, for good or so that a line can be written."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


def _disk_bytes(paths: Iterable[str]) -> int:
    """Estimate the work: what the files take on disk (a preallocated index takes little)."""
    total = 0
    for path in paths:
        total += _taken(path)
        for directory, _, files in os.walk(path):  # what cannot be listed is passed over
            total += sum(_taken(os.path.join(directory, name)) for name in files)
    return total


def _taken(path: str) -> int:
    try:
        status = os.stat(path)
    except OSError:
        return 0
    return min(status.st_size, status.st_blocks * 512)


@contextmanager
def answering_progress_signal(tally: Tally) -> Iterator[None]:
    """Answer SIGUSR1 with a line on standard error, terminal or not."""

    def answer(number: int, frame: object) -> None:
        line = f"kdump: {tally.text()} · {tally.place_text()}\n"
        with suppress(OSError):  # nobody reads it
            os.write(2, line.encode("utf-8", "backslashreplace"))

    if not hasattr(signal, "SIGUSR1"):
        yield
        return
    try:
        before = signal.signal(signal.SIGUSR1, answer)
    except ValueError:  # not the main thread: signals are someone else's business
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)
