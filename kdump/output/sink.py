"""The sinks, which take what the engine yields: one for each form of output."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kdump.findings.rows import BatchChunk, BatchRow, HexText, RecordChunk, RecordRow, Row

if TYPE_CHECKING:
    from typing import TypeAlias

    from kdump.engine.kafka_text.dump import KafkaItem
    from kdump.findings.finding import Finding

    Item: TypeAlias = RecordChunk | BatchChunk | RecordRow | BatchRow | Row | HexText | KafkaItem


class Sink:
    """One form of output. This one takes everything and writes nothing: `-q`."""

    def write(self, item: Item) -> None:
        """Take one item. Its data is valid only until the call returns."""

    def finding(self, finding: Finding) -> None:
        """Take a finding that is a result: a row like any other."""
        self.write(finding.as_row())

    def settle(self) -> None:
        """Write what was held back only for looks: a line on standard error is to follow."""

    def finish(self) -> None:
        """Write what was held back; nothing comes after it."""

    def stop(self) -> None:
        """The run was interrupted: write what is of use all the same."""
        self.settle()

    def abandon(self) -> None:
        """Let go of a file that will be thrown away, before it is closed."""


class ForwardingSink(Sink):
    """Holds the sink behind it."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.settle = sink.settle  # type: ignore[method-assign]
        self.finish = sink.finish  # type: ignore[method-assign]

    def finding(self, finding: Finding) -> None:
        """Take a finding that is a result."""
        self._sink.finding(finding)

    def stop(self) -> None:
        """The run was interrupted."""
        self._sink.stop()


class RowCounter(ForwardingSink):
    """Counts the rows that it passes on."""

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self.rows = 0

    def write(self, item: Item) -> None:
        """Take one item."""
        count = len(item) if isinstance(item, (BatchChunk, RecordChunk)) else 1
        self.rows += getattr(item, "num_rows", count)
        self._sink.write(item)

    def finding(self, finding: Finding) -> None:
        """Take a finding that is a result."""
        self.rows += 1
        self._sink.finding(finding)


class Without(ForwardingSink):
    """Passes on what is not left out, for forms that hold rows of one kind."""

    def __init__(self, sink: Sink, is_left_out: Callable[[Item], bool]) -> None:
        super().__init__(sink)
        self._is_left_out = is_left_out

    def write(self, item: Item) -> None:
        """Take one item."""
        if not self._is_left_out(item):
            self._sink.write(item)

    def finding(self, finding: Finding) -> None:
        """Take a finding that is a result."""
        if not self._is_left_out(finding.as_row()):
            self._sink.finding(finding)
