"""Say by which rule each closed segment of a partition was rolled: `why --rolls`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker import rolling
from kdump.errors import PathError
from kdump.storage import places
from kdump.storage.file_records import FileRecords
from kdump.storage.layout import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kdump.storage.names import Kind
from kdump.storage.source import Source

if TYPE_CHECKING:
    from kdump.broker.retention import LogFacts
    from kdump.broker.settings import Settings
    from kdump.kernels.columns import BatchHeader
    from kdump.storage.local_log import LogSegment

TIMESTAMP = "timestamp"
#: What the rows call what `rolling` tells apart.
_WORDS = {rolling.APPEND_SIZE: rolling.SIZE}


class Rolls:
    """Explains the ends of segments by their sizes and the first header of each."""

    def __init__(self, segments: list[LogSegment], facts: LogFacts, settings: Settings) -> None:
        self._segments = segments
        self._facts = facts
        self._settings = settings
        self._last: tuple[int, BatchHeader | None] = (-1, None)

    def rule(self, number: int) -> str:
        """Name the rule that ended a segment behind which there is another.

        `timestamp` is `time` by a record that came stamped later than its file was written: not
        the clock has moved on, but what one producer took for it.
        """
        if number + 1 >= len(self._segments):
            return "active"
        first, behind = self._first(number), self._first(number + 1)
        if first is None or behind is None:
            return rolling.UNEXPLAINED
        sealed = rolling.Sealed(
            self._segments[number].base_offset,
            self._facts.segments[number].size_bytes,
            first.max_timestamp,
            self._entries(number, Kind.OFFSET_INDEX, OFFSET_INDEX_ENTRY.size),
            self._entries(number, Kind.TIME_INDEX, TIME_INDEX_ENTRY.size),
        )
        following = self._facts.segments[number + 1]
        incoming = rolling.Incoming(
            behind.size_bytes, following.size_bytes, behind.max_timestamp, behind.last_offset
        )
        rule = rolling.explain(sealed, incoming, self._settings).rule
        if rule == rolling.TIME and behind.max_timestamp > following.modified_ms:
            return TIMESTAMP
        return _WORDS.get(rule, rule)

    def _first(self, number: int) -> BatchHeader | None:
        """Read the first header of a segment; each is asked for twice in a row."""
        if self._last[0] != number:
            self._last = number, self._read(number)
        return self._last[1]

    def _read(self, number: int) -> BatchHeader | None:
        segment = self._segments[number]
        if segment.is_pre08 or segment.log is None:
            return None
        try:
            with Source(segment.log) as source:
                header = FileRecords(source).header(0)
        except PathError:
            return None
        return None if header is None else header.header(0)

    def _entries(self, number: int, kind: Kind, entry_bytes: int) -> int:
        path = self._segments[number].files.get(kind)
        return 0 if path is None else places.planned_size(path) // entry_bytes
