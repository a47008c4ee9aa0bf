"""How large an entry is that is written anew with fewer records."""

import random
import sys
from collections.abc import Callable

import builders
import pytest
from each import each

from kdump import kernels
from kdump.kernels.columns import RecordBatches
from kdump.record.batch import read_batch
from kdump.record.layout import GZIP, LZ4, NONE, SNAPPY, ZSTD
from kdump.record.rebuilt_sizes import compute_packed_size, compute_upgraded_size, rebuilt_size

TIME = 1_700_000_000_000


def batch_of(count: int, deltas: Callable[[int], int], **members: int) -> bytes:
    records = [
        builders.record(n, deltas(n), b"key" * n, None if n % 3 == 1 else b"v" * 70, [(b"h", b"1")])
        for n in range(count)
    ]
    return builders.batch(records, base_timestamp=TIME, **members)


def rebuilt(data: bytes, rows: list[int], horizon: int | None = None) -> int:
    batches, kept = opened(data, rows)
    return rebuilt_size(batches, 0, kept, horizon)


def opened(data: bytes, rows: list[int]) -> tuple[RecordBatches, list[object]]:
    batches, _, _ = kernels.walk(bytearray(data), 0, len(data), 0, -1, True, 10)
    (piece,) = read_batch(data, 0, batches, 0, limit=1 << 20)
    return batches, [(piece.data, piece.records, rows)]


def test_rebuilt_complete_batch_has_its_size() -> None:
    data = batch_of(7, lambda n: n * 50)
    assert rebuilt(data, list(range(7))) == len(data)


def test_timestamps_are_relative_to_the_first_kept_record() -> None:
    data = batch_of(3, lambda n: n * 10_000)
    # The delta of 20 s takes three bytes, as does that of 10 s, which now is 0.
    first = len(builders.record(0, 0, b"", b"v" * 70, [(b"h", b"1")]))
    assert rebuilt(data, [1, 2]) == len(data) - first - 2


def test_delete_horizon_lengthens_timestamps() -> None:
    data = batch_of(2, lambda n: 0)
    assert rebuilt(data, [0, 1], TIME + 86_400_000) == len(data) + 2 * 3


def test_message_becomes_a_batch() -> None:
    data = builders.message(5, timestamp=TIME)
    batches, kept = opened(data, [0])
    assert compute_upgraded_size(batches, 0, kept, None) == len(
        builders.batch([builders.record(0, 0, b"key", b"value")])
    )


@each("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
def test_stream_is_much_smaller_than_its_text(codec: int) -> None:
    plain = b"what is said again and again " * 4000
    assert codec == NONE or compute_packed_size(codec, plain) < len(plain) // 10
    assert compute_packed_size(codec, b"x") <= 40


def test_lz4_stores_incompressible_bytes() -> None:
    plain = random.Random(1).randbytes(70_000)
    assert compute_packed_size(LZ4, plain) == len(plain) + 11 + 2 * 4


def test_lz4_size_matches_lz4_java() -> None:
    draw = random.Random(5)
    plain = b"".join(b"%d" % draw.randrange(10**6) for _ in range(14_000))
    # Two blocks; lz4-java 1.8.0 makes these of them, native and in Java alike.
    assert compute_packed_size(LZ4, plain) == 51_206 + 14_005 + 11 + 2 * 4


@pytest.mark.parametrize("arrow", [True, False])
def test_snappy_size_is_the_same_with_either_library(
    monkeypatch: pytest.MonkeyPatch, arrow: bool
) -> None:
    if not arrow:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    draw = random.Random(5)
    words = [draw.randbytes(5) for _ in range(300)]
    plain = b"".join(draw.choice(words) for _ in range(1200))
    java = 16 + 4 + 3728  # snappy-java 1.1.10
    assert 0 < abs(compute_packed_size(SNAPPY, plain) - java) < 0.005 * java
