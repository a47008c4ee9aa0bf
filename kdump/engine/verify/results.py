"""The result of verifying one partition, and totals of findings by broker, by topic or both."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kdump.errors import KdumpError
from kdump.findings.finding import Finding, Severity
from kdump.rows.verify import Recovery, SummaryBy
from kdump.storage import places
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.engine.checks.survey import PartitionFacts
    from kdump.engine.checks.volumes import Volume
    from kdump.engine.verify.options import Item
    from kdump.storage.directory_facts import DirectoryFacts


class Counts(NamedTuple):
    """What was looked at; `not_checked` says what was not, and how much of it."""

    segments: int = 0
    batches: int = 0
    records_count: int = 0
    bytes: int = 0
    not_checked: tuple[tuple[str, int], ...] = ()
    tails: int = 0  # segments of which only indexes and tail were looked at

    def plus(self, other: Counts) -> Counts:
        """Add two of them, but for what was not checked."""
        segments, batches, records_count, size, _, tails = map(operator.add, self, other)
        return Counts(segments, batches, records_count, size, tails=tails)


class FindingCounts:
    """Counts findings by severity and by code."""

    def __init__(self) -> None:
        self._severities: Counter[str] = Counter()
        self._codes: Counter[str] = Counter()

    def add(self, finding: Finding) -> None:
        """Count a finding, and those that it stands for."""
        self._severities[finding.severity.value] += 1 + finding.more
        self._codes[finding.code] += 1 + finding.more

    def by_severity(self) -> dict[str, int]:
        """Give the counts, the worst first."""
        return {word.value: self._severities[word.value] for word in reversed(Severity)}

    def by_code(self) -> dict[str, int]:
        """Give the counts by code."""
        return dict(sorted(self._codes.items()))


class Result(NamedTuple):
    """What one partition came to."""

    findings: tuple[Finding, ...] = ()
    counts: Counts = Counts()
    errors: tuple[KdumpError, ...] = ()
    verified: frozenset[int] = frozenset()  # base offsets of logs that were read to their end
    facts: PartitionFacts | None = None  # for what is looked at when all results are in
    recovery: Recovery | None = None  # what the next start would do
    replayed: int = 0  # logs that others had read in pieces
    volume: Volume | None = None  # bytes and records by time

    @property
    def was_looked_at(self) -> bool:
        """Whether anything but an error came of it."""
        is_read = bool(self.counts.segments or self.counts.tails)
        return not self.errors or self.facts is not None or bool(self.findings) or is_read


WORDS = ("broker", "topic")


class Groups:
    """Adds up results by the words asked for; a broker is one of its data directories."""

    def __init__(self, by: tuple[str, ...], directories: Iterable[DirectoryFacts]) -> None:
        self._by = by
        self._nodes = {facts.path: facts.node_id for facts in directories}
        self._groups: dict[tuple[str | None, ...], _Group] = {}

    def add(self, item: Item, result: Result) -> None:
        """Add what one partition came to."""
        partition = item.path if item.whole else places.parent(item.path)
        group = self._group(places.parent(partition), item.topic)
        group.partitions += 1
        group.counts = group.counts.plus(result.counts)
        for found in result.findings:
            group.findings.add(found)

    def add_directory_finding(self, finding: Finding) -> None:
        """Add a finding about a data directory, or about several of its partitions."""
        path = finding.path
        if path not in self._nodes and places.parent(path) not in self._nodes:
            path = places.parent(path)
        broker = path if path in self._nodes else places.parent(path)
        self._group(broker, finding.topic).findings.add(finding)

    def _group(self, broker: str, topic: str | None) -> _Group:
        values = {"broker": broker, "topic": topic}
        key = tuple(values[word] for word in self._by)
        return self._groups.setdefault(key, _Group())

    def rows(self) -> Iterator[SummaryBy]:
        """Yield a `summary-by` row for each group, by name."""
        for key in sorted(self._groups, key=lambda key: [part or "" for part in key]):
            group = self._groups[key]
            names = dict(zip(self._by, key, strict=True))
            broker, read = names.get("broker"), group.counts
            yield SummaryBy(
                ",".join(self._by),
                broker,
                self._nodes.get(str(broker)),
                names.get("topic"),
                group.partitions,
                read.segments,
                None,
                read.batches,
                read.records_count,
                read.bytes,
                group.findings.by_severity(),
                group.findings.by_code(),
                (*self._by, *(("node_id",) if "broker" in names else ())),
            )


class _Group:
    """One group's sums."""

    def __init__(self) -> None:
        self.partitions = 0
        self.counts = Counts()
        self.findings = FindingCounts()
