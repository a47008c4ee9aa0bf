"""What is taken of torn batches with --split-batches, and what is left."""

import gzip
import zlib
from pathlib import Path
from typing import Any

import builders
import damage
import pytest
from comparing import Batch, batches, replica
from salvaging import build_salvage, data_of, row_of

LOG = batches(0, 50)
DATA = [batch.data() for batch in LOG]
SIZE = len(DATA[3])
BASES = range(0, 20, 4)


def parts(fields: dict[str, Any]) -> list[tuple[int, int, int, bool]]:
    return [
        (one["from"], one["to"], one["records_count"], one["doubtful"])
        for one in fields["reencoded"]
    ]


def record_of(number: int) -> bytes:
    """The records of the fourth batch, as they lie in it."""
    item = LOG[3].items[number]
    return builders.record(number, item.timestamp, item.key, item.value)


def wrappers(magic: int, **members: Any) -> list[bytes]:
    """Wrappers of four messages each."""
    return [
        builders.wrapper(
            [
                builders.message(number if magic else base + number, value=b"v%d" % (base + number),
                                 magic=magic)
                for number in range(4)
            ],
            base + 3, magic=magic, **members,
        )
        for base in BASES
    ]  # fmt: skip


def plain(offset: int, magic: int) -> bytes:
    return builders.message(offset, value=b"v%d" % offset, magic=magic)


def test_records_before_the_damage_are_kept(tmp_path: Path) -> None:
    torn = damage.flip_bit(DATA[3], SIZE - 2 * len(record_of(3)), 5)  # the fourth record's size
    one = replica(tmp_path, "one", [*DATA[:3], torn, *DATA[4:]])
    fields, data = build_salvage(tmp_path, one, split_batches=True)
    anew = LOG[3]._replace(items=LOG[3].items[:3], last=17)
    assert data == data_of([*LOG[:3], anew, *LOG[4:]])
    assert (parts(fields), fields["lost"]) == ([(15, 17, 3, True)], [[18, 19]])
    (part,) = fields["reencoded"]
    assert (Path(part["path"]).parent, part["position"]) == (
        one / "orders-0",
        sum(map(len, DATA[:3])),
    )
    page = (tmp_path / "out.manifest.txt").read_text()
    assert "re-encoded: 15-17, from the torn batch at byte" in page
    assert "DOUBTFUL" in page


def test_torn_batch_is_lost_by_default(tmp_path: Path) -> None:
    one = replica(tmp_path, "one", [*DATA[:3], DATA[3][:-10], *DATA[4:]])
    fields, data = build_salvage(tmp_path, one)
    assert data == data_of(LOG[:3] + LOG[4:])
    assert (fields["reencoded"], fields["lost"]) == ([], [[15, 19]])


def test_sound_batch_of_another_copy_is_preferred(tmp_path: Path) -> None:
    one = replica(tmp_path, "one", [*DATA[:3], DATA[3][:-10], *DATA[4:]])
    two = replica(tmp_path, "two", LOG)
    fields, data = build_salvage(tmp_path, one, two, split_batches=True)
    assert (data, fields["reencoded"], fields["severity"]) == (data_of(LOG), [], None)


def test_partial_batch_at_the_log_end(tmp_path: Path) -> None:
    one = replica(tmp_path, "one", [*DATA[:9], DATA[9][:-1]])
    fields, data = build_salvage(tmp_path, one, split_batches=True)
    assert data == data_of([*LOG[:9], LOG[9]._replace(items=LOG[9].items[:4], last=48)])
    assert (parts(fields), fields["lost"]) == ([(45, 48, 4, True)], [[49, None]])


def test_doubt_without_loss_is_damage(tmp_path: Path) -> None:
    torn = damage.flip_bit(DATA[3], SIZE - 2, 0)  # in the last value
    one = replica(tmp_path, "one", [*DATA[:3], torn, *DATA[4:]])
    row = row_of(one, split_batches=True)
    assert (parts(row), row["lost"], row["severity"]) == ([(15, 19, 5, True)], [], "damage")


def test_differing_copies_give_their_common_records(tmp_path: Path) -> None:
    at = 61 + len(record_of(0)) + len(record_of(1)) + len(record_of(2)) - 2  # in the third value
    one = replica(tmp_path, "one", [*DATA[:3], damage.flip_bit(DATA[3], at, 0), *DATA[4:]])
    two = replica(tmp_path, "two", tear_batches(LOG))
    fields = row_of(one, two, split_batches=True)
    assert (parts(fields), fields["lost"]) == ([(15, 16, 2, True)], [[17, 19]])


@pytest.mark.parametrize("at", [23, 42, 3], ids=["last-offset", "max-timestamp", "base-offset"])
def test_impossible_headers_give_no_records(tmp_path: Path, at: int) -> None:
    # The largest time is 0 then, the base offset far away, the last offset before the first.
    torn = bytearray(damage.flip_bit(DATA[3], 70, 0))
    torn[at] ^= 0xFF
    if at == 42:
        torn[35:43] = bytes(8)
    one = replica(tmp_path, "one", [*DATA[:3], bytes(torn), *DATA[4:]])
    assert row_of(one, split_batches=True)["reencoded"] == []


