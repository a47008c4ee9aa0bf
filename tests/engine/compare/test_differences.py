"""Differences between replicas that are not: lost, changed and damaged batches."""

from pathlib import Path

import builders
import comparing
import damage
import pytest
from comparing import (
    batches,
    checkpoint,
    compare_directories,
    replica,
    rewrite_record,
)
from each import each
from replica_pairs import LOG, pair


def test_different_record_is_reported(tmp_path: Path) -> None:
    found = pair(tmp_path, LOG, [*LOG[:8], rewrite_record(LOG[8], 42, b"other"), *LOG[9:]])
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


@each(
    ("members", "field"),
    [
        ({"key": None}, "key"),
        ({"key": b""}, "key"),
        ({"timestamp_delta": 9}, "timestamp_ms"),
        ({"headers": [(b"h", None)]}, "headers"),
    ],
)
def test_different_field_is_reported(
    tmp_path: Path, members: dict[str, object], field: str
) -> None:
    one = builders.batch([builders.record(0, 0, b"k", b"v")], base_offset=100)
    given = {"key": b"k", "value": b"v", **members}
    other = builders.batch([builders.record(0, **given)], base_offset=100)  # type: ignore[arg-type]
    found = pair(tmp_path, [*LOG, one], [*LOG, other])
    assert found.spans == [("record-differs", 100, 100, 1)]
    assert found.differences[0]["fields"] == [field]


def test_different_producer_is_reported(tmp_path: Path) -> None:
    one = batches(100, 105, producer_id=7, producer_epoch=0, base_sequence=0)
    other = batches(100, 105, producer_id=8, producer_epoch=0, base_sequence=3)
    found = pair(tmp_path, [*LOG, *one], [*LOG, *other])
    assert found.spans == [("record-differs", 100, 104, 5)]
    assert found.differences[0]["fields"] == ["producer_id", "sequence"]


def test_side_truncated_inside_a_batch_is_reported(tmp_path: Path) -> None:
    found = pair(tmp_path, LOG, [*LOG[:-2], LOG[-2].data()[:80]])
    assert found.spans == [("truncated", 90, 99, 10)]
    (told,) = found.differences
    assert (told["reason"], told["right"]["code"]) == ("torn-tail", "torn-tail")
    assert told["copy_from"] == str(tmp_path / "left" / "orders-0")
    assert (found.one["verdict"], found.one["first_divergent_offset"]) == ("truncated", 90)


@each(
    ("file", "text", "reason"),
    [
        ("replication-offset-checkpoint", checkpoint(95), "its high watermark is 95"),
        ("recovery-point-offset-checkpoint", checkpoint(99), "its recovery point is 99"),
        ("/leader-epoch-checkpoint", "0\n2\n3 0\n4 97\n", "its leader epoch is 97"),
        ("/00000000000000000100.snapshot", "", "its producer snapshot is 100"),
    ],
)
def test_side_truncated_between_batches_is_reported(
    tmp_path: Path, file: str, text: str, reason: str
) -> None:
    """Nothing in the log tells it from a follower that lags; what is written beside it does."""
    right = replica(tmp_path, "right", LOG[:-2], files={file: text})
    found = compare_directories(replica(tmp_path, "left", LOG), right)
    assert found.spans == [("truncated", 90, 99, 10)]
    assert found.differences[0]["reason"] == reason


def test_flipped_byte_is_attributed_to_its_side(tmp_path: Path) -> None:
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
def test_garbage_on_both_sides_is_reported(tmp_path: Path, at: int) -> None:
    junk = damage.flip(batches(5 * at, 5 * at + 1)[0].data(), 70)
    one, other = ([*LOG[:at], *[junk] * count, *LOG[at:]] for count in (1, 2))
    found = pair(tmp_path, one, other)
    assert found.spans == [("damaged-everywhere", 5 * at, None, 0)]
    assert [each["sound"] for each in found.one["replicas"]] == [False, False]


def test_partially_overlapping_damage_is_reported(tmp_path: Path) -> None:
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
def test_changed_base_offset_is_reported(tmp_path: Path, up: bool) -> None:
    data = LOG[8].data()
    odd = damage.put(data, 0, (1 << 40 if up else 3).to_bytes(8, "big"))
    found = pair(tmp_path, [*LOG[:8], odd, *LOG[9:]], LOG)
    assert found.spans == [("damaged", 40, 44, 5)]
    code = "offset-past-range" if up else "offset-not-rising"
    assert found.differences[0]["left"]["code"] == code


