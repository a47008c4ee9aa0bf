"""Replicas that differ in known ways: each is found, placed and explained, and nothing else is."""

import re
from pathlib import Path

import builders
import comparing
import damage
import pytest
from comparing import (
    NEVER_CLEANED,
    Batch,
    Compared,
    Item,
    batches,
    changed,
    checkpoint,
    compared,
    replica,
)

from kdump.engine.compare.epochs import Span, common, lineage
from kdump.engine.compare.kinds import KINDS, VERDICTS, severity_of, verdict_of
from kdump.engine.compare.plan import CompareOptions
from kdump.engine.compare.run import compare
from kdump.errors import NothingToDo, PathError
from kdump.findings.rows import Row

LOG = batches(0, 100)


def pair(tmp_path: Path, left: list[Batch | bytes], right: list[Batch | bytes]) -> Compared:
    return compared(replica(tmp_path, "left", left), replica(tmp_path, "right", right))


def with_epoch(log: list[Batch], epoch: int) -> list[Batch]:
    return [batch._replace(epoch=epoch) for batch in log]


# What is usual -----------------------------------------------------------------------------------


def test_equal_whatever_the_segments_are(tmp_path: Path) -> None:
    left = replica(tmp_path, "left", LOG, segments=(0, 3, 11))
    found = compared(left, replica(tmp_path, "right", LOG, segments=(0, 7)))
    assert found.differences == []
    assert (found.one["verdict"], found.one["severity"]) == ("equal", None)
    assert found.one["explanation"] == "Same records, same leader epochs."
    assert [each["records_count"] for each in found.one["replicas"]] == [100, 100]
    assert found.summary["verdicts"] == {"equal": 1}


def test_follower_that_lags(tmp_path: Path) -> None:
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


def test_empty_replica_is_behind(tmp_path: Path) -> None:
    found = pair(tmp_path, LOG, [])
    assert found.spans == [("behind", 0, 99, 100)]


def test_retention_went_further(tmp_path: Path) -> None:
    found = pair(tmp_path, LOG[4:], LOG)
    assert found.spans == [("start-differs", 0, 19, 20)]
    assert found.one["verdict"] == "start-differs"
    assert [each["log_start"] for each in found.one["replicas"]] == [20, 0]


def test_deleted_records_that_are_still_there(tmp_path: Path) -> None:
    """Below the log start nobody is handed anything, in the midst of a segment too."""
    start = {"log-start-offset-checkpoint": checkpoint(22)}
    left = replica(tmp_path, "left", [changed(LOG[0], 1, b"other"), *LOG[1:]], files=start)
    found = compared(left, replica(tmp_path, "right", LOG))
    assert found.one["verdict"] == "start-differs"
    assert found.one["severity"] == "note"


def test_other_batches_of_the_same_records(tmp_path: Path) -> None:
    found = pair(tmp_path, LOG, [*LOG[:4], *batches(20, 60, size=8), *LOG[12:]])
    assert found.spans == [("rewritten", 20, 59, 40)]
    assert (found.one["verdict"], found.one["severity"]) == ("compacted-differently", "note")


def test_older_format_of_the_same_records(tmp_path: Path) -> None:
    """A follower of an older broker was sent records in its own format: no headers, no epoch."""
    old = [
        builders.message(n, b"k%d" % n, b"v%d" % n, magic=1, timestamp=comparing.TIME + n)
        for n in range(100)
    ]
    found = pair(tmp_path, LOG, list(old))
    assert found.spans == [("rewritten", 0, 99, 100)]


def test_preallocated_tail(tmp_path: Path) -> None:
    left = replica(tmp_path, "left", [*LOG, bytes(5000)])
    assert compared(left, replica(tmp_path, "right", LOG)).differences == []


def test_torn_last_write_that_nobody_has(tmp_path: Path) -> None:
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


def test_compacted_on_one_side(tmp_path: Path) -> None:
    cleaned = {"cleaner-offset-checkpoint": checkpoint(60)}
    left = replica(tmp_path, "left", users(60), files=cleaned)
    right = replica(tmp_path, "right", users(), files=NEVER_CLEANED)
    found = compared(left, right)
    assert found.spans == [("compacted", 0, 49, 50)]
    assert (found.one["verdict"], found.one["severity"]) == ("compacted-differently", "note")
    assert found.differences[0]["left"]["present"] is False


