"""How many requests reading takes, and what comes of those that fail."""

import random
from collections.abc import Callable

import pytest

from kdump.errors import PathError, StoreError
from kdump.stores import windows
from kdump.stores.store import Status
from kdump.stores.windows import Windows

KIB, MIB = 1 << 10, 1 << 20


class Bytes:
    """A file in memory that notes what is read of it."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.size = len(data)
        self.asked: list[tuple[int, int]] = []
        self.fail: Callable[[int], Exception | None] = lambda number: None
        self.gone = False

    def read_at(self, position: int, size: int) -> bytes:
        self.asked.append((position, size))
        error = self.fail(len(self.asked))
        if error is not None:
            raise error
        return self.data[position : position + size]

    def close(self) -> None:
        self.data = b""

    def status(self) -> Status | None:
        return None if self.gone else Status(False, True, len(self.data), 1)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "_PAUSE_SECONDS", 0.0)


@pytest.fixture(scope="module")
def large() -> bytes:
    return random.Random(7).randbytes(64 * MIB)


def read(file: Windows, position: int, size: int) -> bytes:
    buffer = bytearray(size)
    done = 0
    with memoryview(buffer) as view:
        while done < size:
            count = file.read_into(view[done:], position + done)
            if not count:
                break
            done += count
    return bytes(buffer[:done])


def test_small_file_is_fetched_completely() -> None:
    data = random.Random(1).randbytes(MIB)
    file = Bytes(data)
    reader = Windows(file, file.status)
    for position in (500_000, 3, 900_000):
        assert read(reader, position, 100) == data[position : position + 100]
    assert file.asked == [(0, MIB)]


@pytest.mark.parametrize(("hint", "most"), [(True, 10), (False, 12)])
def test_sequential_reads_use_few_large_requests(large: bytes, hint: bool, most: int) -> None:
    file = Bytes(large)
    reader = Windows(file, file.status)
    reader.sequential = hint
    # As batches are read: in blocks, each from where the last whole batch ended.
    position = 0
    while position < len(large):
        size = min(256 * KIB, len(large) - position)
        assert read(reader, position, size) == large[position : position + size]
        position += size if position + size == len(large) else size - 777
    assert len(file.asked) <= most
    assert sum(size for _, size in file.asked) == len(large)
    assert max(size for _, size in file.asked) == windows.LARGEST_BYTES


def test_scattered_reads_fetch_little(large: bytes) -> None:
    file = Bytes(large)
    reader = Windows(file, file.status)
    for position in (60 * MIB, 30 * MIB, 15 * MIB, 15 * MIB + 100, 30 * MIB + 5):
        assert read(reader, position, 96) == large[position : position + 96]
    assert [size for _, size in file.asked] == [windows.SCATTERED_BYTES] * 3


def test_memory_is_bounded(large: bytes) -> None:
    file = Bytes(large)
    reader = Windows(file, file.status)
    reader.sequential = True
    for position in range(0, len(large), 128 * KIB):
        read(reader, position, 64)
        assert sum(map(len, reader._windows.values())) <= windows._KEPT_BYTES


@pytest.mark.parametrize("seed", range(4))
def test_any_reads_return_the_bytes(large: bytes, seed: int) -> None:
    chance = random.Random(seed)
    size = chance.choice([1, windows.SMALL_FILE_BYTES, windows.SMALL_FILE_BYTES + 1, 20 * MIB + 7])
    file = Bytes(large[:size])
    reader = Windows(file, file.status)
    reader.sequential = chance.random() < 0.5
    position = 0
    for _ in range(300):
        if chance.random() < 0.2:
            position = chance.randrange(size)
        count = min(int(2 ** chance.uniform(0, 22)), size - position)
        assert read(reader, position, count) == large[position : position + count]
        position = (position + count - chance.randrange(count + 1) // 8) % size
    assert all(start >= 0 and start + asked <= size for start, asked in file.asked)


def test_single_failure_is_retried(large: bytes) -> None:
    file = Bytes(large)
    file.fail = lambda number: StoreError("s3://b/x", "reset") if number == 1 else None
    assert read(Windows(file, file.status), 5, 10) == large[5:15]


def test_persistent_failure_is_an_error(large: bytes) -> None:
    file = Bytes(large)
    file.fail = lambda number: StoreError("s3://b/x", "reset")
    with pytest.raises(StoreError, match="reset"):
        read(Windows(file, file.status), 5, 10)
    assert not isinstance(StoreError("s3://b/x", "reset"), PathError)


def test_deleted_file(large: bytes) -> None:
    file = Bytes(large)
    reader = Windows(file, file.status)
    file.gone = True
    file.fail = lambda number: StoreError("s3://b/x", "no such key")
    with pytest.raises(FileNotFoundError):
        read(reader, 5, 10)


def test_shorter_file_is_reported(large: bytes) -> None:
    file = Bytes(large)
    reader = Windows(file, file.status)
    file.data = large[: 10 * MIB]
    file.fail = lambda number: (
        StoreError("s3://b/x", "range") if sum(file.asked[-1]) > 10 * MIB else None
    )
    assert read(reader, 10 * MIB - 100, 300) == large[10 * MIB - 100 : 10 * MIB]
    assert read(reader, 20 * MIB, 300) == b""
    assert reader.now() == 10 * MIB
