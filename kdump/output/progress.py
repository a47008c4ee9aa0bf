"""Count progress always, and draw it where a person waits at a terminal."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

from kdump.findings.rows import BatchChunk, HexText, Place, RecordChunk, RecordRow, Row
from kdump.output.amounts import count_text, size_text
from kdump.output.escape import encoding_of, visible
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.engine.work.pace import Progress
    from kdump.output.sink import Item


class WrittenRows(NamedTuple):
    """Rows that workers wrote to files of their own; below zero: that were thrown away."""

    kind: str
    rows: int


class Tally:
    """What has gone by: rows, bytes of log, and where the work is now."""

    #: How far a plan has come, where there is one: what several workers do is looked at there.
    progress: Progress | None = None

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._counts = {"record": 0, "batch header": 0, "batch": 0, "row": 0}
        self._whole_bytes = 0  # of files behind us
        self._file_bytes = 0  # of the file at hand
        self.place: Place | None = None
        self._at_hand_bytes = 0

    @property
    def seconds(self) -> float:
        """Time since the start."""
        return time.monotonic() - self._started

    @property
    def size_bytes(self) -> int:
        """Bytes of log files gone over."""
        return self._whole_bytes + self._file_bytes

    def count(self, item: Item | WrittenRows) -> None:
        """Count one item: constant work for a chunk, however many rows it has."""
        if isinstance(item, (RecordChunk, BatchChunk)):
            name = "record" if isinstance(item, RecordChunk) else "batch header"
            self._counts[name] += len(item)
            if item.place is not self.place:
                self._at(item.place)
            last = item.batches.count - 1
            if last >= 0:
                self._file_bytes = item.batches.end_position(last)
        elif isinstance(item, RecordRow):
            self._counts["record"] += 1
        elif isinstance(item, HexText):
            self._counts["batch"] += 1
        elif isinstance(item, Row):
            self._counts["row"] += 1
        elif isinstance(item, WrittenRows):
            self._counts[item.kind] += item.rows
        else:  # of kafka-dump-log's forms only those that carry a chunk count
            inside = getattr(item, "records", None) or getattr(item, "batches", None)
            if isinstance(inside, (RecordChunk, BatchChunk)):
                self.count(inside)

    def _at(self, place: Place) -> None:
        if self.place is not None and place != self.place:
            self._whole_bytes += self._file_bytes
            self._file_bytes = 0
        self.place = place
        self._at_hand_bytes = _disk_usage(place.path)

    def text(self) -> str:
        """Write the tally on one line."""
        parts = [count_text(count, name) for name, count in self._counts.items() if count]
        parts = parts or ["nothing"]
        if self.size_bytes:
            parts.append(size_text(self.size_bytes))
        parts.append(f"{self.seconds:.2f} s")
        return " · ".join(parts)

    @property
    def at_hand_bytes(self) -> int:
        """How much there is to read, as far as it is known: the file at hand, or all of a plan."""
        return self._at_hand_bytes

    @property
    def done(self) -> int:
        """How far the bar has come."""
        return self.size_bytes

    def amount_text(self) -> str:
        """Write how much is done, and how fast it goes."""
        return f"{size_text(self.size_bytes)} at {self._rate()}/s"

    def _rate(self) -> str:
        return size_text(self.size_bytes / max(self.seconds, 0.001))

    def total(self) -> int | None:
        """Say where the bar ends; None: at the bytes of all files, which have to be asked."""
        return None

    def place_text(self) -> str:
        """Write where the work is."""
        if self.place is None:
            return "nothing read yet"
        topic, partition, segment, path = self.place
        where = path if topic is None else f"{topic}-{partition}"
        if segment is not None and topic is not None:
            where = f"{where} · segment {segment}"
        return visible(f"{where} · position {self._file_bytes:,}")


class _TallyOfPlan(Tally):
    """What has gone by of a plan, whose size is known from the start."""

    progress: Progress

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self.progress = progress

    @property
    def size_bytes(self) -> int:
        """Bytes of logs read so far."""
        return self.progress.done_bytes

    @property
    def at_hand_bytes(self) -> int:
        """All bytes of the plan."""
        return self.progress.planned_bytes


class PlannedTally(_TallyOfPlan):
    """What has gone by of a plan by its own counters; `word` names its items."""

    def __init__(self, progress: Progress, word: str = "partition") -> None:
        super().__init__(progress)
        self._word = word

    def count(self, item: object) -> None:
        """Count nothing: the plan's own counters are looked at."""

    def total(self) -> int | None:
        """Say how many bytes of logs are to be read."""
        return self.progress.planned_bytes

    def _items_text(self) -> str:
        progress = self.progress
        planned = count_text(progress.planned_items, self._word)
        is_done = progress.items_done == progress.planned_items
        return planned if is_done else f"{progress.items_done:,} of {planned}"

    def text(self) -> str:
        """Write how far the plan has come on one line."""
        total = self.progress.planned_bytes
        parts = [self._items_text()]
        if total:
            of = "" if self.size_bytes >= total else f" of {size_text(total)}"
            parts += [f"{size_text(self.size_bytes)}{of}", f"{self._rate()}/s"]
        if 0 < self.size_bytes < total:
            left = self.seconds * (total - self.size_bytes) / self.size_bytes
            parts.append(f"{left:,.0f} s left")
        parts += [count_text(n, word) for word, n in self.progress.findings.items() if n]
        parts.append(f"{self.seconds:.2f} s")
        return " · ".join(parts)

    def amount_text(self) -> str:
        """Write how much is done, how fast it goes, and what was found so far."""
        total = self.progress.planned_bytes
        done = min(self.size_bytes, total)  # small files that are read besides are not planned
        parts = [f"{size_text(done)} of {size_text(total)} at {self._rate()}/s"]
        found = self.progress.findings
        parts += [count_text(n, word) for word, n in found.items() if n and word != "note"]
        return " · ".join(parts)

    def place_text(self) -> str:
        """Write which partitions are being read."""
        at = self.progress.at
        if not at:
            return "nothing read yet"
        more = f" and {len(at) - 1} more" if len(at) > 1 else ""
        return visible(os.path.basename(os.path.abspath(at[0]))) + more