def test_compacted_as_the_batches_show(tmp_path: Path) -> None:
    """A copy of partition directories has no checkpoint: an emptied batch tells."""
    assert pair(tmp_path, users(), users(60)).spans == [("compacted", 0, 49, 50)]


def test_lost_from_a_compacted_log(tmp_path: Path) -> None:
    """Below what was compacted too, a record stays until its key comes again."""
    cleaned = {"cleaner-offset-checkpoint": checkpoint(60)}
    log = users(60)
    odd = Item(7, b"only", b"once", 7)
    log[0] = log[0]._replace(items=())
    with_odd = [log[0], Batch(5, 9, (odd,)), *log[1:]]
    left = replica(tmp_path, "left", with_odd, files=cleaned)
    found = compared(left, replica(tmp_path, "right", log, files=cleaned))
    assert found.spans == [("missing", 7, 7, 1)]
    assert found.differences[0]["copy_from"] == str(tmp_path / "left" / "orders-0")
    assert found.one["verdict"] == "missing"
    assert [each["sound"] for each in found.one["replicas"]] == [True, False]


def test_lost_although_an_older_record_has_the_key(tmp_path: Path) -> None:
    """Only a later record takes the place of another."""
    log = users(60)
    log[0] = log[0]._replace(items=())
    early, older, newest = (
        Item(n, key, b"v", n) for n, key in ((2, b"user1"), (7, b"k"), (9, b"k"))
    )
    left = [Batch(0, 4, (early,)), Batch(5, 9, (older, newest)), *log[1:]]
    right = [Batch(5, 9, (older,)), *log[1:]]
    cleaned = {"cleaner-offset-checkpoint": checkpoint(60)}
    found = compared(
        replica(tmp_path, "left", left, files=cleaned),
        replica(tmp_path, "right", right, files=cleaned, start=0),
    )
    assert found.spans == [("compacted", 2, 9, 1), ("missing", 9, 9, 1)]


def test_tombstone_past_its_time(tmp_path: Path) -> None:
    cleaned = {"cleaner-offset-checkpoint": checkpoint(60)}
    log = users(60)
    with_tombstone = [log[0], Batch(5, 9, (Item(7, b"gone", None, 7),)), *log[1:]]
    left = replica(tmp_path, "left", with_tombstone, files=cleaned)
    found = compared(left, replica(tmp_path, "right", log, files=cleaned))
    assert found.spans == [("compacted", 7, 7, 1)]


def test_batches_lost_twice_of_which_some_keys_come_again(tmp_path: Path) -> None:
    """Nothing but the keys would speak for a cleaner, and one of them does not."""
    log = [
        batch._replace(
            items=tuple(item._replace(key=b"%d" % (item.offset % 50)) for item in batch.items)
        )
        for batch in batches(0, 60)
    ]
    found = pair(tmp_path, log, [log[0], *log[2:3], *log[4:]])
    assert found.one["records_differing"] == {"missing": 10}


def test_batches_lost_twice_from_a_log_that_repeats_its_keys(tmp_path: Path) -> None:
    """All their keys come again; but so do those of what is left, which no cleaner went over."""
    log = users()
    found = pair(tmp_path, log, [*log[:4], *log[5:9], *log[10:]])
    assert found.one["verdict"] == "missing"
    assert found.one["records_differing"] == {"missing": 10}


# What is not -------------------------------------------------------------------------------------