def producers(**members: Any) -> list[Batch]:
    sequences = [{"base_sequence": base, **members} for base in range(0, 50, 5)]
    return [
        batch._replace(members={"producer_id": 7, "producer_epoch": 0, **each})
        for batch, each in zip(LOG, sequences, strict=True)
    ]


def tear_batches(log: list[Batch]) -> list[bytes]:
    data = [batch.data() for batch in log]
    data[3] = data[3][:-1] + b"\x7f"  # so many headers in the last record
    return data


def test_known_producer_is_kept(tmp_path: Path) -> None:
    log = producers()
    fields, data = build_salvage(
        tmp_path, replica(tmp_path, "one", tear_batches(log)), split_batches=True
    )
    anew = log[3]._replace(items=log[3].items[:4], last=18)
    assert data == data_of([*log[:3], anew, *log[4:]])
    assert fields["lost"] == [[19, 19]]


def test_unknown_producer_is_left_out(tmp_path: Path) -> None:
    log = producers()
    log[3] = log[3]._replace(members={**log[3].members, "producer_id": 99})
    _, data = build_salvage(
        tmp_path, replica(tmp_path, "one", tear_batches(log)), split_batches=True
    )
    anew = LOG[3]._replace(items=LOG[3].items[:4], last=18)
    assert data == data_of([*log[:3], anew, *log[4:]])


def test_transaction_of_an_unknown_producer_is_not_opened(tmp_path: Path) -> None:
    log = producers()
    flags = {"producer_id": 99, "attributes": builders.TRANSACTIONAL}
    log[3] = log[3]._replace(members={**log[3].members, **flags})
    row = row_of(replica(tmp_path, "one", tear_batches(log)), split_batches=True)
    assert (row["reencoded"], row["lost"]) == ([], [[15, 19]])


def test_different_epoch_is_not_trusted(tmp_path: Path) -> None:
    log = [*LOG[:3], LOG[3]._replace(epoch=2), *LOG[4:]]
    row = row_of(replica(tmp_path, "one", tear_batches(log)), split_batches=True)
    assert (row["reencoded"], row["lost"]) == ([], [[15, 19]])


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_a_wrapper_with_a_wrong_checksum_are_kept(tmp_path: Path, magic: int) -> None:
    log = wrappers(magic)
    log[1] = damage.flip_bit(log[1], 12, 0)  # its checksum
    one = replica(tmp_path, "one", log, start=0)
    fields, data = build_salvage(tmp_path, one, split_batches=True, broker_version=(0, 10, 2))
    anew = [plain(offset, magic) for offset in range(4, 8)]
    assert data == b"".join([log[0], *anew, *log[2:]])
    assert (parts(fields), fields["lost"], fields["severity"]) == ([(4, 7, 4, False)], [], None)


def test_messages_of_a_truncated_wrapper_are_kept(tmp_path: Path) -> None:
    log = wrappers(0)
    cut = log[-1][:-12]
    came_out = zlib.decompressobj(31).decompress(cut[cut.index(b"\x1f\x8b") :])
    count = len(came_out) // len(plain(16, 0))
    assert 0 < count < 4
    one = replica(tmp_path, "one", [*log[:-1], cut], start=0)
    fields, data = build_salvage(tmp_path, one, split_batches=True, broker_version=(0, 10, 2))
    anew = [plain(offset, 0) for offset in range(16, 16 + count)]
    assert data == b"".join([*log[:-1], *anew])
    assert parts(fields) == [(16, 15 + count, count, False)]
    assert fields["lost"] == [[16 + count, None]]


def test_message_with_a_wrong_checksum_is_dropped(tmp_path: Path) -> None:
    inner = [builders.message(n, value=b"v%d" % n, magic=0) for n in range(4)]
    inner[1] = damage.flip_bit(inner[1], 30, 0)
    log = wrappers(0)
    log[0] = damage.flip_bit(builders.wrapper(inner, 3, magic=0), 12, 0)
    fields = row_of(replica(tmp_path, "one", log, start=0), split_batches=True)
    assert parts(fields) == [(0, 0, 1, False), (2, 3, 2, False)]
    assert fields["lost"] == [[1, 1]]


def test_append_time_comes_from_the_wrapper(tmp_path: Path) -> None:
    log = wrappers(1, attributes=builders.LOG_APPEND_TIME, timestamp=1_500_000_000_000)
    log[1] = damage.flip_bit(log[1], 12, 0)
    one = replica(tmp_path, "one", log, start=0)
    fields, data = build_salvage(tmp_path, one, split_batches=True, broker_version=(0, 10, 2))
    anew = [
        builders.message(offset, value=b"v%d" % offset, attributes=builders.LOG_APPEND_TIME,
                         timestamp=1_500_000_000_000)
        for offset in range(4, 8)
    ]  # fmt: skip
    assert data == b"".join([log[0], *anew, *log[2:]])
    assert parts(fields) == [(4, 7, 4, True)]


