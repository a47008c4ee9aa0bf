"""A new file while it is being written; a killed run is in engine/reindex/test_replace.py."""

import errno
import os
import signal
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


class Failing:
    """Stands in for `os` in `writing`: one call fails, with one error."""

    def __init__(self, call: str, error: int) -> None:
        self._call, self._error = call, error

    def __getattr__(self, name: str) -> Any:
        if name != self._call:
            return getattr(os, name)

        def fail(*_: Any, **__: Any) -> None:
            raise OSError(self._error, os.strerror(self._error))

        return fail


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


def test_unfinished_file_is_private(directory: int, tmp_path: Path) -> None:
    """Whatever the umask: whose it becomes is said once it is like the old file."""
    before = os.umask(0)
    try:
        with writing.NewFile(directory, "new") as new:
            new.write(b"secret")
            assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600
    finally:
        os.umask(before)
    assert not (tmp_path / "new").exists()


def test_dropped_files_are_closed(directory: int) -> None:
    new = writing.NewFile(directory, "new")
    fd = new.fd
    new.drop()
    assert new.fd == -1  # the number may be another file's by now
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_unreadable_file_has_its_mode(
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
def test_unlistable_directory_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_short_write_is_continued(
    directory: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is nearly full, a signal: the system may take less than it is given."""

    class Short:
        def __getattr__(self, name: str) -> Any:
            return getattr(os, name)

        def write(self, fd: int, data: memoryview) -> int:
            return os.write(fd, data[: max(1, len(data) // 2)])

    content = os.urandom(3_000_000)
    monkeypatch.setattr(writing, "_os", Short())
    with writing.NewFile(directory, "new") as new:
        new.write(content)
        assert (tmp_path / "new").read_bytes() == content


@pytest.mark.parametrize("target", ["there", "nowhere"])
def test_new_file_belongs_to_the_user(directory: int, tmp_path: Path, target: str) -> None:
    (tmp_path / "there").write_bytes(b"mine")
    (tmp_path / "new").symlink_to(tmp_path / target)
    with pytest.raises(FileExistsError):
        writing.NewFile(directory, "new")
    assert (tmp_path / "there").read_bytes() == b"mine"
    assert not (tmp_path / "nowhere").exists()


def test_link_target_does_not_decide_the_attributes(directory: int, tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"")
    (tmp_path / "link").symlink_to("other")
    with writing.NewFile(directory, "new") as new, pytest.raises(OSError, match="symbolic links"):
        new.be_like("link", timed=True, owned=True)


def test_pipe_in_place_of_a_file_does_not_block(directory: int, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "pipe").chmod(0o620)

    def too_long(*_: object) -> None:
        raise AssertionError("waits for somebody to open the pipe")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.setitimer(signal.ITIMER_REAL, 5)
    try:
        with writing.NewFile(directory, "new") as new:
            new.be_like("pipe", timed=False, owned=False)
            assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o620
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_failure_to_keep_the_owner_is_reported(
    directory: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").write_bytes(b"")
    (tmp_path / "other").chmod(0o604)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)  # every file is another's
    monkeypatch.setattr(writing, "_os", Failing("fchown", errno.EPERM))
    with writing.NewFile(directory, "new") as new:
        with pytest.raises(PermissionError):
            new.be_like("other", timed=False, owned=True)
        new.be_like("other", timed=False, owned=False)
        assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o604


@pytest.mark.parametrize(
    ("attribute", "error", "fails"),
    [
        ("user.kdump", errno.EPERM, True),
        ("system.posix_acl_access", errno.ENOSPC, True),
        ("security.selinux", errno.EPERM, False),
        ("user.kdump", errno.ENOTSUP, False),
    ],
)
def test_failure_to_keep_an_attribute_is_reported(
    directory: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    attribute: str,
    error: int,
    fails: bool,
) -> None:
    """One that somebody set, against a label that the system gives and takes."""

    class Attributes(Failing):
        def listxattr(self, fd: int) -> list[str]:
            return [attribute]

        def getxattr(self, fd: int, name: str) -> bytes:
            return b"kept"

    (tmp_path / "other").write_bytes(b"")
    monkeypatch.setattr(writing, "_os", Attributes("setxattr", error))
    with writing.NewFile(directory, "new") as new:
        if fails:
            with pytest.raises(OSError, match=os.strerror(error)):
                new.be_like("other", timed=False, owned=True)
        else:
            new.be_like("other", timed=False, owned=True)


def test_dropped_files_are_forgotten(directory: int, tmp_path: Path) -> None:
    """A file that another makes under the same name is not ours to remove when the run ends."""
    new = writing.NewFile(directory, "new")
    new.drop()
    (tmp_path / "new").write_bytes(b"another's")
    new.drop()
    writing.drop_unfinished()
    assert (tmp_path / "new").read_bytes() == b"another's"


@pytest.mark.parametrize(
    ("error", "fails"), [(errno.EIO, True), (errno.ENOSPC, True), (errno.EINVAL, False)]
)
def test_unflushable_directory_is_survived(
    directory: int, monkeypatch: pytest.MonkeyPatch, error: int, fails: bool
) -> None:
    """A disk that fails is an error; a file system that knows no such flush is none."""
    monkeypatch.setattr(writing, "_os", Failing("fsync", error))
    if fails:
        with pytest.raises(OSError, match=os.strerror(error)):
            writing.flush_directory(directory)
    else:
        writing.flush_directory(directory)


def test_unfinished_files_are_removed(directory: int, tmp_path: Path) -> None:
    begun = [writing.NewFile(directory, name) for name in ("one", "two")]
    done = writing.NewFile(directory, "three")
    done.seal()
    done.rename("done")
    writing.drop_unfinished()
    assert [entry.name for entry in tmp_path.iterdir()] == ["done"]
    assert [new.fd for new in begun] == [-1, -1]
