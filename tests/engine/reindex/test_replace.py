"""The only writer: whatever happens in it, a directory is as before or as after.

A child process writes through `replace`, whose calls to the operating system go through a shim that
counts them, and kills the process before or after the Nth, or lets the Nth fail.
"""

import errno
import fcntl
import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kdump import writing
from kdump.engine.reindex import replace
from kdump.errors import KdumpError, PathError, RefusedError

UTC = "20261121T050429.123456Z"
LATER = "20261122T000000.000000Z"
EARLIER = "20261120T000000.000000Z"
NAME = "00000000000000000000.index"
LOG = "00000000000000000000.log"
OLD, NEW = b"old " * 500, b"new!" * 300


class Shim:
    """Stands in for `os` in `replace`: counts calls, and at one of them does what it is told."""

    def __init__(self, at: int = -1, how: str = "") -> None:
        self.at, self.how = at, how
        self.is_killing = how in ("before", "after")
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        function = getattr(os, name)

        def counted(*arguments: Any, **named: Any) -> Any:
            number = len(self.calls)
            self.calls.append(name)
            if number == self.at and self.how == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            if number == self.at and self.how.startswith("E"):
                if name == "close":  # Linux closes a file also where it says that it failed
                    os.close(*arguments)
                raise OSError(getattr(errno, self.how), os.strerror(getattr(errno, self.how)))
            result = function(*arguments, **named)
            if number == self.at and self.how == "after":
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return counted


def fresh(parent: Path, name: str = "") -> Path:
    """Make a partition directory: a log, and an index with a time and a mode of its own."""
    path = parent / name / "orders-0"
    path.mkdir(parents=True)
    (path / LOG).write_bytes(b"log")
    (path / NAME).write_bytes(OLD)
    (path / NAME).chmod(0o640)
    os.utime(path / NAME, ns=(1_600_000_000_123_456_789, 1_600_000_001_987_654_321))
    return path


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return fresh(tmp_path)


def write(path: Path, utc: str = UTC, *, links: bool = True) -> None:
    with replace.open_directory(str(path)) as opened:
        opened.tidy()
        if not links:
            opened._keep = _without_links(opened)  # type: ignore[method-assign]
        opened.replace(NAME, NEW, utc, LOG)


def _without_links(opened: replace.Directory) -> Callable[[str, str], str]:
    keep = replace.Directory._keep
    shim = replace._os

    class NoLinks:
        def __getattr__(self, name: str) -> Any:
            if name == "link":

                def link(*arguments: Any, **named: Any) -> None:
                    raise PermissionError(1, "no links here")

                return link
            return getattr(shim, name)

    def wrapped(name: str, backup: str) -> str:
        replace._os = NoLinks()  # type: ignore[assignment]
        try:
            return keep(opened, name, backup)
        finally:
            replace._os = shim

    return wrapped


def in_child(work: Callable[[], None], shim: Shim) -> tuple[str, list[str]]:
    """Run, in a process of its own where it is killed; return how it ended, and its calls."""
    if not shim.is_killing:
        return _outcome(work, shim), shim.calls
    process = os.fork()
    if not process:
        try:
            _outcome(work, shim)
        finally:
            os._exit(0)
    _, status = os.waitpid(process, 0)
    killed = os.waitstatus_to_exitcode(status) == -signal.SIGKILL
    return ("killed" if killed else "done"), []


def _outcome(work: Callable[[], None], shim: Shim) -> str:
    sound = replace._os, writing._os
    replace._os = writing._os = shim  # type: ignore[assignment]
    try:
        work()
    except KdumpError as error:
        return type(error).__name__
    finally:
        replace._os, writing._os = sound
    return "done"


def state(path: Path) -> str:
    """Say what a directory is: before, or after with the backup there; anything else fails."""
    names = {entry.name for entry in path.iterdir()}
    backup = f"{NAME}.bak-{UTC}"
    now = (path / NAME).read_bytes()
    assert (path / LOG).read_bytes() == b"log"
    assert names <= {LOG, NAME, backup, f"{NAME}.kdump-tmp", f"{backup}.kdump-tmp"}
    if now == OLD:
        if backup in names:
            assert (path / backup).read_bytes() == OLD
        return "before"
    assert now == NEW
    assert (path / backup).read_bytes() == OLD
    assert (path / NAME).stat().st_mtime_ns == (path / backup).stat().st_mtime_ns
    assert stat.S_IMODE((path / NAME).stat().st_mode) == 0o640
    return "after"


