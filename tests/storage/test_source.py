import errno
import os
from pathlib import Path

import pytest

from kdump.errors import PathError
from kdump.storage.source import Source, whole

PAGE = 4096


class BadPages(Source):
    """A file on a device with unreadable pages: any read that touches one fails."""

    bad: frozenset[int] = frozenset()

    def _pread(self, view: memoryview, position: int) -> int:
        last = position + max(len(view), 1) - 1
        if self.bad.intersection(range(position // PAGE, last // PAGE + 1)):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super()._pread(view, position)


def pages(count: int, extra: int = 0) -> bytes:
    return b"".join(bytes([65 + n]) * PAGE for n in range(count)) + b"z" * extra


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "some.file"


def test_reads_what_is_asked(path: Path) -> None:
    path.write_bytes(b"0123456789")
    with Source(path) as source:
        assert source.size == 10
        assert source.path == str(path)
        assert source.read(2, 3) == b"234"
        assert source.whole() == b"0123456789"


def test_read_at_and_past_the_end_is_short(path: Path) -> None:
    path.write_bytes(b"0123456789")
    with Source(path) as source:
        assert source.read(8, 100) == b"89"
        assert source.read(10, 1) == b""
        assert source.read(1 << 62, 1 << 62) == b""
        assert not source.shrank


def test_read_into_leaves_the_rest_of_the_buffer(path: Path) -> None:
    path.write_bytes(b"0123")
    buffer = bytearray(b"........")
    with Source(path) as source:
        assert source.read_into(buffer, 1, 8) == 3
    assert buffer == b"123....."
    buffer.append(0)  # no view is left on it


def test_nothing_is_read_past_the_size_at_opening(path: Path) -> None:
    path.write_bytes(b"0123")
    with Source(path) as source:
        assert not source.is_growing()
        with path.open("ab") as other:
            other.write(b"4567")
        assert source.is_growing()
        assert source.read(0, 100) == b"0123"
        assert source.refresh() == 8
        assert source.read(0, 100) == b"01234567"


def test_shrinking_is_noticed(path: Path) -> None:
    path.write_bytes(b"01234567")
    with Source(path) as source:
        os.truncate(path, 3)
        assert source.read(0, 8) == b"012"
        assert source.shrank


def test_unreadable_pages_are_zeros_with_their_ranges(path: Path) -> None:
    data = pages(8, extra=100)
    path.write_bytes(data)
    with BadPages(path) as source:
        source.bad = frozenset({2, 3, 8})
        found = source.read(10, len(data))
        wanted = bytearray(data)
        wanted[2 * PAGE : 4 * PAGE] = bytes(2 * PAGE)
        wanted[8 * PAGE :] = bytes(100)
        assert found == wanted[10:]
        assert source.unreadable == [(2 * PAGE, 4 * PAGE), (8 * PAGE, 8 * PAGE + 100)]
        source.read(0, len(data))
        assert source.unreadable == [(2 * PAGE, 4 * PAGE), (8 * PAGE, 8 * PAGE + 100)]
        assert not source.shrank


def test_unreadable_ranges_join_in_any_order(path: Path) -> None:
    path.write_bytes(pages(8))
    with BadPages(path) as source:
        source.bad = frozenset(range(8))
        for page in (5, 1, 3, 2, 4):
            source.read(page * PAGE, PAGE)
        assert source.unreadable == [(PAGE, 6 * PAGE)]
        source.read(0, PAGE)
        assert source.unreadable == [(0, 6 * PAGE)]


def test_unreadable_piece_of_a_page(path: Path) -> None:
    path.write_bytes(pages(2))
    with BadPages(path) as source:
        source.bad = frozenset({0})
        assert source.read(4000, 200) == bytes(96) + b"B" * 104
        assert source.unreadable == [(4000, 4096)]


def test_other_errors_name_the_path(path: Path) -> None:
    path.write_bytes(b"0123")

    class Gone(Source):
        def _pread(self, view: memoryview, position: int) -> int:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    with Gone(path) as source, pytest.raises(PathError) as caught:
        source.read(0, 4)
    assert caught.value.path == str(path)
    assert caught.value.reason == os.strerror(errno.ESTALE)


def test_missing_file(path: Path) -> None:
    with pytest.raises(PathError, match="No such file") as caught:
        Source(path)
    assert caught.value.status == 1


def test_null_character_in_the_path() -> None:
    with pytest.raises(PathError, match="null"):
        Source("a\0b")


def test_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PathError, match="is a directory"):
        Source(tmp_path)


def test_fifo_is_refused_and_cannot_hang(path: Path) -> None:
    os.mkfifo(path)
    with pytest.raises(PathError, match="is a FIFO"):
        Source(path)


def test_device_is_refused() -> None:
    with pytest.raises(PathError, match="is a device"):
        Source(os.devnull)


def test_symbolic_link_is_followed(path: Path) -> None:
    path.write_bytes(b"0123")
    link = path.with_name("link")
    link.symlink_to(path)
    assert whole(link) == b"0123"


def test_access_time_flag_not_permitted(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flag = getattr(os, "O_NOATIME", 0)
    if not flag:
        pytest.skip("no O_NOATIME on this system")
    path.write_bytes(b"0123")
    real_open = os.open

    def only_the_owner(name: str, flags: int) -> int:
        if flags & flag:
            raise PermissionError(errno.EPERM, "not the owner")
        return real_open(name, flags)

    monkeypatch.setattr(os, "open", only_the_owner)
    assert whole(path) == b"0123"


def test_small_file_over_its_limit(path: Path) -> None:
    path.write_bytes(b"0123")
    assert whole(path, limit=4) == b"0123"
    with pytest.raises(PathError, match="4 bytes long"):
        whole(path, limit=3)


def test_advice_is_harmless(path: Path) -> None:
    path.write_bytes(b"0123")
    with Source(path) as source:
        source.advise_sequential()
        source.advise_done(0, 4)
        assert source.read(0, 4) == b"0123"


def test_closed_twice(path: Path) -> None:
    path.write_bytes(b"0123")
    source = Source(path)
    source.close()
    source.close()
