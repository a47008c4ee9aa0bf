"""How far a plan has come."""

import os
import signal
import threading

import pytest

from kdump.engine.work.pace import Progress
from kdump.output.progress import (
    LookupTally,
    PartsTally,
    PlannedTally,
    Tally,
    answer_progress_signal,
)


def planned() -> Progress:
    progress = Progress()
    progress.planned_bytes, progress.planned_items = 1 << 30, 10
    progress.slots = [1 << 28, 1 << 28]
    progress.items_done = 4
    progress.findings = {"damage": 2, "rebuild": 0, "note": 7}
    progress.at = ["/data/orders-1", "/data/orders-2"]
    return progress


def test_line_gives_progress_findings_and_rest() -> None:
    text = PlannedTally(planned()).text()
    assert text.startswith("4 of 10 partitions · 512.0 MiB of 1.0 GiB · ")
    assert "s left · 2 damage · 7 notes · " in text


def test_bar_shows_its_end_and_the_current_partition() -> None:
    tally = PlannedTally(planned())
    assert tally.total() == 1 << 30
    assert tally.size_bytes == 1 << 29
    assert tally.place_text() == "orders-1 and 1 more"
    assert tally.amount_text().startswith("512.0 MiB of 1.0 GiB at ")
    assert tally.amount_text().endswith("/s · 2 damage")


def test_rate_is_of_the_time_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    for seconds, rate in ((0.5, "1.0 GiB/s"), (2.0, "256.0 MiB/s"), (0.0, "500.0 GiB/s")):
        monkeypatch.setattr(PlannedTally, "seconds", seconds)
        assert f" at {rate}" in PlannedTally(planned()).amount_text()


def test_current_names_are_escaped() -> None:
    progress = planned()
    progress.at = ["/data/a\x1b[2J-1"]
    assert PlannedTally(progress).place_text().isprintable()


def test_empty_plan_leaves_nothing() -> None:
    text = PlannedTally(Progress()).text()
    assert text.startswith("0 partitions · 0.")
    assert PlannedTally(Progress()).place_text() == "nothing read yet"


def test_lookups_are_counted_by_partition() -> None:
    progress = planned()
    tally = LookupTally(progress)
    assert (tally.done, tally.total()) == (4, 10)
    assert tally.amount_text() == "4 of 10 partitions"
    assert tally.text().startswith("4 of 10 partitions · ")
    assert tally.place_text() == "/data/orders-1"
    assert tally.at_hand_bytes == 0


def test_parts_are_counted_and_the_first_place_named() -> None:
    tally = PartsTally(planned())
    assert tally.place_text() == "4 of 10 pieces · /data/orders-1"


def test_tally_of_bytes_has_a_rate_and_no_place_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tally, "seconds", 2.0)
    monkeypatch.setattr(Tally, "size_bytes", 4 << 20)
    tally = Tally()
    assert tally.amount_text() == "4.0 MiB at 2.0 MiB/s"
    assert (tally.total(), tally.place_text()) == (None, "nothing read yet")


def test_signal_is_answered_with_a_line(capfd: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGUSR1)
    with answer_progress_signal(LookupTally(planned())):
        os.kill(os.getpid(), signal.SIGUSR1)
    assert signal.getsignal(signal.SIGUSR1) == before
    line = capfd.readouterr().err
    assert line.startswith("kdump: 4 of 10 partitions · ")
    assert line.endswith(" · /data/orders-1\n")


def test_signals_are_left_alone_in_another_thread() -> None:
    seen = []

    def run() -> None:
        with answer_progress_signal(LookupTally(planned())):
            seen.append(signal.getsignal(signal.SIGUSR1))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGUSR1)]