def test_repeated_batch(tmp_path: Path) -> None:
    found = pair(tmp_path, [*LOG[:9], LOG[8], *LOG[9:]], LOG)
    assert found.spans == [("damaged", 45, None, 0)]


def test_missing_batch_is_reported(tmp_path: Path) -> None:
    found = pair(tmp_path, LOG, [*LOG[:8], *LOG[9:]])
    assert found.spans == [("missing", 40, 44, 5)]
    assert found.differences[0]["copy_from"] == str(tmp_path / "left" / "orders-0")


def test_missing_first_batches_are_reported(tmp_path: Path) -> None:
    start = {"log-start-offset-checkpoint": checkpoint(20)}
    right = replica(tmp_path, "right", LOG[6:], files=start, start=0)
    found = compare_directories(replica(tmp_path, "left", LOG), right)
    assert found.spans == [("start-differs", 0, 19, 20), ("missing", 20, 29, 10)]


def test_torn_write_inside_a_log_is_reported(tmp_path: Path) -> None:
    left = replica(tmp_path, "left", LOG, segments=(0, 10))
    right = replica(
        tmp_path, "right", [*LOG[:10], LOG[10].data()[:70], *LOG[10:]], segments=(0, 11)
    )
    assert compare_directories(left, right).spans == [("damaged", 50, None, 0)]


def test_garbage_between_batches_is_reported(tmp_path: Path) -> None:
    found = pair(tmp_path, LOG, [*LOG[:8], bytes(range(1, 60)), *LOG[8:]])
    assert found.spans == [("damaged", 40, None, 0)]
    assert (found.one["verdict"], found.one["records_differing"]) == ("damaged", {"damaged": 0})


def test_garbage_next_to_different_batches_is_reported(tmp_path: Path) -> None:
    junk = bytes(range(1, 60))
    left = replica(tmp_path, "left", [*LOG[:6], junk, *LOG[6:]])
    right = [*LOG[:4], *batches(20, 40, size=20), *LOG[8:]]
    found = compare_directories(left, replica(tmp_path, "right", right))
    assert [span for span in found.spans if span[0] == "damaged"] == [("damaged", 30, None, 0)]
    assert found.one["severity"] == "damage"


def test_changed_magic_is_reported(tmp_path: Path) -> None:
    """No checksum covers it, and consumers refuse such a batch."""
    found = pair(tmp_path, LOG, [*LOG[:8], damage.put(LOG[8].data(), 16, b"\x03"), *LOG[9:]])
    assert found.spans == [("damaged", 40, 44, 5)]
    assert found.differences[0]["right"]["code"] == "magic-unknown"


def test_missing_segment_is_reported(tmp_path: Path) -> None:
    left = replica(tmp_path, "left", LOG, segments=(0, 5, 10))
    right = comparing.copy_directory(left, tmp_path / "right")
    (right / "orders-0" / f"{25:020}.log").unlink()
    found = compare_directories(left, right)
    assert found.spans == [("missing", 25, 49, 25)]


def test_undecodable_records_are_reported(tmp_path: Path) -> None:
    """The sum is right, the stream below it is not: such a batch was written so."""
    gzip = builders.gzip_bytes(b"".join(builders.record(n) for n in range(5)))
    good = builders.batch(payload=gzip, attributes=1, base_offset=100, records_count=5)
    bad = builders.batch(payload=gzip[:20], attributes=1, base_offset=100, records_count=5)
    found = pair(tmp_path, [*LOG, good], [*LOG, bad])
    assert found.spans == [("damaged", 100, 104, 5)]
    assert found.differences[0]["copy_from"] == str(tmp_path / "left" / "orders-0")
    worse = builders.batch(payload=gzip[:25], attributes=1, base_offset=100, records_count=5)
    found = compare_directories(
        replica(tmp_path, "a", [*LOG, bad]), replica(tmp_path, "b", [*LOG, worse])
    )
    assert found.spans == [("batch-differs", 100, 104, 5)]


def test_batches_over_the_limit_are_not_compared(tmp_path: Path) -> None:
    def packed(value: bytes) -> bytes:
        records = [builders.record(0, value=value * 400_000)]
        return builders.batch(records, base_offset=100, attributes=1, compress=builders.gzip_bytes)

    left = replica(tmp_path, "left", [*LOG, packed(b"a")])
    found = compare_directories(
        left, replica(tmp_path, "right", [*LOG, packed(b"b")]), decompress_limit=1 << 18
    )
    assert [kind for kind, *_ in found.spans][:1] == ["not-compared"]
    assert (found.one["verdict"], found.one["severity"]) == ("not-compared", "note")
