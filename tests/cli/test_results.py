"""What stands on a terminal that both results and progress go to."""

import io
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from declared_rows import make_row

from kdump.cli import results
from kdump.cli.run_context import OutputSpec
from kdump.engine.work.pace import Progress
from kdump.findings.rows import Row
from kdump.output import messages
from kdump.output.progress import PlannedTally

WRITING = OutputSpec("table", None, "auto", False, "damage", ("table",))


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
        fields = {"slot": slot, "offset": slot, "position": slot * 100}
        yield make_row("offset-index-entry", **fields)


def test_progress_bar_makes_room_for_rows(monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize(
    ("kernel", "large", "quiet", "told"),
    [
        ("pure", 9, False, 1),
        ("pure", 10, False, 0),
        ("pure", 9, True, 0),
        ("compiled", 9, False, 0),
    ],
)
def test_slow_kernel_is_reported_once_before_a_large_log(
    monkeypatch: pytest.MonkeyPatch, kernel: str, large: int, quiet: bool, told: int
) -> None:
    monkeypatch.setattr(results, "is_terminal", lambda file: file is sys.stderr)
    monkeypatch.setattr(results, "KERNEL", kernel)
    monkeypatch.setattr(results, "_LARGE_BYTES", large)
    monkeypatch.setattr(messages, "KERNEL", kernel)
    errors = io.StringIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO()))
    monkeypatch.setattr(sys, "stderr", errors)
    progress = Progress()
    progress.planned_bytes = 10
    run = results.Results(WRITING._replace(quiet=quiet), inputs=(), tally=PlannedTally(progress))

    def rows() -> Iterator[Row]:
        yield from entries(3)
        assert errors.getvalue().count(messages.SLOW_KERNEL) == told

    assert run.take(rows()) == 0
    of_summary = kernel == "pure" and not quiet
    assert errors.getvalue().count(messages.SLOW_KERNEL) == of_summary
