"""What `reindex` knows at a segment's start, and what it must not take for known."""

from pathlib import Path
from typing import Any

import damage
import pytest
from producing import ABORT, COMMIT, TIME, aborted_index, data, marker, snapshot
from reindexing import items_of, rows_of

from kdump.engine.reindex.options import ReindexOptions
from kdump.engine.reindex.run import kinds_of, reindex
from kdump.findings.rows import Row

PRODUCER = 5
ONLY = kinds_of("txnindex")


def write_batch(base: int, sequence: int) -> bytes:
    return data(base, PRODUCER, sequence, transactional=True)


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Give three segments: a transaction open at 0, committed at 10; one open at 11, aborted at 20.

    So the transaction that the last segment's marker ends began in the second.
    """
    path = tmp_path / "data" / "orders-0"
    path.mkdir(parents=True)
    segments = {
        0: write_batch(0, 0) + write_batch(1, 1),
        10: marker(10, PRODUCER, COMMIT) + write_batch(11, 2),
        20: marker(20, PRODUCER, ABORT) + write_batch(21, 3),
    }
    for base, log in segments.items():
        (path / f"{base:020}.log").write_bytes(log)
    return path


def plan_indexes(partition: Path, *names: str, **options: Any) -> dict[int, tuple[str, str]]:
    """Plan the transaction indexes; give what was to be done with each segment's, and why."""
    paths = [str(partition / name) for name in names] or [str(partition)]
    rows = [row for path in paths for row in items_of(Path(path), only=ONLY, **options)]
    return {
        row.fields["segment"]: (row.fields["action"], row.fields["reason"])
        for row in rows
        if isinstance(row, Row)
    }


def index(partition: Path) -> bytes:
    return (partition / f"{20:020}.txnindex").read_bytes()


def test_transaction_may_span_segments(partition: Path) -> None:
    rows_of(partition, only=ONLY, write=True)
    assert index(partition) == aborted_index((PRODUCER, 11, 20, 21))


def test_transaction_may_end_in_the_second_segment(partition: Path) -> None:
    path = partition / f"{10:020}.log"
    path.write_bytes(marker(10, PRODUCER, ABORT) + write_batch(11, 2))
    rows_of(partition, only=ONLY, write=True)
    assert path.with_suffix(".txnindex").read_bytes() == aborted_index((PRODUCER, 0, 10, 11))


def test_states_stop_at_an_unselected_segment(partition: Path) -> None:
    """What is open at the end of the first is not what is open at the start of the third."""
    paths = [str(partition / f"{base:020}.log") for base in (0, 20)]
    list(reindex(paths, ReindexOptions(only=ONLY, write=True)))
    assert index(partition) == aborted_index((PRODUCER, 11, 20, 21))


def test_states_end_at_damage(partition: Path) -> None:
    """What stood behind it is not known, nor whether the transaction went on."""
    damage_first(partition)
    action, reason = plan_indexes(partition)[20]
    assert action == "refuse"
    assert "are unknown" in reason


def damage_first(partition: Path) -> None:
    path = partition / f"{10:020}.log"
    path.write_bytes(damage.flip(path.read_bytes(), 70))


def of_producers(first: int) -> bytes:
    """Write a snapshot in which a transaction is open since `first`."""
    return snapshot((PRODUCER, 0, 2, 11, 0, TIME, 0, first))


def test_snapshot_lists_open_transactions(partition: Path) -> None:
    damage_first(partition)
    (partition / f"{20:020}.snapshot").write_bytes(of_producers(11))
    assert plan_indexes(partition)[20][0] == "create"
    rows_of(partition / f"{20:020}.log", only=ONLY, write=True)
    assert index(partition) == aborted_index((PRODUCER, 11, 20, 21))


def test_damaged_snapshot_is_ignored(partition: Path) -> None:
    """Where the log is sound its transactions are replayed; else it cannot be known."""
    (partition / f"{20:020}.snapshot").write_bytes(damage.flip(of_producers(3), 2))
    rows_of(partition / f"{20:020}.log", only=ONLY, write=True)
    assert index(partition) == aborted_index((PRODUCER, 11, 20, 21))
    (partition / f"{20:020}.txnindex").unlink()
    damage_first(partition)
    assert plan_indexes(partition, f"{20:020}.log")[20][0] == "refuse"


def test_damage_in_an_earlier_segment_affects_leader_epochs(partition: Path) -> None:
    """They are built of the whole log."""
    only = kinds_of("leader-epochs")
    (sound,) = (row for row in items_of(partition, only=only) if isinstance(row, Row))
    assert sound.fields["action"] == "create"
    path = partition / f"{0:020}.log"
    path.write_bytes(damage.flip(path.read_bytes(), 70))
    (row,) = (row for row in items_of(partition, only=only) if isinstance(row, Row))
    assert row.fields["action"] == "refuse"
    assert "position 0" in row.fields["reason"]
    (row,) = (
        row for row in items_of(partition, only=only, up_to_damage=True) if isinstance(row, Row)
    )
    assert row.fields["action"] == "create"


@pytest.mark.parametrize(("offset", "kept"), [(22, 1), (23, 0), (0, 1), (-1, 0)])
def test_offset_at_the_log_end_is_plausible(partition: Path, offset: int, kept: int) -> None:
    checkpoint = partition.parent / "recovery-point-offset-checkpoint"
    checkpoint.write_text(f"0\n1\norders 0 {offset}\njunk")
    (row,) = rows_of(partition, only=kinds_of("checkpoints"))
    assert row["entries_after"] == kept