def again(path: Path) -> None:
    """A next run finds its way from whatever is there, and can be undone."""
    write(path, LATER)
    assert (path / NAME).read_bytes() == NEW
    assert not list(path.glob("*.kdump-tmp"))


@pytest.mark.parametrize(
    ("how", "links"),
    [
        *((how, True) for how in ("before", "after", "ENOSPC", "EIO", "EPERM")),
        *((how, False) for how in ("after", "EPERM")),
    ],
)
def test_replacement_survives_a_failure_of_each_call(
    directory: Path, tmp_path: Path, how: str, links: bool
) -> None:
    outcome, calls = in_child(lambda: write(directory, links=links), Shim())
    assert outcome == "done"
    assert {"open", "write", "fsync", "fchmod", "utime", "rename"} <= set(calls)
    assert len(calls) >= 19
    assert state(directory) == "after"
    seen = set()
    for at in range(len(calls)):
        path = fresh(tmp_path, str(at))
        outcome, made = in_child(lambda path=path: write(path, links=links), Shim(at, how))  # type: ignore[misc]
        found = state(path)
        if how in ("before", "after"):
            assert outcome == "killed", (at, calls[at])
        elif outcome != "done":
            assert found == "before" or made[at] in ("fsync", "close"), (at, calls[at])
            if found == "before" and made[at] != "unlink":
                assert {entry.name for entry in path.iterdir()} == {LOG, NAME}, (at, calls[at])
        seen.add(found)
        again(path)
    assert "before" in seen
    assert "after" in seen


def test_creation_survives_a_failure_of_each_call(tmp_path: Path) -> None:
    def missing(name: str) -> Path:
        path = fresh(tmp_path, name)
        (path / NAME).unlink()
        return path

    path = missing("all")
    outcome, calls = in_child(lambda: write(path), Shim())
    assert outcome == "done"
    for how in ("before", "after", "EIO"):
        for at in range(len(calls)):
            path = missing(f"{how}-{at}")
            in_child(lambda path=path: write(path), Shim(at, how))  # type: ignore[misc]
            names = {entry.name for entry in path.iterdir()} - {f"{NAME}.kdump-tmp"}
            assert names in ({LOG}, {LOG, NAME}), (how, at, calls[at])
            if NAME in names:
                assert (path / NAME).read_bytes() == NEW
            again(path)


@pytest.mark.parametrize("how", ["before", "after", "EIO", "EPERM"])
def test_undo_survives_a_failure_of_each_call(tmp_path: Path, how: str) -> None:
    def undo(path: Path) -> None:
        with replace.open_directory(str(path)) as opened:
            for backup in opened.backups():
                opened.restore(backup)

    path = fresh(tmp_path, "all")
    write(path)
    _, calls = in_child(lambda: undo(path), Shim())
    assert (path / NAME).read_bytes() == OLD
    assert {entry.name for entry in path.iterdir()} == {LOG, NAME}
    for at in range(len(calls)):
        path = fresh(tmp_path, str(at))
        write(path)
        in_child(lambda path=path: undo(path), Shim(at, how))  # type: ignore[misc]
        now = (path / NAME).read_bytes()
        assert now in (OLD, NEW)
        assert (now == OLD) != (path / f"{NAME}.bak-{UTC}").exists()
        undo(path)
        assert (path / NAME).read_bytes() == OLD


