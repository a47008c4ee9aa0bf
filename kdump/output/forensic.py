"""Write events for other tools: JSON Lines of Timesketch, and the body file of mactime.

Both know points in time alone: it is the middle of an event's bounds, and what has no time at all
is left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from kdump.output.escape import visible
from kdump.output.sink import Sink
from kdump.output.tables.timeline import middle
from kdump.rows.timeline import Event

if TYPE_CHECKING:
    from kdump.output.sink import Item

_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)
#: Milliseconds of the years that a date of Python and of the other tools can have.
_LAST_MS = 253_402_300_799_999
_TAGS = {"damage": "damage", "transaction-hangs": "damage", "start-unclean": "crash"}


class _Points(Sink):
    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write

    def write(self, item: Item) -> None:
        """Write an event that has a time."""
        if isinstance(item, Event):
            at_ms = middle(item)
            if at_ms is not None and 0 <= at_ms <= _LAST_MS:
                line = self._text(item, at_ms)
                self._write(line.encode("utf-8", "backslashreplace") + b"\n")

    def _text(self, event: Event, at_ms: int) -> str:
        raise NotImplementedError


class Timesketch(_Points):
    """JSON Lines with the members that Timesketch asks for, and all those of the event."""

    def _text(self, event: Event, at_ms: int) -> str:
        written = {
            "message": f"{event.what} {event.subject}: {event.text}",
            "datetime": (_BEGIN + timedelta(milliseconds=at_ms)).isoformat(timespec="milliseconds"),
            "timestamp": at_ms * 1000,
            "timestamp_desc": f"{event.what} (clock: {event.clock})",
            "data_type": f"kafka:{event.what}",
        }
        members = {name: value for name, value in event.fields.items() if name != "evidence"}
        evidence = {f"evidence_{name}": value for name, value in event.evidence.items()}
        tags = {"tag": [_TAGS[event.what]]} if event.what in _TAGS else {}
        return json.dumps(written | members | evidence | tags)


class Bodyfile(_Points):
    """Lines of the body file that mactime of The Sleuth Kit reads, version 3."""

    def _text(self, event: Event, at_ms: int) -> str:
        name = visible(f"{event.what} {event.subject}: {event.text} ({event.evidence['path']})")
        node = 0 if event.broker_id is None else event.broker_id
        times = "|".join([str(at_ms // 1000)] * 4)
        return f"0|{name.replace('|', chr(0xA6))}|0|0|{node}|0|0|{times}"