def test_one_record_that_differs(tmp_path: Path) -> None:
    found = pair(tmp_path, LOG, [*LOG[:8], changed(LOG[8], 42, b"other"), *LOG[9:]])
    assert found.spans == [("record-differs", 42, 42, 1)]
    (told,) = found.differences
    assert (told["fields"], told["key"], told["severity"]) == (["value"], b"k42", "damage")
    for side in ("left", "right"):
        assert told[side]["position"] == sum(len(batch.data()) for batch in LOG[:8])
        assert (told[side]["base_offset"], told[side]["crc_valid"]) == (40, True)
    assert told["left"]["crc"] != told["right"]["crc"]
    assert found.one["verdict"] == "diverged"
    assert found.one["first_divergent_offset"] == 42
    assert "no broker notices" in found.one["explanation"]


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"key": None}, "key"),
        ({"key": b""}, "key"),
        ({"timestamp_delta": 9}, "timestamp_ms"),
        ({"headers": [(b"h", None)]}, "headers"),
    ],
)
def test_field_that_differs(tmp_path: Path, members: dict[str, object], field: str) -> None:
    one = builders.batch([builders.record(0, 0, b"k", b"v")], base_offset=100)
    given = {"key": b"k", "value": b"v", **members}
    other = builders.batch([builders.record(0, **given)], base_offset=100)  # type: ignore[arg-type]
    found = pair(tmp_path, [*LOG, one], [*LOG, other])
    assert found.spans == [("record-differs", 100, 100, 1)]
    assert found.differences[0]["fields"] == [field]


def test_other_producer(tmp_path: Path) -> None:
    one = batches(100, 105, producer_id=7, producer_epoch=0, base_sequence=0)
    other = batches(100, 105, producer_id=8, producer_epoch=0, base_sequence=3)
    found = pair(tmp_path, [*LOG, *one], [*LOG, *other])
    assert found.spans == [("record-differs", 100, 104, 5)]
    assert found.differences[0]["fields"] == ["producer_id", "sequence"]


def test_side_cut_inside_a_batch(tmp_path: Path) -> None:
    found = pair(tmp_path, LOG, [*LOG[:-2], LOG[-2].data()[:80]])
    assert found.spans == [("truncated", 90, 99, 10)]
    (told,) = found.differences
    assert (told["reason"], told["right"]["code"]) == ("torn-tail", "torn-tail")
    assert told["copy_from"] == str(tmp_path / "left" / "orders-0")
    assert (found.one["verdict"], found.one["first_divergent_offset"]) == ("truncated", 90)


@pytest.mark.parametrize(
    ("file", "text", "reason"),
    [
        ("replication-offset-checkpoint", checkpoint(95), "its high watermark is 95"),
        ("recovery-point-offset-checkpoint", checkpoint(99), "its recovery point is 99"),
        ("/leader-epoch-checkpoint", "0\n2\n3 0\n4 97\n", "its leader epoch is 97"),
        ("/00000000000000000100.snapshot", "", "its producer snapshot is 100"),
    ],
)
def test_side_cut_between_batches(tmp_path: Path, file: str, text: str, reason: str) -> None:
    """Nothing in the log tells it from a follower that lags; what is written beside it does."""
    right = replica(tmp_path, "right", LOG[:-2], files={file: text})
    found = compared(replica(tmp_path, "left", LOG), right)
    assert found.spans == [("truncated", 90, 99, 10)]
    assert found.differences[0]["reason"] == reason


def test_flipped_byte(tmp_path: Path) -> None:
    broken = damage.flip_bit(LOG[8].data(), 90, 2)
    found = pair(tmp_path, [*LOG[:8], broken, *LOG[9:]], LOG)
    assert found.spans == [("damaged", 40, 44, 5)]
    (told,) = found.differences
    assert (told["left"]["present"], told["left"]["code"]) == (False, "crc-mismatch")
    assert told["left"]["crc_valid"] is False
    assert told["copy_from"] == str(tmp_path / "right" / "orders-0")
    assert "One flipped bit explains it" in told["left"]["detail"]
    assert found.one["verdict"] == "damaged"
    assert found.one["first_divergent_offset"] is None
    assert [each["sound"] for each in found.one["replicas"]] == [False, True]


def test_flipped_byte_on_both_sides(tmp_path: Path) -> None:
    one = [*LOG[:8], damage.flip(LOG[8].data(), 90), *LOG[9:]]
    other = [*LOG[:8], damage.flip(LOG[8].data(), 91), *LOG[9:]]
    found = pair(tmp_path, one, other)
    assert found.spans == [("damaged-everywhere", 40, 44, 5)]
    assert [found.differences[0][side]["path"] for side in ("left", "right")] == [
        str(tmp_path / side / "orders-0") for side in ("left", "right")
    ]
    assert found.one["verdict"] == "damaged"


