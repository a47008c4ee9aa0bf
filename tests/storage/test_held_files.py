"""Files that are kept open outlive their names, as many as the system allows."""

import os
import resource
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kdump.storage.held_files import HeldFiles, identity, size_of
from kdump.storage.source import HELD, Source


def files(folder: Path, count: int) -> list[str]:
    paths = [folder / f"{number:020}.log" for number in range(count)]
    for path in paths:
        path.write_bytes(b"what it holds")
    return list(map(str, paths))


@pytest.fixture
def limits() -> Iterator[tuple[int, int]]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def opened() -> int:
    """Return a number that no open file of this process reaches."""
    return 1 + max(map(int, os.listdir("/dev/fd")))  # noqa: PTH208


def test_file_is_readable_after_its_deletion(tmp_path: Path) -> None:
    (path,) = files(tmp_path, 1)
    other = str(tmp_path / "other")
    os.link(path, other)
    with HeldFiles() as kept:
        assert kept.hold([path, other, str(tmp_path / "none")])[0].is_gone
        Path(path).unlink()
        with Source(path) as source:
            assert source.read(0, 100) == b"what it holds"
        assert (size_of(path), identity(path)) == (13, identity(other))
    assert HELD == {}
    assert size_of(path) == 0


def test_open_file_limit_is_raised(tmp_path: Path, limits: tuple[int, int]) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (80 + opened(), limits[1]))
    with HeldFiles() as kept:
        assert kept.hold(files(tmp_path, 300)) == []
        assert len(HELD) == 300


def test_files_over_the_limit_are_reported(
    tmp_path: Path, limits: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first files are kept, and others can still be opened, however many are open already."""
    paths = files(tmp_path, 600)
    with ExitStack() as others:
        for path in paths[:300]:
            others.enter_context(Path(path).open("rb"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (opened() + 500, limits[1]))
        monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
        with HeldFiles() as kept:
            failed = kept.hold(paths)
            count = len(HELD)
            assert 200 < count < 500
            assert list(HELD) == paths[:count]
            assert [each.path for each in failed] == paths[count:]
            assert {each.is_gone for each in failed} == {False}
            for path in paths[:100]:
                others.enter_context(Path(path).open("rb"))
    monkeypatch.undo()
    assert HELD == {}