def test_broken_message_gets_no_append_time(tmp_path: Path) -> None:
    inner = [builders.message(n, value=b"v%d" % n) for n in range(4)]
    inner[1] = damage.flip_bit(inner[1], 38, 0)
    log = wrappers(1, attributes=builders.LOG_APPEND_TIME)
    broken = builders.wrapper(inner, 3, attributes=builders.LOG_APPEND_TIME)
    log[0] = damage.flip_bit(broken, 12, 0)
    fields = row_of(replica(tmp_path, "one", log, start=0), split_batches=True)
    assert parts(fields) == [(0, 0, 1, True), (2, 3, 2, True)]


def test_batch_out_of_order_is_not_trusted(tmp_path: Path) -> None:
    moved = LOG[3].data()[:7] + b"\x10" + LOG[3].data()[8:-1] + b"\x7f"  # offset 16
    one = replica(tmp_path, "one", [*DATA[:3], moved, DATA[4][:-1] + b"\x7f", *DATA[5:]])
    row = row_of(one, split_batches=True)
    assert (parts(row), row["lost"]) == ([(20, 23, 4, True)], [[15, 19], [24, 24]])


def test_records_of_a_compressed_batch_are_kept(tmp_path: Path) -> None:
    packed = [
        batch._replace(members={"attributes": builders.GZIP, "compress": builders.gzip_bytes})
        for batch in LOG
    ]
    data = [batch.data() for batch in packed]
    data[3] = damage.flip_bit(data[3], len(data[3]) - 6, 0)  # the checksum of the stream
    fields, log = build_salvage(tmp_path, replica(tmp_path, "one", data), split_batches=True)
    assert log == data_of([*packed[:3], LOG[3], *packed[4:]])
    assert (parts(fields), fields["lost"]) == ([(15, 19, 5, True)], [])


@pytest.mark.parametrize("ending", [12, 0])
def test_inner_messages_without_a_wrapper_have_no_offsets(tmp_path: Path, ending: int) -> None:
    """They are counted from 0, and the first of them lie below the offsets of the log here."""
    log = [
        builders.wrapper([builders.message(n, value=b"v%d" % (base + n)) for n in range(count)],
                         base + count - 1, compress=store_in_gzip)
        for base, count in ((0, 4), (4, 10), (14, 4))
    ]  # fmt: skip
    if ending:
        log = [log[0], log[1][:-ending]]
    else:
        log[1] = damage.flip_bit(log[1], 9, 0)  # its size
    one = replica(tmp_path, "one", log, start=0)
    fields, data = build_salvage(tmp_path, one, broker_version=(0, 10, 2))
    assert data == b"".join(log[::2])
    assert fields["lost"] == [[4, None if ending else 13]]
    # Nor does anything say where they begin, as long as the last of them is not there.
    assert row_of(one, split_batches=True)["reencoded"] == []


def store_in_gzip(plain: bytes) -> bytes:
    """Put bytes into a gzip stream as they are."""
    return gzip.compress(plain, 0, mtime=0)


def nest_message(magic: int, offset: int) -> bytes:
    """A message inside a wrapper that is compressed again."""
    inner = gzip.compress(plain(0, magic), mtime=0)
    return builders.message(offset, None, inner, magic=magic, attributes=builders.GZIP)


@pytest.mark.parametrize("magic", [0, 1])
def test_sound_messages_of_a_wrapper(tmp_path: Path, magic: int) -> None:
    """Old brokers stored damaged and nested messages inside wrappers; 0.9 handed them out."""
    base = 12 if magic == 0 else 0
    sound = plain(base + 1, magic)
    damaged = damage.flip_bit(sound, len(sound) - 1, 3)
    inner = [plain(base, magic), damaged, nest_message(magic, base + 2), plain(base + 3, magic)]
    log = [plain(3, magic), *wrappers(magic)[1:]]
    log[3] = builders.wrapper(inner, 15, magic=magic)
    one = replica(tmp_path, "one", log)
    assert row_of(one)["lost"] == [[12, 15]]
    fields, data = build_salvage(tmp_path, one, split_batches=True, broker_version=(2, 8, 0))
    bytes_of_it = gzip.compress(plain(0, magic), mtime=0)
    kept = [
        plain(12, magic) if magic == 0 else builders.message(12, value=b"v0", magic=1),
        builders.message(14, None, bytes_of_it, magic=magic),
        plain(15, magic) if magic == 0 else builders.message(15, value=b"v3", magic=1),
    ]
    assert data == b"".join([*log[:3], *kept, *log[4:]])
    assert (fields["lost"], parts(fields)) == ([[13, 13]], [(12, 12, 1, False), (14, 15, 2, False)])