@pytest.mark.parametrize("at", [8, 20])
def test_bytes_of_no_use_on_both_sides(tmp_path: Path, at: int) -> None:
    junk = damage.flip(batches(5 * at, 5 * at + 1)[0].data(), 70)
    one, other = ([*LOG[:at], *[junk] * count, *LOG[at:]] for count in (1, 2))
    found = pair(tmp_path, one, other)
    assert found.spans == [("damaged-everywhere", 5 * at, None, 0)]
    assert [each["sound"] for each in found.one["replicas"]] == [False, False]


def test_damage_that_overlaps_in_part(tmp_path: Path) -> None:
    one = [*LOG[:8], *(damage.flip(each.data(), 90) for each in LOG[8:10]), *LOG[10:]]
    other = [*LOG[:9], *(damage.flip(each.data(), 90) for each in LOG[9:11]), *LOG[11:]]
    found = pair(tmp_path, one, other)
    assert found.spans == [
        ("damaged", 40, 44, 5),
        ("damaged-everywhere", 45, 49, 5),
        ("damaged", 50, 54, 5),
    ]
    assert [each["copy_from"] for each in found.differences] == [
        str(tmp_path / "right" / "orders-0"),
        None,
        str(tmp_path / "left" / "orders-0"),
    ]


def test_damage_of_neighbours_on_either_side(tmp_path: Path) -> None:
    """Each side has what the other lacks: nothing is lost."""
    one = [*LOG[:8], damage.flip(LOG[8].data(), 90), *LOG[9:]]
    other = [*LOG[:9], damage.flip(LOG[9].data(), 90), *LOG[10:]]
    for name, logs in (("a", (one, other)), ("b", (other, one))):
        found = pair(tmp_path / name, list(logs[0]), list(logs[1]))
        assert found.spans == [("damaged", 40, 44, 5), ("damaged", 45, 49, 5)]


def test_damage_inside_a_batch_of_the_other_side(tmp_path: Path) -> None:
    """One side was rewritten, so that the other's broken batch lies within one of its own."""
    broken = [*LOG[:8], damage.flip(LOG[8].data(), 90), *LOG[9:]]
    found = pair(tmp_path, broken, [*LOG[:4], *batches(20, 60, size=20), *LOG[12:]])
    assert found.offsets("damaged") == {*range(40, 45)}
    assert {kind for kind, *_ in found.spans} <= {"damaged", "rewritten"}


@pytest.mark.parametrize("up", [True, False])
def test_base_offset_that_was_changed(tmp_path: Path, up: bool) -> None:
    data = LOG[8].data()
    odd = damage.put(data, 0, (1 << 40 if up else 3).to_bytes(8, "big"))
    found = pair(tmp_path, [*LOG[:8], odd, *LOG[9:]], LOG)
    assert found.spans == [("damaged", 40, 44, 5)]
    code = "offset-past-range" if up else "offset-not-rising"
    assert found.differences[0]["left"]["code"] == code


def test_batch_that_stands_twice(tmp_path: Path) -> None:
    found = pair(tmp_path, [*LOG[:9], LOG[8], *LOG[9:]], LOG)
    assert found.spans == [("damaged", 45, None, 0)]


def test_batch_that_is_missing(tmp_path: Path) -> None:
    found = pair(tmp_path, LOG, [*LOG[:8], *LOG[9:]])
    assert found.spans == [("missing", 40, 44, 5)]
    assert found.differences[0]["copy_from"] == str(tmp_path / "left" / "orders-0")


def test_missing_from_the_log_start_on(tmp_path: Path) -> None:
    start = {"log-start-offset-checkpoint": checkpoint(20)}
    right = replica(tmp_path, "right", LOG[6:], files=start, start=0)
    found = compared(replica(tmp_path, "left", LOG), right)
    assert found.spans == [("start-differs", 0, 19, 20), ("missing", 20, 29, 10)]


def test_torn_write_in_the_midst_of_a_log(tmp_path: Path) -> None:
    left = replica(tmp_path, "left", LOG, segments=(0, 10))
    right = replica(
        tmp_path, "right", [*LOG[:10], LOG[10].data()[:70], *LOG[10:]], segments=(0, 11)
    )
    assert compared(left, right).spans == [("damaged", 50, None, 0)]


