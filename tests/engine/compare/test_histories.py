"""Replicas whose logs parted."""

from pathlib import Path

import pytest
from comparing import (
    batches,
    checkpoint,
    compare_directories,
    replica,
)
from each import each
from replica_pairs import LOG, pair, with_epoch

from kdump.broker.leader_epochs import Span
from kdump.engine.compare.epochs import common, lineage


def test_diverged_logs_are_reported(tmp_path: Path) -> None:
    """The old leader went on after another was elected; what it wrote is lost if that one leads."""
    left = [*LOG[:16], *batches(80, 100, 3, producer_id=1, producer_epoch=0, base_sequence=0)]
    right = [*LOG[:16], *with_epoch(batches(80, 90), 4), *with_epoch(batches(90, 95), 5)]
    found = pair(tmp_path, left, right)
    assert found.spans == [("epoch-differs", 80, 94, 15), ("behind", 95, 99, 5)]
    one = found.one
    assert one["verdict"] == "diverged"
    assert (one["first_divergent_offset"], one["common_epoch"]) == (80, 3)
    assert one["common_end_offset"] == 80
    assert [each["last_epoch"] for each in one["replicas"]] == [3, 5]
    assert [
        [
            (s["leader_epoch"], s["first_offset"], s["last_offset"], s["records_count"])
            for s in spans
        ]
        for spans in (each["beyond_common"] for each in one["replicas"])
    ] == [[(3, 80, 99, 20)], [(4, 80, 89, 10), (5, 90, 94, 5)]]
    assert (
        "offsets 80 to 99 of epoch 3 (20 records): lost if it does not lead" in one["explanation"]
    )


@pytest.mark.parametrize(("mark", "said"), [(80, True), (81, False)])
def test_divergence_above_the_high_watermark_is_reported(
    tmp_path: Path, mark: int, said: bool
) -> None:
    """Nobody was handed what was never replicated; leaders change without loss that way."""
    right = [*LOG[:16], *with_epoch(LOG[16:], 4)]
    files = {"replication-offset-checkpoint": checkpoint(mark)}
    roots = [replica(tmp_path, "a", LOG, files=files), replica(tmp_path, "b", right, files=files)]
    explanation = compare_directories(*roots).one["explanation"]
    assert ("no consumer received these records" in explanation) is said


def test_older_epoch_alone_is_not_a_divergence(tmp_path: Path) -> None:
    """A follower that was down when the leader changed ends in an older epoch."""
    log = [*LOG[:16], *with_epoch(LOG[16:], 4)]
    found = pair(tmp_path, log, LOG[:14])
    assert found.one["verdict"] == "behind"
    assert (found.one["common_epoch"], found.one["common_end_offset"]) == (3, 70)


def test_changed_epoch_of_one_batch_is_reported(tmp_path: Path) -> None:
    found = pair(tmp_path, LOG, [*LOG[:8], LOG[8]._replace(epoch=9), *LOG[9:]])
    assert found.spans == [("epoch-differs", 40, 44, 5)]
    assert found.differences[0]["fields"] == ["leader_epoch"]
    assert (found.one["common_epoch"], found.one["common_end_offset"]) == (3, 100)
    assert "No checksum covers" in found.one["explanation"]


@each(
    ("left", "right", "expected"),
    [
        (([(0, 0)], 10), ([(0, 0)], 7), (0, 7)),
        (([(0, 0), (2, 5)], 10), ([(0, 0)], 7), (0, 5)),
        (([(0, 0), (2, 5)], 10), ([(0, 0), (1, 4), (2, 8)], 12), (2, 10)),
        (([(0, 0), (1, 5)], 10), ([(0, 0), (2, 7)], 12), (0, 5)),
        (([(1, 0)], 10), ([(2, 0)], 10), None),
        (([], 10), ([(2, 0)], 10), None),
    ],
)
def test_common_history_is_found(
    left: tuple[list[tuple[int, int]], int],
    right: tuple[list[tuple[int, int]], int],
    expected: tuple[int, int] | None,
) -> None:
    assert common([left, right]) == expected


def test_lineage_comes_from_the_batches() -> None:
    spans = [Span(3, 10, 19, 2, 10), Span(9, 20, 24, 1, 5), Span(3, 25, 40, 4, 16)]
    assert lineage(spans, [], 41) == [(3, 10)]
    assert lineage(spans[:1], [(1, 0), (2, 5), (3, 10), (4, 20)], 20) == [
        (1, 0), (2, 5), (3, 10), (4, 20),
    ]  # fmt: skip
    assert lineage(spans[:1], [(3, 10), (4, 25)], 20) == [(3, 10)]
    assert lineage([Span(-1, 0, 9, 2, 10)], [(2, 0)], 10) == [(2, 0)]
    assert lineage([Span(-1, 0, 9, 9, 10), *spans], [], 41) == [(3, 10)]