def test_new_file_keeps_owner_mode_times_and_attributes(directory: Path) -> None:
    attributes = True
    try:
        os.setxattr(directory / NAME, "user.kdump", b"kept")
    except OSError:
        attributes = False
    if os.geteuid() == 0:
        os.chown(directory / NAME, 12345, 23456)
    (directory / NAME).chmod(0o604)
    before = (directory / NAME).stat()
    write(directory)
    after = (directory / NAME).stat()
    for member in ("st_uid", "st_gid", "st_mode", "st_mtime_ns", "st_atime_ns"):
        assert getattr(after, member) == getattr(before, member), member
    assert after.st_ino != before.st_ino
    assert (directory / f"{NAME}.bak-{UTC}").stat().st_ino == before.st_ino
    if attributes:
        assert os.getxattr(directory / NAME, "user.kdump") == b"kept"


def test_created_file_has_the_owner_of_the_log(directory: Path) -> None:
    (directory / NAME).unlink()
    (directory / LOG).chmod(0o600)
    if os.geteuid() == 0:
        os.chown(directory / LOG, 12345, 23456)
    write(directory)
    log, made = (directory / LOG).stat(), (directory / NAME).stat()
    assert (made.st_uid, made.st_gid, made.st_mode) == (log.st_uid, log.st_gid, log.st_mode)
    assert not list(directory.glob("*.bak-*"))


def test_leftovers_of_a_killed_run_are_removed(directory: Path) -> None:
    (directory / f"{NAME}.kdump-tmp").write_bytes(b"half")
    os.link(directory / NAME, directory / f"{NAME}.bak-{EARLIER}")
    (directory / f"{LOG}.bak-{EARLIER}").write_bytes(b"another's")
    with replace.open_directory(str(directory)) as opened:
        opened.tidy()
    assert {entry.name for entry in directory.iterdir()} == {LOG, NAME, f"{LOG}.bak-{EARLIER}"}


def test_newest_backup_is_first(directory: Path) -> None:
    for utc in (EARLIER, UTC):
        (directory / f"{NAME}.bak-{utc}").write_bytes(b"")
    with replace.open_directory(str(directory)) as opened:
        backups = opened.backups()
    assert [(backup.original, backup.utc) for backup in backups] == [(NAME, UTC), (NAME, EARLIER)]


def test_changed_file_is_not_undone(directory: Path) -> None:
    write(directory)
    (directory / NAME).write_bytes(b"what a broker wrote since")
    with (
        replace.open_directory(str(directory)) as opened,
        pytest.raises(RefusedError, match="was changed"),
    ):
        opened.restore(opened.backups()[0])
    assert (directory / NAME).read_bytes() == b"what a broker wrote since"
    assert (directory / f"{NAME}.bak-{UTC}").read_bytes() == OLD


def test_links_are_not_written_through(directory: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"mine")
    (directory / f"{NAME}.kdump-tmp").symlink_to(outside)
    with replace.open_directory(str(directory)) as opened, pytest.raises(PathError):
        opened.replace(NAME, NEW, UTC, LOG)
    assert outside.read_bytes() == b"mine"
    assert (directory / NAME).read_bytes() == OLD


def test_copies_are_not_made_through_links(directory: Path, tmp_path: Path) -> None:
    """Also where the file has become a link since it was looked at."""
    outside = tmp_path / "outside"
    outside.write_bytes(b"mine")
    (directory / "link").symlink_to(outside)
    with replace.open_directory(str(directory)) as opened, pytest.raises(OSError, match="symbolic"):
        opened._content("link")