def test_bytes_of_no_use_between_batches(tmp_path: Path) -> None:
    found = pair(tmp_path, LOG, [*LOG[:8], bytes(range(1, 60)), *LOG[8:]])
    assert found.spans == [("damaged", 40, None, 0)]
    assert (found.one["verdict"], found.one["records_differing"]) == ("damaged", {"damaged": 0})


def test_bytes_of_no_use_where_batches_differ(tmp_path: Path) -> None:
    junk = bytes(range(1, 60))
    left = replica(tmp_path, "left", [*LOG[:6], junk, *LOG[6:]])
    right = [*LOG[:4], *batches(20, 40, size=20), *LOG[8:]]
    found = compared(left, replica(tmp_path, "right", right))
    assert [span for span in found.spans if span[0] == "damaged"] == [("damaged", 30, None, 0)]
    assert found.one["severity"] == "damage"


def test_magic_that_was_changed(tmp_path: Path) -> None:
    """No checksum covers it, and consumers refuse such a batch."""
    found = pair(tmp_path, LOG, [*LOG[:8], damage.put(LOG[8].data(), 16, b"\x03"), *LOG[9:]])
    assert found.spans == [("damaged", 40, 44, 5)]
    assert found.differences[0]["right"]["code"] == "magic-unknown"


def test_segment_that_is_missing(tmp_path: Path) -> None:
    left = replica(tmp_path, "left", LOG, segments=(0, 5, 10))
    right = comparing.copied(left, tmp_path / "right")
    (right / "orders-0" / f"{25:020}.log").unlink()
    found = compared(left, right)
    assert found.spans == [("missing", 25, 49, 25)]


def test_records_that_cannot_be_opened(tmp_path: Path) -> None:
    """The sum is right, the stream below it is not: such a batch was written so."""
    gzip = builders.gzip_bytes(b"".join(builders.record(n) for n in range(5)))
    good = builders.batch(payload=gzip, attributes=1, base_offset=100, records_count=5)
    bad = builders.batch(payload=gzip[:20], attributes=1, base_offset=100, records_count=5)
    found = pair(tmp_path, [*LOG, good], [*LOG, bad])
    assert found.spans == [("damaged", 100, 104, 5)]
    assert found.differences[0]["copy_from"] == str(tmp_path / "left" / "orders-0")
    worse = builders.batch(payload=gzip[:25], attributes=1, base_offset=100, records_count=5)
    found = compared(replica(tmp_path, "a", [*LOG, bad]), replica(tmp_path, "b", [*LOG, worse]))
    assert found.spans == [("batch-differs", 100, 104, 5)]


def test_batches_over_the_limit_are_not_compared(tmp_path: Path) -> None:
    def packed(value: bytes) -> bytes:
        records = [builders.record(0, value=value * 400_000)]
        return builders.batch(records, base_offset=100, attributes=1, compress=builders.gzip_bytes)

    left = replica(tmp_path, "left", [*LOG, packed(b"a")])
    found = compared(left, replica(tmp_path, "right", [*LOG, packed(b"b")]), limit=1 << 18)
    assert [kind for kind, *_ in found.spans][:1] == ["not-compared"]
    assert (found.one["verdict"], found.one["severity"]) == ("not-compared", "note")


# Histories that part -----------------------------------------------------------------------------


def test_logs_that_parted(tmp_path: Path) -> None:
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
def test_parted_above_the_high_watermark(tmp_path: Path, mark: int, said: bool) -> None:
    """Nobody was handed what was never replicated; leaders change without loss that way."""
    right = [*LOG[:16], *with_epoch(LOG[16:], 4)]
    files = {"replication-offset-checkpoint": checkpoint(mark)}
    roots = [replica(tmp_path, "a", LOG, files=files), replica(tmp_path, "b", right, files=files)]
    explanation = compared(*roots).one["explanation"]
    assert ("no consumer was handed it" in explanation) is said


