"""Whether a broker holds a directory's lock."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from holding import hold_lock

from kdump.storage import lock

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="locks are asked for on Linux")


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Path]:
    """Give a directory whose lock another process holds, as a broker does."""
    with hold_lock(tmp_path):
        yield tmp_path


def test_held_lock_is_found(held: Path) -> None:
    assert lock.is_held(str(held)) is True


def test_check_neither_locks_nor_writes(held: Path) -> None:
    before = (held / ".lock").stat()
    lock.is_held(str(held))
    after = (held / ".lock").stat()
    assert (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size)
    assert lock.is_held(str(held)) is True


def test_stale_lock_file_is_not_a_lock(tmp_path: Path) -> None:
    assert lock.is_held(str(tmp_path)) is False
    (tmp_path / ".lock").touch()
    assert lock.is_held(str(tmp_path)) is False


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open everything")
def test_unreadable_lock_file_is_unknown(tmp_path: Path) -> None:
    (tmp_path / ".lock").touch(mode=0)
    assert lock.is_held(str(tmp_path)) is None


def test_lock_of_the_data_directory_is_found(held: Path) -> None:
    assert lock.is_held_around(str(held / "orders-0")) is True
    assert lock.is_held_around(str(held)) is True  # of the metadata log, by itself
    assert lock.is_held_around(str(held / "one" / "orders-0")) is False


def test_no_lock_in_a_store() -> None:
    assert lock.is_held("s3://bucket/data") is False
    assert lock.is_held_around("s3://bucket/data/orders-0") is False


def test_missing_directory_has_no_lock(tmp_path: Path) -> None:
    assert lock.is_held(str(tmp_path / "gone")) is False


def test_unsupported_lock_check_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".lock").symlink_to(".lock")
    assert lock.is_held(str(tmp_path)) is None
    assert lock.is_held_around(str(tmp_path / "orders-0")) is None
    monkeypatch.setattr(sys, "platform", "darwin")
    assert lock.is_held(str(tmp_path)) is None


def test_file_system_without_locks_is_supported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    def refused(*_: object) -> bytes:
        raise OSError

    (tmp_path / ".lock").touch()
    closed: list[int] = []
    close = os.close
    monkeypatch.setattr(os, "close", lambda fd: (closed.append(fd), close(fd)))
    assert lock.is_held(str(tmp_path)) is False
    monkeypatch.setattr(fcntl, "fcntl", refused)
    assert lock.is_held(str(tmp_path)) is None
    assert len(closed) == 2