class LookupTally(PlannedTally):
    """What has gone by of many lookups: partitions, since next to nothing of them is read."""

    @property
    def at_hand_bytes(self) -> int:
        """Next to nothing: lookups read little of a log."""
        return 0

    @property
    def done(self) -> int:
        """Partitions that were asked for."""
        return self.progress.items_done

    def total(self) -> int | None:
        """Say how many partitions there are."""
        return self.progress.planned_items

    def place_text(self) -> str:
        """Write where the work is."""
        return visible(self.progress.at[0]) if self.progress.at else "nothing read yet"

    def amount_text(self) -> str:
        """Write how much is done."""
        return self._items_text()

    def text(self) -> str:
        """Write how far the lookups have come on one line."""
        return f"{self.amount_text()} · {self.seconds:.2f} s"


class PartsTally(_TallyOfPlan):
    """What has gone by where workers write the rows to files of their own."""

    def place_text(self) -> str:
        """Write how many pieces are done, and where the work is."""
        progress = self.progress
        text = f"{progress.items_done} of {progress.planned_items} pieces"
        return visible(" · ".join((text, *progress.at[:1])))


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
        from rich import progress as of_rich
        from rich.console import Console

        file = self._file

        class Terminal(Console):
            """A console whose bars are ASCII where the locale of the terminal is C."""

            @property
            def encoding(self) -> str:
                return encoding_of(file)

        self._progress = of_rich.Progress(
            of_rich.TextColumn("{task.description}", markup=False),
            of_rich.BarColumn(),
            of_rich.TaskProgressColumn(),
            of_rich.TextColumn("{task.fields[amount]}"),
            of_rich.TimeRemainingColumn(),
            console=Terminal(file=file),
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
        total += _disk_usage(path)
        for directory, _, files in os.walk(path):  # what cannot be listed is passed over
            total += sum(_disk_usage(os.path.join(directory, name)) for name in files)
    return total


def _disk_usage(path: str) -> int:
    try:
        status = os.stat(path)
    except OSError:
        return 0
    return min(status.st_size, status.st_blocks * 512)


@contextmanager
def answer_progress_signal(tally: Tally) -> Iterator[None]:
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
