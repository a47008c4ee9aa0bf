"""List the files that a report rests on, hashed as verification reads them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from kdump.engine.checks.volumes import Volume
from kdump.engine.verify.options import Item
from kdump.engine.verify.results import Result
from kdump.errors import KdumpError
from kdump.rows.report import EvidenceFile, Written
from kdump.storage import passing_sums, places
from kdump.storage.passing_sums import FileHash
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.engine.work.pace import Pace, Progress
    from kdump.engine.work.pipeline import Driver

_TOPICS = 20_000  # that have a volume of their own
_DEPTH = 4  # below a path that is given: a data directory, a partition, and what lies in it


class _Evidence(NamedTuple):
    """What came of one partition, and its files."""

    result: Result | KdumpError
    files: tuple[FileHash, ...]


class Evidence:
    """A driver that hashes the files of each partition while its step reads them."""

    def __init__(self, driver: Driver, *, hashes: bool) -> None:
        self._driver, self._hashes = driver, hashes
        self.jobs, self.bytes_per_second = driver.jobs, driver.bytes_per_second
        self.packed_bytes, self.will_write = driver.packed_bytes, driver.will_write
        self._files: list[FileHash] = []
        self._done: set[str] = set()
        self._total = Volume(1 << 16)
        self._topics: dict[str, Volume] = {}

    def __call__(
        self, items: Sequence[Any], step: Any, progress: Progress
    ) -> Iterator[tuple[Any, Any]]:
        """Do the step for each item, and keep what was seen beside."""
        seeing = partial(_gather, step=step, hashes=self._hashes)
        for item, seen in self._driver(items, seeing, progress):
            if not isinstance(seen, _Evidence):
                yield item, seen
                continue
            self._files += seen.files
            self._done.update(file.path for file in seen.files)
            if isinstance(seen.result, Result) and seen.result.volume is not None:
                self._add(item, seen.result.volume)
            yield item, seen.result

    def _add(self, item: Item, volume: Volume) -> None:
        if item.topic is not None and (item.topic in self._topics or len(self._topics) < _TOPICS):
            topic = self._topics.setdefault(item.topic, Volume(1))
            topic.join(volume)
        if not (item.topic or "").startswith("__"):
            self._total.join(volume)

    def take(self) -> Iterator[EvidenceFile]:
        """Yield the files that were seen since the last call."""
        files, self._files = self._files, []
        for file in files:
            yield EvidenceFile(*file)

    def find_others(self, paths: Sequence[str]) -> Iterator[EvidenceFile]:
        """Yield the other files under some paths."""
        for path in paths:
            for directory in _files_below(path):
                todo = [file for file in directory if file not in self._done]
                for file in _hash(todo) if self._hashes else passing_sums.without_sums(todo):
                    yield EvidenceFile(*file)

    def sum_written(self) -> Iterator[Written]:
        """Yield how much was written: of each topic, and of all by time."""
        for topic, of in sorted(self._topics.items()):
            yield Written(topic, of.first_ms, of.last_ms, of.records_count, of.size_bytes)
        span = self._total.span_ms
        for at, (size_bytes, records_count) in sorted(self._total.spans.items()):
            yield Written(None, at * span, (at + 1) * span - 1, records_count, size_bytes)


def _gather(item: Any, pace: Pace, *, step: Any, hashes: bool) -> _Evidence:
    files = [] if not isinstance(item, Item) else next(_files_below(item.path), [])
    if not hashes:
        return _Evidence(step(item, pace), tuple(passing_sums.without_sums(files)))
    sums = passing_sums.watch(files)
    try:
        result: Result | KdumpError = step(item, pace)
    except KdumpError as error:
        result = error
    finally:
        hashed = passing_sums.finish_sums(sums)
    return _Evidence(result, tuple(hashed))


def _hash(files: list[str]) -> Iterator[FileHash]:
    for file in files:
        yield from passing_sums.finish_sums(passing_sums.watch([file]))


def _files_below(path: str, depth: int = _DEPTH) -> Iterator[list[str]]:
    """Yield the files of a directory, then those of each below; of a file itself."""
    try:
        if not places.isdir(path):
            yield [path]
            return
        entries = sorted(places.entries(path), key=lambda entry: entry.name)
    except (OSError, ValueError):  # whoever reads it has said why
        yield []
        return
    below = [entry for entry in entries if places.is_dir(entry)]
    prefix = os.path.join(path, "")
    yield [prefix + entry.name for entry in entries if entry not in below]
    for entry in below if depth else ():
        yield from _files_below(prefix + entry.name, depth - 1)