def test_concurrent_replacements_are_safe(directory: Path) -> None:
    other = os.open(directory, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    with pytest.raises(RefusedError, match="another kdump"), replace.open_directory(str(directory)):
        pass
    os.close(other)
    write(directory)


def test_file_system_without_locks_is_supported(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(fd: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    write(directory)
    assert (directory / NAME).read_bytes() == NEW


def test_create_keeps_existing_files(directory: Path) -> None:
    with replace.open_directory(str(directory)) as opened:
        with pytest.raises(RefusedError, match="already exists") as refused:
            opened.create(NAME, NEW, str(directory / LOG))
        assert refused.value.path == str(directory / NAME)
        opened.create("00000000000000000007.index", NEW, str(directory / LOG))
    assert (directory / NAME).read_bytes() == OLD
    assert (directory / "00000000000000000007.index").read_bytes() == NEW


def test_missing_backup_is_not_restored(directory: Path) -> None:
    write(directory)
    with replace.open_directory(str(directory)) as opened:
        (backup,) = opened.backups()
        (directory / backup.name).unlink()
        with pytest.raises(RefusedError, match=rf"\.bak-{UTC} no longer exists") as refused:
            opened.restore(backup)
    assert refused.value.path == str(directory / NAME)
    assert (directory / NAME).read_bytes() == NEW


def failing(call: str, error: int) -> Any:
    """Stand in for `os` in `replace`: one call fails, with one error."""

    class Failing:
        def __getattr__(self, name: str) -> Any:
            return fail if name == call else getattr(os, name)

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(error, os.strerror(error))

    return Failing()


@pytest.mark.parametrize("error", ["EPERM", "ENOSYS", "ENOTSUP", "EOPNOTSUPP", "EMLINK", "EXDEV"])
def test_copy_without_hard_links(
    directory: Path, monkeypatch: pytest.MonkeyPatch, error: str
) -> None:
    monkeypatch.setattr(replace, "_os", failing("link", getattr(errno, error)))
    old = os.urandom((1 << 20) + 17)
    (directory / NAME).write_bytes(old)
    write(directory)
    assert (directory / f"{NAME}.bak-{UTC}").read_bytes() == old
    assert (directory / NAME).read_bytes() == NEW


@pytest.mark.parametrize(("error", "kind"), [("EIO", PathError), ("ENOSPC", RefusedError)])
def test_failing_link_is_an_error(
    directory: Path, monkeypatch: pytest.MonkeyPatch, error: str, kind: type[KdumpError]
) -> None:
    """Is no file system without links: nothing is copied."""
    monkeypatch.setattr(replace, "_os", failing("link", getattr(errno, error)))
    with pytest.raises(kind) as raised:
        write(directory)
    assert getattr(raised.value, "path", None) == str(directory / NAME)
    assert {entry.name: entry.read_bytes() for entry in directory.iterdir()} == {
        NAME: OLD,
        LOG: b"log",
    }


def test_backup_of_a_concurrently_replaced_file_stays(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the rename fails, and the old file is there no more: it may be the last of its kind."""

    class Replaced:
        def __getattr__(self, name: str) -> Any:
            return getattr(os, name)

        def rename(self, *_: Any, **__: Any) -> None:
            (directory / "other").write_bytes(b"another's")
            (directory / "other").rename(directory / NAME)
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(writing, "_os", Replaced())
    with pytest.raises(PathError):
        write(directory)
    assert (directory / NAME).read_bytes() == b"another's"
    assert (directory / f"{NAME}.bak-{UTC}").read_bytes() == OLD


def test_only_the_second_name_is_removed(directory: Path) -> None:
    """Undoing what a run was killed in: the file was never replaced."""
    os.link(directory / NAME, directory / f"{NAME}.bak-{UTC}")
    with replace.open_directory(str(directory)) as opened:
        opened.restore(opened.backups()[0])
    assert {entry.name: entry.read_bytes() for entry in directory.iterdir()} == {
        NAME: OLD,
        LOG: b"log",
    }


def test_pipe_in_place_of_a_file_does_not_block(directory: Path) -> None:
    (directory / NAME).unlink()
    os.mkfifo(directory / NAME)
    outcome, _ = in_child(lambda: write(directory, links=False), Shim())
    assert outcome in ("done", "PathError", "Refused")


def test_file_is_created_even_if_the_owner_cannot_be_kept(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere than in a data directory that is no error; the file is as old as it is."""

    os.utime(directory / LOG, (1, 1))
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)  # every file is another's
    monkeypatch.setattr(writing, "_os", failing("fchown", errno.EPERM))
    other = directory / "00000000000000000007.index"
    with replace.open_directory(str(directory)) as opened:
        opened.create(other.name, NEW, str(directory / LOG))
        with pytest.raises(RefusedError, match="does not permit") as refused:
            opened.replace(NAME, NEW, UTC, LOG)
    assert refused.value.path == str(directory / NAME)
    assert other.stat().st_mtime > 1000
    assert (directory / NAME).read_bytes() == OLD
