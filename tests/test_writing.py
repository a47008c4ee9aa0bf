"""A new file while it is being written; what comes of a killed run is in engine/test_replace.py."""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kdump import writing


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[int]:
    fd = writing.open_directory(str(tmp_path))
    yield fd
    os.close(fd)


class Forbidding:
    """Stands in for `os` in `writing`: some files may not be opened."""

    def __init__(self, forbidden: Callable[[str, int], bool]) -> None:
        self._forbidden = forbidden

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: str, flags: int, *more: Any, **named: Any) -> int:
        if self._forbidden(path, flags):
            raise PermissionError(errno.EACCES, "may not be read")
        return os.open(path, flags, *more, **named)


def test_nobody_else_may_read_what_is_not_done(directory: int, tmp_path: Path) -> None:
    """Whatever the umask: whose it becomes is said once it is like the old file."""
    before = os.umask(0)
    try:
        with writing.NewFile(directory, "new") as new:
            new.write(b"secret")
            assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600
    finally:
        os.umask(before)
    assert not (tmp_path / "new").exists()


def test_what_is_dropped_is_closed(directory: int) -> None:
    new = writing.NewFile(directory, "new")
    fd = new.fd
    new.drop()
    assert new.fd == -1  # the number may be another file's by now
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_a_file_that_may_not_be_read_gives_its_mode(
    directory: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it need not be given to the same owner; else that is an error."""
    (tmp_path / "other").write_bytes(b"")
    (tmp_path / "other").chmod(0o640)
    monkeypatch.setattr(writing, "_os", Forbidding(lambda path, flags: path == "other"))
    with writing.NewFile(directory, "new") as new:
        new.be_like("other", timed=False, owned=False)
        assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
        with pytest.raises(PermissionError):
            new.be_like("other", timed=False, owned=True)


@pytest.mark.skipif(not hasattr(os, "O_PATH"), reason="the system opens no such directory")
def test_a_directory_that_may_not_be_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot be flushed, either, which is no error."""
    unlisted = Forbidding(
        lambda path, flags: bool(flags & os.O_DIRECTORY and not flags & os.O_PATH)
    )
    monkeypatch.setattr(writing, "_os", unlisted)
    fd = writing.open_directory(str(tmp_path))
    with writing.NewFile(fd, "new") as new:
        new.write(b"content")
        new.seal()
        new.rename("done")
    writing.flush_directory(fd)
    os.close(fd)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"done": b"content"}
