"""A broker that starts while `reindex` writes: a second process takes the lock between two calls.

What is in work when the lock is taken may still be put in place; nothing else is written then.
"""

import fcntl
import multiprocessing
import os
import stat
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import builders
import pytest
from reindexing import items_of

from kdump import writing
from kdump.engine.reindex import replace
from kdump.engine.reindex.run import kinds_of
from kdump.errors import PathError, RefusedError
from kdump.findings.rows import Row
from kdump.storage import lock

STEMS = "00000000000000000000", "00000000000000000010"
CHECKPOINTS = "replication-offset-checkpoint", "recovery-point-offset-checkpoint"
FORK = multiprocessing.get_context("fork")
#: Calls that change a directory, a name or what a file holds.
CHANGES = frozenset(("open", "write", "link", "rename", "unlink", "fchmod", "fchown", "utime"))


def broker(path: Path, asked: Connection) -> None:
    """Take the lock of a data directory, or let it go, when told to."""
    with path.open("rb+") as file:
        while (word := asked.recv()) != "end":
            fcntl.lockf(file, fcntl.LOCK_EX if word == "start" else fcntl.LOCK_UN)
            asked.send("done")


@pytest.fixture
def starts(tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """Give what starts a broker on `tmp_path/data`, and stops it."""
    (tmp_path / "data").mkdir()
    path = tmp_path / "data" / ".lock"
    path.touch()
    here, there = FORK.Pipe()
    child = FORK.Process(target=broker, args=(path, there))
    child.start()

    def say(word: str) -> None:
        here.send(word)
        assert here.recv() == "done"

    yield say
    here.send("end")
    child.join()


class BrokerStartsAt:
    """Stands in for `os` where files are written: before the Nth call a broker starts."""

    def __init__(self, at: int, start: Callable[[], None]) -> None:
        self._at, self._start = at, start
        self.calls: list[str] = []
        self.behind: list[str] = []  # the names put in place once it runs

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)

        def counted(*arguments: Any, **named: Any) -> Any:
            if len(self.calls) == self._at:
                self._start()
            self.calls.append(name)
            if len(self.calls) > self._at and name == "rename":
                self.behind.append(arguments[1])
            if len(self.calls) > self._at and name == "unlink":
                self.behind.append("-" + arguments[0])
            return real(*arguments, **named)

        return counted


def partition(data: Path) -> Path:
    """Make damaged indexes and checkpoints, and what a killed run left."""
    path = data / "orders-0"
    path.mkdir(exist_ok=True)
    for stem in STEMS:
        batches = (
            builders.batch([builders.record(0, 0)], base_offset=int(stem) + n) for n in range(10)
        )
        (path / f"{stem}.log").write_bytes(b"".join(batches))
        for extension in ("index", "timeindex"):
            (path / f"{stem}.{extension}").write_bytes(b"\xff" * 24)
        (path / f"{stem}.index.kdump-tmp").write_bytes(b"half")
    for name in CHECKPOINTS:
        (data / name).write_text("0\n2\norders 0 7\njunk")
        (data / f"{name}.kdump-tmp").write_bytes(b"half")
    return path


def run(data: Path, **options: Any) -> list[Any]:
    only = kinds_of("index,timeindex,checkpoints")
    return items_of(data, write=True, only=only, every=True, **options)


@pytest.mark.parametrize("undo", [False, True], ids=["write", "undo"])
def test_no_file_is_started_while_a_broker_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, starts: Callable[[str], None], undo: bool
) -> None:
    data = tmp_path / "data"
    at, refusals, longest = 0, 0, 0
    while True:
        path = partition(data)
        if undo:
            run(data)
        shim = BrokerStartsAt(at, lambda: starts("start"))
        with monkeypatch.context() as patch:
            patch.setattr(replace, "_os", shim)
            patch.setattr(writing, "_os", shim)
            items = run(data, undo=undo)
        started = at < len(shim.calls)
        if started:
            starts("stop")
        in_place = [name for name in shim.behind if name[0] != "-" and ".bak-" not in name]
        gone = [name for name in shim.behind if name.endswith(".kdump-tmp")]
        assert len(in_place) <= 1, (at, shim.behind)
        assert len(gone) <= len(STEMS), (at, shim.behind)  # the tidying of one directory
        written = [item for item in items if isinstance(item, Row)
                   and item.fields["action"] in ("rebuilt", "created", "restored")]  # fmt: skip
        refused = [item for item in items if isinstance(item, RefusedError)]
        refusals += bool(refused)
        assert len(written) == 6 or refused, at
        assert len(written) <= 6
        for file in [*path.glob("*"), *data.glob("*checkpoint*")]:
            file.unlink()
        if not started:
            break
        at += 1
        longest = max(longest, at)
    assert refusals > 20


def test_no_cleanup_while_a_broker_runs(tmp_path: Path, starts: Callable[[str], None]) -> None:
    """A file under our temporary name may be of a kdump that works beside it; it is left."""
    path = partition(tmp_path / "data")
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    starts("start")
    items = run(tmp_path / "data")
    assert items
    assert all(isinstance(item, RefusedError) for item in items), items
    starts("stop")
    assert before == {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    run(tmp_path / "data")
    assert not [*path.glob("*.kdump-tmp"), *path.parent.glob("*.kdump-tmp")]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_unknown_lock_state_forbids_writing(tmp_path: Path) -> None:
    """An unprivileged user who may write, but may not look at the broker's lock."""
    data = tmp_path / "data"
    data.mkdir()
    path = partition(data)
    (data / ".lock").touch(0o600)
    for file in (data, path, *path.iterdir(), *data.glob("*checkpoint*")):
        os.chown(file, 65534, 65534)
    for parent in (tmp_path, *tmp_path.parents):
        if not parent.stat().st_mode & stat.S_IXOTH and parent.is_relative_to(gettempdir()):
            parent.chmod(parent.stat().st_mode | 0o711)
    here, there = FORK.Pipe()

    def as_nobody() -> None:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        there.send((lock.is_held(str(data)), [(type(item), str(item)) for item in run(data)]))

    before = {file: file.read_bytes() for file in data.rglob("*") if file.is_file()}
    child = FORK.Process(target=as_nobody)
    child.start()
    held, items = here.recv()
    child.join()
    assert held is None
    assert {kind for kind, _ in items} == {RefusedError}
    assert all("cannot find out" in text for _, text in items)
    assert before == {file: file.read_bytes() for file in data.rglob("*") if file.is_file()}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_files_of_another_user_are_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    path = partition(data)
    for parent in (tmp_path, *tmp_path.parents):
        if not parent.stat().st_mode & stat.S_IXOTH and parent.is_relative_to(gettempdir()):
            parent.chmod(parent.stat().st_mode | 0o711)
    path.chmod(0o777)
    data.chmod(0o777)
    for file in [*path.glob("*.kdump-tmp"), *data.glob("*.kdump-tmp")]:
        file.unlink()
    here, there = FORK.Pipe()

    def as_nobody() -> None:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        there.send([(type(item), str(item)) for item in run(data)])

    before = {file: file.read_bytes() for file in data.rglob("*") if file.is_file()}
    child = FORK.Process(target=as_nobody)
    child.start()
    items = here.recv()
    child.join()
    assert {kind for kind, _ in items} <= {RefusedError, PathError}
    assert any("belongs to user 0" in text for _, text in items)
    assert before == {file: file.read_bytes() for file in data.rglob("*") if file.is_file()}
