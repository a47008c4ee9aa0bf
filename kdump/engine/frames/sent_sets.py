"""The record sets that clients sent in the produce requests of a capture."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump.engine.frames.exchange import REQUEST
from kdump.engine.frames.frame import Frame
from kdump.engine.frames.rows import TopicNames, rows_of
from kdump.engine.frames.run import common_row, frames_in, problem_in
from kdump.errors import PathError
from kdump.findings.finding import Finding
from kdump.messages import protocol
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.storage.names import Kind
    from kdump.storage.targets import Selection


class SentSet(NamedTuple):
    """A record set: for which partition, and in which frame, of which number, it was sent."""

    number: int
    topic: str | None
    partition: int | None
    data: bytes
    frame: Frame
    start: int

    def position_of(self, at: int) -> int:
        """Return where in the file a byte of the data is."""
        return self.frame.position_of(self.start + at)


def read_sent_sets(
    path: str, kind: Kind, selection: Selection, limit: int
) -> Iterator[SentSet | Finding | PathError]:
    """Yield the record sets in the order of the capture, and findings in between.

    Those of 0.7 are left out: their clients got no answer, and had no sequence numbers.
    """
    names = TopicNames()
    for number, item in frames_in(path, kind, limit):
        if not isinstance(item, Frame):
            yield item
            continue
        said = item.said
        names.learn(said)
        if said.direction == REQUEST and said.api == protocol.PRODUCE and said.parts is None:
            for row, records in rows_of(said, common_row(item, number), names):
                if records is not None and selection.admits(row.topic, row.partition):
                    data = item.data[records]
                    yield SentSet(number, row.topic, row.partition, data, item, records.start)
        if (found := problem_in(item, path)) is not None:
            yield found
