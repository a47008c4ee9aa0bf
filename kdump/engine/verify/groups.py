"""Total the findings of many data directories by broker, by topic, or by both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kdump.engine.verify.results import Counts, FindingCounts, Result
from kdump.rows.verify import SummaryBy
from kdump.storage import places

if TYPE_CHECKING:
    from kdump.engine.verify.options import Item
    from kdump.findings.finding import Finding
    from kdump.storage.about import DirectoryFacts

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

    def found(self, finding: Finding) -> None:
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
