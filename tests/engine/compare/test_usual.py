"""Differences between replicas that are usual: lag, retention, cleaning."""

from pathlib import Path

import builders
import comparing
from comparing import (
    NEVER_CLEANED,
    Batch,
    Item,
    batches,
    checkpoint,
    compare_directories,
    replica,
    rewrite_record,
)
from replica_pairs import LOG, pair


def test_segment_bounds_do_not_matter(tmp_path: Path) -> None:
    left = replica(tmp_path, "left", LOG, segments=(0, 3, 11))
    found = compare_directories(left, replica(tmp_path, "right", LOG, segments=(0, 7)))
    assert found.differences == []
    assert (found.one["verdict"], found.one["severity"]) == ("equal", None)
    assert found.one["explanation"] == "Same records, same leader epochs."
    assert [each["records_count"] for each in found.one["replicas"]] == [100, 100]
    assert found.summary["verdicts"] == {"equal": 1}


def test_lagging_follower_is_usual(tmp_path: Path) -> None:
    found = pair(tmp_path, LOG, LOG[:-3])
    assert found.spans == [("behind", 85, 99, 15)]
    assert (found.one["verdict"], found.one["severity"]) == ("behind", "note")
    assert found.one["first_divergent_offset"] is None
    assert found.one["common_end_offset"] == 85
    assert "behind by 15 records" in found.one["explanation"]
    left, right = found.one["replicas"]
    assert left["beyond_common"] == [
        {"leader_epoch": 3, "first_offset": 85, "last_offset": 99, "records_count": 15}
    ]
    assert right["beyond_common"] == []
    assert (left["sound"], right["sound"]) == (True, True)


def test_empty_replica_lags(tmp_path: Path) -> None:
    found = pair(tmp_path, LOG, [])
    assert found.spans == [("behind", 0, 99, 100)]


def test_further_retention_is_usual(tmp_path: Path) -> None:
    found = pair(tmp_path, LOG[4:], LOG)
    assert found.spans == [("start-differs", 0, 19, 20)]
    assert found.one["verdict"] == "start-differs"
    assert [each["log_start"] for each in found.one["replicas"]] == [20, 0]


def test_undeleted_records_are_usual(tmp_path: Path) -> None:
    """Below the log start nobody is handed anything, in the midst of a segment too."""
    start = {"log-start-offset-checkpoint": checkpoint(22)}
    left = replica(tmp_path, "left", [rewrite_record(LOG[0], 1, b"other"), *LOG[1:]], files=start)
    found = compare_directories(left, replica(tmp_path, "right", LOG))
    assert found.one["verdict"] == "start-differs"
    assert found.one["severity"] == "note"


def test_different_batches_of_the_same_records_are_usual(tmp_path: Path) -> None:
    found = pair(tmp_path, LOG, [*LOG[:4], *batches(20, 60, size=8), *LOG[12:]])
    assert found.spans == [("rewritten", 20, 59, 40)]
    assert (found.one["verdict"], found.one["severity"]) == ("compacted-differently", "note")


def test_older_format_of_the_same_records_is_usual(tmp_path: Path) -> None:
    """A follower of an older broker was sent records in its own format: no headers, no epoch."""
    old = [
        builders.message(n, b"k%d" % n, b"v%d" % n, magic=1, timestamp=comparing.TIME + n)
        for n in range(100)
    ]
    found = pair(tmp_path, LOG, list(old))
    assert found.spans == [("rewritten", 0, 99, 100)]


def test_preallocated_tail_is_usual(tmp_path: Path) -> None:
    left = replica(tmp_path, "left", [*LOG, bytes(5000)])
    assert compare_directories(left, replica(tmp_path, "right", LOG)).differences == []


def test_torn_last_write_of_all_replicas(tmp_path: Path) -> None:
    found = pair(tmp_path, [*LOG, batches(100, 105)[0].data()[:70]], LOG)
    assert found.spans == [("torn-tail", 100, None, 0)]
    assert (found.one["verdict"], found.one["severity"]) == ("equal", None)


