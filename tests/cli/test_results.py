"""What stands on a terminal that both results and progress go to."""

import io
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from kdump.cli import results
from kdump.cli.run_context import Writing
from kdump.engine.work.pace import Progress
from kdump.findings.rows import Row
from kdump.output.progress import PlannedTally

WRITING = Writing("table", None, "auto", False, "damage", ("table",))


class Screen(io.RawIOBase):
    """Notes that lines were written."""

    def __init__(self, events: list[str]) -> None:
        self._events = events

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._events.append("lines")
        return len(data)


def entries(count: int) -> Iterator[Row]:
    for slot in range(count):
        fields = {"file": "0.index", "slot": slot, "offset": slot, "position": slot * 100}
        yield Row("offset-index-entry", fields)


def test_bar_makes_room_for_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []

    class Bar:
        def __init__(self, *given: object) -> None:
            pass

        def tick(self) -> None:
            events.append("bar")

        def clear(self) -> None:
            events.append("none")

    monkeypatch.setattr(results, "is_terminal", lambda file: True)
    monkeypatch.setattr(results, "Bar", Bar)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(Screen(events))))
    run = results.Results(WRITING, inputs=(), tally=PlannedTally(Progress()))
    assert run.take(entries(200)) == 0
    assert events.count("lines") > 2
    last = ""
    for event in events:
        assert (last, event) != ("bar", "lines")
        last = event if event != "lines" else last
