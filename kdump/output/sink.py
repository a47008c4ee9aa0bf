"""The protocol of sinks, which take the engine's items; `pour` keeps findings apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kdump.errors import KdumpError
from kdump.findings.finding import Finding
from kdump.findings.rows import BatchChunk
from kdump.output.progress import Written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kdump.output.items import Item
    from kdump.output.messages import Messages
    from kdump.output.progress import Tally


class Sink(Protocol):
    """One form of output."""

    def write(self, item: Item) -> None:
        """Take one item. Its data is valid only until the call returns."""

    def settle(self) -> None:
        """Write what was held back only for looks: a line on standard error is to follow."""

    def finish(self) -> None:
        """Write what was held back; nothing comes after it."""


class NullSink:
    """Takes everything and writes nothing: `-q`."""

    def write(self, item: Item) -> None:
        """Take one item."""

    def settle(self) -> None:
        """Nothing is held back."""

    def finish(self) -> None:
        """Nothing is held back."""


class WithoutHeaders:
    """Passes on everything but batch headers, for forms that hold rows of one kind.

    Among records such a header stands for a batch that cannot be read; the finding about it says
    the same.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.settle = sink.settle
        self.finish = sink.finish

    def write(self, item: Item) -> None:
        """Take one item."""
        if not isinstance(item, BatchChunk):
            self._sink.write(item)


def pour(
    items: Iterable[Item | Written | Finding | KdumpError],
    sink: Sink,
    messages: Messages,
    tally: Tally,
    tick: Callable[[], None],
) -> None:
    """Write rows to the sink, findings and errors to the messages, and call `tick` in between."""
    for item in items:
        if isinstance(item, Finding):
            sink.settle()
            messages.finding(item)
        elif isinstance(item, KdumpError):
            sink.settle()
            messages.error(item)
        elif isinstance(item, Written):
            tally.count(item)
        else:
            tally.count(item)  # first: writing may take long where the reader is slow
            sink.write(item)
        tick()
    sink.finish()
