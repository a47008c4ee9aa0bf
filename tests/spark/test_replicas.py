"""Two replicas of which one is not like the other: found, placed and explained."""

from pathlib import Path
from typing import Any

import builders
import damage
import pytest
from long_runs import LONG

from kdump.spark.replicas import differing_batches, differing_records

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]
BATCHES = 10_000 if LONG else 100
A_BATCH = 100


def batch(number: int, odd: int | None = None, epoch: int = 3) -> bytes:
    """Write a batch of 100 records; the one at offset `odd` has another value."""
    base = number * A_BATCH
    return builders.batch(
        [
            builders.record(k, k, b"k%d" % k, b"other" if base + k == odd else b"value")
            for k in range(A_BATCH)
        ],
        base_offset=base,
        leader_epoch=epoch,
    )


def log_of(path: Path, data: bytes) -> str:
    directory = path / "orders-0"
    directory.mkdir(parents=True)
    (directory / f"{0:020}.log").write_bytes(data)
    return str(path)


@pytest.fixture(scope="module")
def sound() -> bytes:
    return b"".join(batch(number) for number in range(BATCHES))


@pytest.fixture
def left(tmp_path: Path, sound: bytes) -> str:
    return log_of(tmp_path / "left", sound)


def test_equal_replicas_have_no_difference(
    spark: Any, left: str, tmp_path: Path, sound: bytes
) -> None:
    right = log_of(tmp_path / "right", sound)
    assert differing_batches(spark, left, right).count() == 0
    assert differing_records(spark, left, right).count() == 0


def test_different_record_among_many_is_found(
    spark: Any, left: str, tmp_path: Path, sound: bytes
) -> None:
    """A million of them in the long profile."""
    size = len(batch(7))
    assert len(sound) == size * BATCHES
    odd = 7 * A_BATCH + 42
    changed = batch(7, odd)
    right = log_of(tmp_path / "right", sound[: 7 * size] + changed + sound[8 * size :])
    (found,) = differing_batches(spark, left, right).collect()
    assert (found.left_base_offset, found.last_offset, found.what) == (700, 799, "differs")
    (record,) = differing_records(spark, left, right).collect()
    assert (record.topic, record.partition, record.offset) == ("orders", 0, odd)
    assert (bytes(record.left_value), bytes(record.right_value)) == (b"value", b"other")


def test_truncated_side_is_found(spark: Any, left: str, tmp_path: Path, sound: bytes) -> None:
    size = len(batch(7))
    right = log_of(tmp_path / "right", sound[: size * (BATCHES - 2)])
    found = differing_batches(spark, left, right).orderBy("last_offset").collect()
    assert [(row.what, row.left_base_offset) for row in found] == [
        ("only left", A_BATCH * (BATCHES - 2)),
        ("only left", A_BATCH * (BATCHES - 1)),
    ]
    lost = differing_records(spark, left, right)
    assert lost.count() == 2 * A_BATCH
    assert lost.selectExpr("min(offset)").collect()[0][0] == A_BATCH * (BATCHES - 2)


def test_flipped_byte_is_found(spark: Any, left: str, tmp_path: Path, sound: bytes) -> None:
    size = len(batch(7))
    right = log_of(tmp_path / "right", damage.flip(sound, 5 * size + 200))
    (found,) = differing_batches(spark, left, right).collect()
    assert (found.what, found.left_base_offset, found.right_crc_valid) == ("differs", 500, False)
    lost = differing_records(spark, left, right)
    assert {row.what for row in lost.select("what").distinct().collect()} == {"only left"}
    assert lost.count() == A_BATCH


def test_different_header_is_found(spark: Any, tmp_path: Path) -> None:
    sides = [
        log_of(
            tmp_path / name,
            builders.batch([builders.record(headers=[(b"h", value)])], base_offset=9),
        )
        for name, value in (("left", b"1"), ("right", None))
    ]
    (record,) = differing_records(spark, *sides).collect()
    assert (record.offset, record.what) == (9, "differs")
    assert (bytes(record.left_headers[0].value), record.right_headers[0].value) == (b"1", None)


def test_different_leader_epoch_is_found(
    spark: Any, left: str, tmp_path: Path, sound: bytes
) -> None:
    """The same records, written under another leader epoch: the logs have parted there."""
    size = len(batch(7))
    right = log_of(tmp_path / "right", sound[: 7 * size] + batch(7, epoch=4) + sound[8 * size :])
    (found,) = differing_batches(spark, left, right).collect()
    assert (found.left_leader_epoch, found.right_leader_epoch) == (3, 4)
    assert differing_records(spark, left, right).count() == A_BATCH
