"""When a log is cleaned, and what holds it back (K4)."""

from pathlib import Path
from typing import Any

import pytest
from each import each
from producing import data, snapshot

from kdump.broker.cleaner import CleanerLog, Facts, cleaner_log
from kdump.broker.list_offsets import LATEST, list_offsets
from kdump.broker.partition import PartitionView
from kdump.broker.segment_facts import log_facts
from kdump.broker.settings import Settings
from kdump.broker.versions import Version
from kdump.storage.targets import Selection, resolve

NOW = 1_700_000_000_000
DAY_MS = 86_400_000


def log(**members: Any) -> CleanerLog:
    """Three closed segments of 100 bytes and ten offsets, and an active one, all a day old."""
    old = NOW - DAY_MS
    segments = [Facts(base, 100, old + base, old + base) for base in (0, 10, 20, 30)]
    return CleanerLog(segments, None, 0, 40, 40)._replace(**members)


def settings(**members: Any) -> Settings:
    return Settings(cleanup_policy="compact")._replace(**members)


@each(
    ("checkpoint", "first", "forced"),
    [(None, 5, False), (5, 5, False), (40, 40, False), (4, 5, True), (41, 5, True)],
)
def test_checkpoint_outside_the_log_is_reset(
    checkpoint: int | None, first: int, forced: bool
) -> None:
    assert log(checkpoint=checkpoint, log_start=5).first_dirty() == (first, forced)


def test_segment_of_the_first_dirty_offset_counts_as_clean_and_dirty() -> None:
    choice = log(checkpoint=15).choice(settings(), NOW)
    assert (choice.clean_bytes, choice.dirty_bytes) == (200, 200)


@pytest.mark.parametrize(("ratio", "cleanable"), [(0.5, False), (0.49, True), (0, True)])
def test_ratio_must_be_exceeded(ratio: float, cleanable: bool) -> None:
    choice = log(checkpoint=15).choice(settings(min_cleanable_dirty_ratio=ratio), NOW)
    assert choice.dirty_ratio == 0.5
    assert choice.cleanable is cleanable


def test_round_ends_at_the_base_of_the_last_stable_segment() -> None:
    choice = log(last_stable_offset=15).choice(settings(), NOW)
    assert (choice.first_uncleanable_offset, choice.end_offset) == (15, 10)
    assert choice.dirty_bytes == 100


@pytest.mark.parametrize(("lag", "end"), [(DAY_MS - 20, 30), (DAY_MS - 19, 20), (DAY_MS - 9, 10)])
def test_min_lag_protects_younger_segments(lag: int, end: int) -> None:
    # What is as old as the lag is old enough.
    choice = log().choice(settings(min_compaction_lag_ms=lag), NOW)
    assert choice.end_offset == end


def test_max_lag_overrides_the_ratio() -> None:
    strict = settings(min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=DAY_MS)
    assert not log().choice(strict, NOW).cleanable
    assert log().choice(strict, NOW + 1).cleanable
    assert log().due_ms(strict, NOW) == NOW + 1


def test_min_lag_overrides_max_lag() -> None:
    both = settings(max_compaction_lag_ms=1, min_compaction_lag_ms=2 * DAY_MS)
    assert not log().choice(both, NOW).cleanable
    assert log().find_block(both, NOW) == "lag"
    assert log().due_ms(both, NOW) == NOW + DAY_MS


def test_max_lag_ignores_first_batches_without_a_timestamp() -> None:
    untimed = [Facts(base, 100, NOW, -1) for base in (0, 10)]
    strict = settings(min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=1)
    assert not log(segments=untimed).choice(strict, NOW + DAY_MS).cleanable
    assert log(segments=untimed).due_ms(strict, NOW) is None


@each(
    ("members", "own", "blocked_by"),
    [
        ({"last_stable_offset": 0}, {}, "open-transaction"),
        ({"checkpoint": 30}, {"min_cleanable_dirty_ratio": 0.2}, "active-segment"),
        ({"checkpoint": 30}, {}, "none"),
        ({}, {}, "none"),
        ({"corrupt": (10, "a size")}, {}, "corrupt-batch"),
        ({"segments": []}, {}, "none"),
    ],
)
def test_cleaning_blockers(members: Any, own: Any, blocked_by: str) -> None:
    assert log(**members).find_block(settings(**own), NOW) == blocked_by


@pytest.mark.parametrize(("broker", "stable"), [((3, 9), 2), ((4, 0), 3), ((4, 1), 3)])
def test_uncleanable_part_starts_with_a_remaining_batch(
    tmp_path: Path, broker: Version, stable: int
) -> None:
    """Of the open transaction only the snapshot is left, and the batch it began with is not."""
    directory = tmp_path / "t-0"
    directory.mkdir()
    for base in (0, 3):
        (directory / f"{base:020}.log").write_bytes(data(base))
    (directory / f"{3:020}.snapshot").write_bytes(snapshot((8, 0, 0, 2, 0, -1, 0, 2)))
    (target,) = resolve([str(directory)], Selection())
    assert not isinstance(target, Exception)
    view = PartitionView(target, isolation="read_committed", as_is=True, broker=broker)
    found = cleaner_log(view, log_facts(target, broker, clean=True))
    latest = list_offsets(view, LATEST).offset
    view.close()
    assert (found.last_stable_offset, latest, found.log_end) == (stable, stable, 4)
