import errno
import os
import socket
from pathlib import Path

import pytest

from kdump.errors import PathError
from kdump.storage.source import Source, read_whole

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


def test_reads_the_requested_range(path: Path) -> None:
    path.write_bytes(b"0123456789")
    with Source(path) as source:
        assert source.size == 10
        assert source.path == str(path)
        assert source.read(2, 3) == b"234"
        assert source.read_whole() == b"0123456789"


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


def test_reads_end_at_the_size_at_opening(path: Path) -> None:
    path.write_bytes(b"0123")
    with Source(path) as source:
        assert not source.is_growing()
        with path.open("ab") as other:
            other.write(b"4567")
        assert source.is_growing()
        assert source.read(0, 100) == b"0123"
        assert source.refresh() == 8
        assert source.read(0, 100) == b"01234567"


def test_shrinking_file_is_noticed(path: Path) -> None:
    path.write_bytes(b"01234567")
    with Source(path) as source:
        os.truncate(path, 3)
        assert source.read(0, 8) == b"012"
        assert source.shrank


def test_size_changes_are_noticed(path: Path) -> None:
    path.write_bytes(b"0123")
    with Source(path) as source:
        assert source.refresh() == 4
        assert (source.grew, source.shrank) == (False, False)
        path.write_bytes(b"012345")
        assert source.refresh() == 6
        assert (source.grew, source.shrank) == (True, False)
        path.write_bytes(b"0")
        assert source.refresh() == source.size == 1
        assert (source.grew, source.shrank) == (True, True)
        source.refresh()
        assert (source.grew, source.shrank) == (True, True)
        assert not source.is_growing()


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


def test_unreadable_bytes_are_zeros_in_a_reused_buffer(path: Path) -> None:
    path.write_bytes(pages(3))
    buffer = bytearray(b"x" * 4 * PAGE)
    with BadPages(path) as source:
        source.bad = frozenset({1})
        assert source.read_into(buffer, 0, 3 * PAGE) == 3 * PAGE
    assert buffer == b"A" * PAGE + bytes(PAGE) + b"C" * PAGE + b"x" * PAGE


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


def test_separate_unreadable_ranges_stay_separate(path: Path) -> None:
    path.write_bytes(pages(9))
    with BadPages(path) as source:
        source.bad = frozenset(range(9))
        for page in (7, 1, 4):
            source.read(page * PAGE, PAGE)
        parts = [(page * PAGE, (page + 1) * PAGE) for page in (1, 4, 7)]
        assert source.unreadable == parts
        source.read(4 * PAGE + 10, 20)
        assert source.unreadable == parts
        source.read(3 * PAGE, PAGE)
        assert source.unreadable == [(PAGE, 2 * PAGE), (3 * PAGE, 5 * PAGE), (7 * PAGE, 8 * PAGE)]


def test_unreadable_page_before_an_early_end(path: Path) -> None:
    path.write_bytes(pages(4))
    with BadPages(path) as source:
        source.bad = frozenset({1})
        os.truncate(path, 2 * PAGE + 5)
        assert source.read(0, 4 * PAGE) == b"A" * PAGE + bytes(PAGE) + b"C" * 5
        assert source.shrank
        assert source.unreadable == [(PAGE, 2 * PAGE)]


def test_other_error_after_an_unreadable_page(path: Path) -> None:
    path.write_bytes(pages(4))

    class Worse(BadPages):
        def _pread(self, view: memoryview, position: int) -> int:
            if position >= 2 * PAGE:
                raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
            return super()._pread(view, position)

    with Worse(path) as source:
        source.bad = frozenset({1})
        with pytest.raises(PathError) as caught:
            source.read(0, 4 * PAGE)
    assert (caught.value.path, caught.value.reason) == (str(path), os.strerror(errno.ESTALE))


def test_short_reads_are_continued(path: Path) -> None:
    path.write_bytes(pages(3, extra=7))

    class Slow(Source):
        def _pread(self, view: memoryview, position: int) -> int:
            return super()._pread(view[:1000], position)

    with Slow(path) as source:
        assert source.read(3, 3 * PAGE) == pages(3, extra=7)[3 : 3 * PAGE + 3]


def test_other_errors_name_the_path(path: Path) -> None:
    path.write_bytes(b"0123")

    class Gone(Source):
        def _pread(self, view: memoryview, position: int) -> int:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    with Gone(path) as source, pytest.raises(PathError) as caught:
        source.read(0, 4)
    assert caught.value.path == str(path)
    assert caught.value.reason == os.strerror(errno.ESTALE)


def test_missing_file_is_an_error(path: Path) -> None:
    with pytest.raises(PathError, match="No such file") as caught:
        Source(path)
    assert (caught.value.status, caught.value.path) == (1, str(path))


def test_null_character_in_the_path() -> None:
    with pytest.raises(PathError, match="null") as caught:
        Source("a\0b")
    assert caught.value.path == "a\0b"


def test_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PathError, match="is a directory") as caught:
        Source(tmp_path)
    assert caught.value.path == str(tmp_path)


def test_fifo_is_refused_and_cannot_hang(path: Path) -> None:
    os.mkfifo(path)
    with pytest.raises(PathError, match="is a FIFO"):
        Source(path)


def test_socket_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's path must be short
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("some.sock")
        with pytest.raises(PathError, match="is a socket") as caught:
            Source("some.sock")
    assert caught.value.path == "some.sock"