def test_older_epoch_alone_is_no_divergence(tmp_path: Path) -> None:
    """A follower that was down when the leader changed ends in an older epoch."""
    log = [*LOG[:16], *with_epoch(LOG[16:], 4)]
    found = pair(tmp_path, log, LOG[:14])
    assert found.one["verdict"] == "behind"
    assert (found.one["common_epoch"], found.one["common_end_offset"]) == (3, 70)


def test_epoch_of_one_batch_that_was_changed(tmp_path: Path) -> None:
    found = pair(tmp_path, LOG, [*LOG[:8], LOG[8]._replace(epoch=9), *LOG[9:]])
    assert found.spans == [("epoch-differs", 40, 44, 5)]
    assert found.differences[0]["fields"] == ["leader_epoch"]
    assert (found.one["common_epoch"], found.one["common_end_offset"]) == (3, 100)
    assert "no checksum covers" in found.one["explanation"]


@pytest.mark.parametrize(
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
def test_common_history(
    left: tuple[list[tuple[int, int]], int],
    right: tuple[list[tuple[int, int]], int],
    expected: tuple[int, int] | None,
) -> None:
    assert common([left, right]) == expected


def test_lineage_is_that_of_the_batches() -> None:
    spans = [Span(3, 10, 19, 10, 2), Span(9, 20, 24, 5, 1), Span(3, 25, 40, 16, 4)]
    assert lineage(spans, [], 41) == [(3, 10)]
    assert lineage(spans[:1], [(1, 0), (2, 5), (3, 10), (4, 20)], 20) == [
        (1, 0), (2, 5), (3, 10), (4, 20),
    ]  # fmt: skip
    assert lineage(spans[:1], [(3, 10), (4, 25)], 20) == [(3, 10)]
    assert lineage([Span(-1, 0, 9, 10, 2)], [(2, 0)], 10) == [(2, 0)]


# More than two, and what to compare --------------------------------------------------------------


def test_odd_one_of_three(tmp_path: Path) -> None:
    odd = [*LOG[:8], changed(LOG[8], 42, b"other"), *LOG[9:]]
    roots = [replica(tmp_path, n, odd if n == "a" else LOG) for n in ("a", "b", "c")]
    found = compared(*roots)
    assert found.spans == [("record-differs", 42, 42, 1)]
    (told,) = found.differences
    assert told["left"]["path"] == str(tmp_path / "b" / "orders-0")
    assert told["left"]["also"] == [str(tmp_path / "c" / "orders-0")]
    assert told["right"]["path"] == str(tmp_path / "a" / "orders-0")
    assert found.one["odd"] == str(tmp_path / "a" / "orders-0")
    assert "odd one out" in found.one["explanation"]


def test_three_that_all_differ(tmp_path: Path) -> None:
    roots = [
        replica(tmp_path, "a", LOG),
        replica(tmp_path, "b", [*LOG[:8], damage.flip(LOG[8].data(), 90), *LOG[9:]]),
        replica(tmp_path, "c", LOG[:12]),
    ]
    found = compared(*roots)
    assert found.spans == [("damaged", 40, 44, 5), ("behind", 60, 99, 40)]
    assert found.differences[0]["left"]["also"] == [str(tmp_path / "c" / "orders-0")]
    assert found.one["verdict"] == "damaged"


def test_partition_found_once_is_told(tmp_path: Path) -> None:
    left = replica(tmp_path, "left", LOG)
    replica(left, "", LOG, partition="alone-3")
    found = compared(left, replica(tmp_path, "right", LOG))
    assert found.errors == []
    assert (found.summary["found_once"], found.summary["found_once_count"]) == (["alone-3"], 1)
    assert found.summary["partitions"] == 1


def test_nothing_in_common(tmp_path: Path) -> None:
    found = compared(
        replica(tmp_path, "left", LOG), replica(tmp_path, "right", LOG, partition="other-0")
    )
    assert [type(error) for error in found.errors] == [NothingToDo]


def test_one_directory_named_twice(tmp_path: Path) -> None:
    left = replica(tmp_path, "left", LOG)
    (tmp_path / "link").symlink_to(left)
    assert [type(error) for error in compared(left, left, tmp_path / "link").errors] == [
        NothingToDo
    ]


def test_directories_whose_names_say_nothing(tmp_path: Path) -> None:
    left = replica(tmp_path, "left", LOG, partition="copy")
    right = replica(tmp_path, "right", LOG[:-1])
    assert compared(left / "copy", right).one["topic"] == "orders"
    other = replica(tmp_path, "other", LOG[:-1], partition="copy")
    found = compared(left / "copy", other / "copy").one
    assert (found["topic"], found["verdict"]) == (None, "behind")


def test_file_is_no_replica(tmp_path: Path) -> None:
    left, right = replica(tmp_path, "left", LOG), replica(tmp_path, "right", LOG)
    found = compared(left / "orders-0" / f"{0:020}.log", right)
    assert [type(error) for error in found.errors] == [PathError]


def test_unreadable_replica_leaves_the_others(tmp_path: Path) -> None:
    roots = [replica(tmp_path, name, LOG) for name in ("a", "b", "c")]
    log = roots[1] / "orders-0" / f"{0:020}.log"
    log.unlink()
    log.mkdir()
    found = compared(*roots)
    assert [str(log) in str(error) for error in found.errors] == [True]
    assert found.one["verdict"] == "equal"
    assert len(found.one["replicas"]) == 2


def test_old_logs_were_not_replicated(tmp_path: Path) -> None:
    for name in ("left", "right"):
        directory = tmp_path / name / "orders-0"
        directory.mkdir(parents=True)
        (directory / f"{0:020}.kafka").write_bytes(builders.pre08_message(name.encode()))
    found = compared(tmp_path / "left", tmp_path / "right")
    assert (found.one["verdict"], found.one["severity"]) == ("not-compared", None)


def test_topics_and_partitions_are_narrowed(tmp_path: Path) -> None:
    roots = [replica(tmp_path, name, LOG) for name in ("left", "right")]
    for root in roots:
        replica(root, "", LOG, partition="orders-1")
    assert len(compared(*roots).comparisons) == 2
    assert compared(*roots, partition=1).one["partition"] == 1
    assert [type(error) for error in compared(*roots, topic="x*").errors][:1] == [NothingToDo]


def test_only_so_many_differences_are_told(tmp_path: Path) -> None:
    odd = [changed(batch, batch.base + 2, b"other") for batch in LOG]
    left, right = replica(tmp_path, "left", LOG), replica(tmp_path, "right", odd[:-1])
    found = compared(left, right, shown=3)
    assert found.spans == [("record-differs", n, n, 1) for n in (2, 7, 12)]
    assert found.one["differences"] == {"behind": 1, "record-differs": 19}
    assert compared(left, right, shown=0).one["differences"] == found.one["differences"]


@pytest.mark.parametrize("jobs", [2, 3])
def test_workers_change_nothing(tmp_path: Path, jobs: int) -> None:
    roots = [replica(tmp_path, name, LOG) for name in ("left", "right")]
    for number in range(1, 5):
        replica(roots[0], "", LOG[:-number], partition=f"orders-{number}")
        replica(roots[1], "", LOG, partition=f"orders-{number}")
    one, many = compared(*roots), compared(*roots, jobs=jobs)
    assert (one.differences, one.comparisons) == (many.differences, many.comparisons)
    assert len(one.comparisons) == 5


def test_words_of_the_verdicts() -> None:
    assert verdict_of({}) == "equal"
    assert severity_of("equal") is None
    for kind, (severity, _) in KINDS.items():
        verdict = verdict_of({kind: 1})
        assert verdict in VERDICTS
        assert severity_of(verdict) in (severity, None)


def test_rows_are_in_the_order_of_the_partitions(tmp_path: Path) -> None:
    roots = [replica(tmp_path, name, LOG) for name in ("left", "right")]
    for root in roots:
        for name in ("b-0", "a-10", "a-9"):
            replica(root, "", LOG, partition=name)
    rows = [item for item in compare([*map(str, roots)], CompareOptions()) if isinstance(item, Row)]
    names = [f"{row.fields['topic']}-{row.fields['partition']}" for row in rows[:-1]]
    assert names == ["a-9", "a-10", "b-0", "orders-0"]
    assert re.fullmatch("summary", rows[-1].row)
