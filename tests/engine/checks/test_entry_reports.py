"""What is said of entries of an index, and of the lookups that go wrong by them."""

from pathlib import Path

import pytest
from segments import batches, only, read, write, write_partition


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return write_partition(tmp_path, {0: batches(0, 60), 60: batches(60, 90)})


def swap_entries(directory: Path, extension: str, size: int, one: int, other: int) -> None:
    """Let two entries of the sealed segment change places."""
    data = read(directory, 0, extension)
    slots = [data[at : at + size] for at in range(0, len(data), size)]
    slots[one], slots[other] = slots[other], slots[one]
    write(directory, 0, extension, b"".join(slots))


@pytest.mark.parametrize(("extension", "size"), [("index", 8), ("timeindex", 12)])
@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        (1, 2, "One entry is not greater than those before it."),
        (1, 3, "2 entries are not greater than those before them."),
        (2, 5, "2 entries are not greater than those before them."),
    ],
)
def test_falling_entries_are_reported(
    directory: Path, extension: str, size: int, one: int, other: int, message: str
) -> None:
    swap_entries(directory, extension, size, one, other)
    found = only(directory)
    assert found.code == ("offset-index-order" if size == 8 else "time-index-order")
    assert found.message.startswith(message)
    assert found.path.endswith(f"{0:020}.{extension}")
    assert (found.position is not None and found.position % size, found.size_bytes) == (0, size)


@pytest.mark.parametrize(("extension", "size"), [("index", 8), ("timeindex", 12)])
def test_partial_entry_is_reported(directory: Path, extension: str, size: int) -> None:
    whole = read(directory, 0, extension)
    write(directory, 0, extension, whole + b"\0" * (size - 1))
    found = only(directory)
    assert (found.position, found.size_bytes) == (len(whole), size - 1)
    assert (found.expected, found.actual) == (len(whole), len(whole) + size - 1)