def test_file_replaced_by_a_fifo_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looked at once more when it is open."""
    path.write_bytes(b"0123")
    before = path.stat()
    path.unlink()
    os.mkfifo(path)
    closed: list[int] = []
    close = os.close
    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", lambda _: before)
        patched.setattr(os, "close", lambda fd: (closed.append(fd), close(fd)))
        with pytest.raises(PathError, match="is a FIFO"):
            Source(path)
    assert len(closed) == 1


def test_device_is_refused() -> None:
    with pytest.raises(PathError, match="is a device"):
        Source(os.devnull)


def test_symbolic_link_is_followed(path: Path) -> None:
    path.write_bytes(b"0123")
    link = path.with_name("link")
    link.symlink_to(path)
    assert read_whole(link) == b"0123"


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
    assert read_whole(path) == b"0123"


def test_small_file_over_its_limit(path: Path) -> None:
    path.write_bytes(b"0123")
    assert read_whole(path, limit=4) == b"0123"
    with pytest.raises(PathError, match="4 bytes long") as caught:
        read_whole(path, limit=3)
    assert caught.value.path == str(path)


def test_read_advice_is_harmless(path: Path) -> None:
    path.write_bytes(b"0123")
    with Source(path) as source:
        source.advise_sequential()
        source.advise_done(0, 4)
        assert source.read(0, 4) == b"0123"


def test_source_may_be_closed_twice(path: Path) -> None:
    path.write_bytes(b"0123")
    source = Source(path)
    assert not source.is_closed
    source.close()
    assert source.is_closed
    source.close()
    with pytest.raises(PathError, match="Bad file descriptor"):
        source.status()


def test_zeros_are_found_up_to_a_position(path: Path) -> None:
    size = 3 << 18
    for other in (0, 5, 1023, 1024, 5000, (1 << 18) + 1024, size - 1):
        data = bytearray(size)
        data[other] = 1
        path.write_bytes(data)
        with Source(path) as source:
            assert source.only_zeros(other + 1, size)
            assert source.only_zeros(0, other)
            assert not source.only_zeros(0, other + 1)
            assert not source.only_zeros(other, size)
    with Source(path) as source:
        assert source.only_zeros(size, size)


def told(monkeypatch: pytest.MonkeyPatch, extents: list[tuple[int, int]]) -> None:
    """Let the file system say where data lies, as SEEK_DATA and SEEK_HOLE do."""

    def lseek(_: int, position: int, what: int) -> int:
        for start, end in extents:
            if what == os.SEEK_DATA and position < end:
                return max(start, position)
            if what == os.SEEK_HOLE and start <= position < end:
                return end
        if what == os.SEEK_HOLE:
            return position
        raise OSError(errno.ENXIO, "behind all data")

    monkeypatch.setattr(os, "lseek", lseek)


@pytest.mark.skipif(not hasattr(os, "SEEK_DATA"), reason="the system knows no holes")
def test_holes_are_not_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(bytes(100_000))
    told(monkeypatch, [(4096, 8192), (40_960, 45_056)])
    with Source(path) as source:
        found = [source.next_data(at) for at in (0, 4096, 5000, 8192, 45_055, 45_056, 99_999)]
        assert found == [4096, 4096, 5000, 40_960, 45_055, 100_000, 100_000]
        # An entry has its size, which is no zero, in its first twelve bytes.
        assert [source.next_entry(at) for at in (0, 4090, 5000, 8192, 50_000)] == [
            4085, 4090, 5000, 40_949, 99_989,
        ]  # fmt: skip
        assert source.data_end() == 45_056


@pytest.mark.skipif(not hasattr(os, "SEEK_DATA"), reason="the system knows no holes")
def test_data_end_is_found(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(bytes(1000))
    for extents, end in (
        ([], 0),
        ([(0, 1000)], 1000),
        ([(0, 500)], 500),
        ([(0, 4096)], 1000),
        ([(n, n + 1) for n in range(0, 126, 2)], 125),
        ([(n, n + 1) for n in range(0, 400, 2)], 1000),  # too many to look at
    ):
        told(monkeypatch, extents)
        with Source(path) as source:
            assert source.data_end() == end


@pytest.mark.skipif(not hasattr(os, "SEEK_DATA"), reason="the system knows no holes")
def test_file_system_without_holes_is_supported(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_bytes(bytes(1000))

    def refused(*_: int) -> int:
        raise OSError(errno.EINVAL, "no such thing")

    monkeypatch.setattr(os, "lseek", refused)
    with Source(path) as source:
        assert source.data_end() == 1000
        assert source.next_data(7) == 7
        assert source.next_entry(7) == 7


def test_slow_reads_are_predicted(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(b"0123")
    with Source(path) as source:
        for error, cached in ((BlockingIOError(), False), (OSError(errno.EOPNOTSUPP, ""), True)):

            def answer(*_: object, error: OSError = error) -> int:
                raise error

            monkeypatch.setattr(os, "RWF_NOWAIT", 8, raising=False)
            monkeypatch.setattr(os, "preadv", answer)
            assert source.is_cached(0) is cached
            monkeypatch.delattr(os, "RWF_NOWAIT")
            assert source.is_cached(0)
        monkeypatch.undo()
        assert source.is_cached(0)