def users(compact_to: int = 0) -> list[Batch]:
    """Records with ten keys in turn; below an offset only the last of each key is kept."""
    log = []
    for batch in batches(0, 100):
        items = [item._replace(key=b"user%d" % (item.offset % 10)) for item in batch.items]
        kept = [item for item in items if item.offset >= compact_to - 10]
        if kept or batch.base == 0:
            log.append(batch._replace(items=tuple(kept)))
    return log


def test_compaction_of_one_side_is_usual(tmp_path: Path) -> None:
    cleaned = {"cleaner-offset-checkpoint": checkpoint(60)}
    left = replica(tmp_path, "left", users(60), files=cleaned)
    right = replica(tmp_path, "right", users(), files=NEVER_CLEANED)
    found = compare_directories(left, right)
    assert found.spans == [("compacted", 0, 49, 50)]
    assert (found.one["verdict"], found.one["severity"]) == ("compacted-differently", "note")
    assert found.differences[0]["left"]["present"] is False


def test_compacted_as_the_batches_show(tmp_path: Path) -> None:
    """A copy of partition directories has no checkpoint: an emptied batch tells."""
    assert pair(tmp_path, users(), users(60)).spans == [("compacted", 0, 49, 50)]


def test_loss_from_a_compacted_log_is_reported(tmp_path: Path) -> None:
    """Below what was compacted too, a record stays until its key comes again."""
    cleaned = {"cleaner-offset-checkpoint": checkpoint(60)}
    log = users(60)
    odd = Item(7, b"only", b"once", 7)
    log[0] = log[0]._replace(items=())
    with_odd = [log[0], Batch(5, 9, (odd,)), *log[1:]]
    left = replica(tmp_path, "left", with_odd, files=cleaned)
    found = compare_directories(left, replica(tmp_path, "right", log, files=cleaned))
    assert found.spans == [("missing", 7, 7, 1)]
    assert found.differences[0]["copy_from"] == str(tmp_path / "left" / "orders-0")
    assert found.one["verdict"] == "missing"
    assert [each["sound"] for each in found.one["replicas"]] == [True, False]


def test_loss_is_reported_despite_an_older_record_of_the_key(tmp_path: Path) -> None:
    """Only a later record takes the place of another."""
    log = users(60)
    log[0] = log[0]._replace(items=())
    early, older, newest = (
        Item(n, key, b"v", n) for n, key in ((2, b"user1"), (7, b"k"), (9, b"k"))
    )
    left = [Batch(0, 4, (early,)), Batch(5, 9, (older, newest)), *log[1:]]
    right = [Batch(5, 9, (older,)), *log[1:]]
    cleaned = {"cleaner-offset-checkpoint": checkpoint(60)}
    found = compare_directories(
        replica(tmp_path, "left", left, files=cleaned),
        replica(tmp_path, "right", right, files=cleaned, start=0),
    )
    assert found.spans == [("compacted", 2, 9, 1), ("missing", 9, 9, 1)]


def test_tombstone_past_its_time(tmp_path: Path) -> None:
    cleaned = {"cleaner-offset-checkpoint": checkpoint(60)}
    log = users(60)
    with_tombstone = [log[0], Batch(5, 9, (Item(7, b"gone", None, 7),)), *log[1:]]
    left = replica(tmp_path, "left", with_tombstone, files=cleaned)
    found = compare_directories(left, replica(tmp_path, "right", log, files=cleaned))
    assert found.spans == [("compacted", 7, 7, 1)]


def test_batches_lost_twice_with_repeated_keys(tmp_path: Path) -> None:
    """Nothing but the keys would speak for a cleaner, and one of them does not."""
    log = [
        batch._replace(
            items=tuple(item._replace(key=b"%d" % (item.offset % 50)) for item in batch.items)
        )
        for batch in batches(0, 60)
    ]
    found = pair(tmp_path, log, [log[0], *log[2:3], *log[4:]])
    assert found.one["records_differing"] == {"missing": 10}


def test_repeated_loss_from_a_log_with_repeated_keys_is_reported(tmp_path: Path) -> None:
    """All their keys come again; but so do those of what is left, which no cleaner went over."""
    log = users()
    found = pair(tmp_path, log, [*log[:4], *log[5:9], *log[10:]])
    assert found.one["verdict"] == "missing"
    assert found.one["records_differing"] == {"missing": 10}
