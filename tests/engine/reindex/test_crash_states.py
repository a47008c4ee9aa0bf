"""Whatever a crash leaves of the writer's work, within what POSIX promises, nothing is lost.

`support/crash_states.py` is the file system; here stand the promises, for each writer.
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from crash_states import Inode, crash_states, write_state

from kdump import writing
from kdump.engine.reindex import replace
from kdump.output import target
from kdump.output.target import OutputFile

UTC, LATER = "20261121T050429.123456Z", "20261122T000000.000000Z"
NAME, LOG = "00000000000000000000.index", "00000000000000000000.log"
OLD, NEW = b"old " * 500, b"new!" * 300
BACKUP = f"{NAME}.bak-{UTC}"
TIME_NS = 1_600_000_001_987_654_321
STRANGER = (12345, 23456) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
State = dict[str, Inode]
Work = Callable[[replace.Directory], object]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "orders-0"
    path.mkdir()
    for name, data, mode in ((LOG, b"log", 0o600), (NAME, OLD, 0o640)):
        (path / name).write_bytes(data)
        os.chown(path / name, *STRANGER)
        (path / name).chmod(mode)
        os.utime(path / name, ns=(TIME_NS, TIME_NS))
    return path


def done(path: Path, work: Work) -> None:
    with replace.open_directory(str(path)) as opened:
        opened.tidy()
        work(opened)


def states(
    path: Path, work: Work, monkeypatch: pytest.MonkeyPatch
) -> list[tuple[str, bool, State]]:
    found = crash_states(
        path, [replace, writing], lambda: done(path, work), monkeypatch.setattr
    )  # fmt: skip
    return [(call, ended, dict(state)) for call, ended, state in found]


def rebuilt(opened: replace.Directory) -> object:
    return opened.replace(NAME, NEW, UTC, LOG)


def is_as_it_was(inode: Inode) -> bool:
    """Whether a file belongs to whom the old one did, and is as old."""
    kept = stat.S_IMODE(inode.mode), inode.owner, inode.modified_ns
    return kept == (0o640, STRANGER, TIME_NS)


def converges(state: State, path: Path) -> None:
    """A next run makes the file new and leaves a whole backup, and nothing half done."""
    made = write_state(tuple(sorted(state.items())), path)
    done(made, lambda opened: opened.replace(NAME, NEW, LATER, LOG))
    assert (made / NAME).read_bytes() == NEW
    assert not [*made.glob("*.kdump-tmp")]
    backups = [backup.read_bytes() for backup in made.glob(f"{NAME}.bak-*")]
    assert OLD in backups


@pytest.mark.parametrize("links", [True, False], ids=["links", "copies"])
def test_replaced_file_survives_a_crash(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    with monkeypatch.context() as patch:
        if not links:
            patch.setattr(os, "link", no_links)
        found = states(directory, rebuilt, patch)
    outcomes = set()
    for call, ended, state in found:
        assert state[LOG].data == b"log", call
        now = state[NAME]
        assert now.data in (OLD, NEW), call
        assert is_as_it_was(now), call
        if BACKUP in state:
            assert state[BACKUP].data == OLD, call
            assert is_as_it_was(state[BACKUP]), call
        assert now.data == OLD or BACKUP in state, call
        assert not ended or now.data == NEW, "what was reported done may be undone by a crash"
        outcomes.add(now.data)
    assert outcomes == {OLD, NEW}
    distinct = {tuple(sorted(state.items())): state for _, _, state in found}
    for number, state in enumerate(distinct.values()):
        converges(state, tmp_path / f"again-{number}")


def no_links(*_: object, **__: object) -> None:
    raise PermissionError(1, "no links here")


def test_old_file_is_moved_after_the_new_one_is_complete(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for call, _, state in states(directory, rebuilt, monkeypatch):
        temporary = state.get(f"{NAME}.kdump-tmp")
        if BACKUP in state and temporary is not None:
            assert temporary.data == NEW, call
            assert is_as_it_was(temporary), call


def test_created_file_survives_a_crash(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = "00000000000000000007.index"
    found = states(directory, lambda opened: opened.create(other, NEW, LOG), monkeypatch)
    assert {other in state for _, _, state in found} == {False, True}
    for call, ended, state in found:
        assert (state[NAME].data, state[LOG].data) == (OLD, b"log"), call
        if other in state:
            assert state[other].data == NEW, call
            assert (stat.S_IMODE(state[other].mode), state[other].owner) == (0o600, STRANGER), call
        assert other in state or not ended


def test_replacing_a_missing_file_survives_a_crash(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (directory / NAME).unlink()
    for call, ended, state in states(directory, rebuilt, monkeypatch):
        assert set(state) <= {LOG, NAME, f"{NAME}.kdump-tmp"}, call
        if NAME in state:
            assert state[NAME].data == NEW, call
            assert (stat.S_IMODE(state[NAME].mode), state[NAME].owner) == (0o600, STRANGER), call
            assert state[NAME].modified_ns != TIME_NS, "a new file is as old as it is"
        assert NAME in state or not ended


def test_restored_file_survives_a_crash(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done(directory, rebuilt)
    found = states(
        directory, lambda opened: opened.restore(opened.backups()[0]), monkeypatch
    )  # fmt: skip
    for call, ended, state in found:
        assert state[NAME].data in (OLD, NEW), call
        assert is_as_it_was(state[NAME]), call
        if state[NAME].data == NEW:
            assert state[BACKUP].data == OLD, call
        assert not ended or (state[NAME].data == OLD and BACKUP not in state), call


def test_tidied_directory_survives_a_crash(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a run that was killed before its rename; another's file and a real backup stay."""
    os.link(directory / NAME, directory / BACKUP)
    (directory / f"{NAME}.kdump-tmp").write_bytes(b"half")
    (directory / f"{LOG}.bak-{UTC}").write_bytes(b"another's")
    found = states(directory, lambda opened: None, monkeypatch)
    for call, _, state in found:
        kept = {name: inode.data for name, inode in state.items() if name in (NAME, LOG)}
        assert kept == {NAME: OLD, LOG: b"log"}, call
        assert f"{LOG}.bak-{UTC}" in state, call
    assert {entry.name for entry in directory.iterdir()} == {NAME, LOG, f"{LOG}.bak-{UTC}"}


@pytest.mark.parametrize("there", [True, False], ids=["there", "new"])
def test_output_file_survives_a_crash(
    directory: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    """Results, the state of verify, the lines for a textfile collector."""
    folder = directory.with_name("results")
    folder.mkdir()
    (directory / NAME).rename(folder / "rows")
    if not there:
        (folder / "rows").unlink()

    def work() -> None:
        file = OutputFile(str(folder / "rows"))
        file.stream.write(NEW)
        file.keep()

    found = [*crash_states(folder, [writing], work, monkeypatch.setattr)]
    for call, ended, pairs in found:
        state = dict(pairs)
        if there or "rows" in state:
            assert state["rows"].data in ((OLD, NEW) if there else (NEW,)), call
            mode = stat.S_IMODE(state["rows"].mode)
            assert not there or (mode, state["rows"].owner) == (0o640, STRANGER), call
        assert not ended or state["rows"].data == NEW, call
    assert target.NewFile is writing.NewFile
