"""Stores that fsspec knows, by the one that lies in memory."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from commands import COMMANDS, DATA, answer, answer_in_a_store

from kdump.errors import PathError
from kdump.output import part_files
from kdump.storage import places
from kdump.storage.source import Source
from kdump.stores.fsspec_store import FsspecStore

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
URI = "memory://data"


@pytest.fixture(autouse=True)
def copied() -> Iterator[None]:
    files = fsspec.filesystem("memory")
    for name in ("clean/4.1.1/d2", "damaged/4.1.1-stopped/d1"):
        for path in (DATA / name).rglob("*"):
            if path.is_file():
                files.pipe_file(f"/data/{path.relative_to(DATA)}", path.read_bytes())
    yield
    files.rm("/data", recursive=True)


@pytest.mark.skipif(find_spec("moto") is None, reason="only with kdump[test-stores]: it is long")
@pytest.mark.parametrize("name", ["clean/4.1.1/d2", "damaged/4.1.1-stopped/d1"])
def test_uri_gives_the_same_as_the_path(name: str, tmp_path: Path) -> None:
    for command in COMMANDS:
        if "{} " not in command and "--visible" not in command:  # those look at the files' times
            expected = answer_in_a_store(command, str(DATA / name))
            assert answer(command, f"{URI}/{name}") == expected


def test_directory_entries() -> None:
    directory = f"{URI}/clean/4.1.1/d2/orders.plain-0"
    assert places.isdir(directory)
    assert not places.isfile(directory)
    log = f"{directory}/00000000000000000000.log"
    local = DATA / "clean/4.1.1/d2/orders.plain-0/00000000000000000000.log"
    assert places.getsize(log) == local.stat().st_size
    assert sorted(places.listdir(directory)) == sorted(path.name for path in local.parent.iterdir())
    assert not places.lexists(f"{directory}/no")
    with pytest.raises(PathError, match="is a directory"):
        Source(directory)
    with pytest.raises(PathError, match="No such file"):
        Source(f"{directory}/no")
    with Source(log) as source:
        assert source.read(100, 1000) == local.read_bytes()[100:1100]
    with pytest.raises(NotADirectoryError):
        places.listdir(log)


def test_modification_times_of_any_kind() -> None:
    """File systems give seconds, milliseconds, a text, a moment, or nothing."""
    store, files = FsspecStore(URI), fsspec.filesystem("memory")
    files.pipe_file("/data/one", b"x")
    found = {}
    for told in (1_700_000_000.5, 1_700_000_000_500, "2023-11-14T22:13:20+00:00", "?", None):
        files.info = lambda path, told=told: {"type": "file", "size": 1, "mtime": told}
        try:
            status = store.status("one")
        finally:
            del files.info
        assert status is not None
        found[told] = status.st_mtime_ns / 1e9
    assert [*found.values()] == [1_700_000_000.5, 1_700_000_000.5, 1_700_000_000, 0, 0]


@pytest.mark.parametrize("plain", [False, True])
def test_parts_are_written_moved_and_cleared(plain: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With directories as on HDFS, and without as in S3, where a part is copied."""
    monkeypatch.setattr(part_files, "_WITHOUT_DIRECTORIES", {"memory"} if plain else set())
    files = part_files.files_at(f"{URI}/out")
    assert files.names() == []
    files.make("staged")
    part = files.create("staged/part-0")
    part.write(b"12345")
    assert files.close(part) == 5
    files.move("staged/part-0", "day=1/part-0")
    memory = fsspec.filesystem("memory")
    assert memory.cat_file("/data/out/day=1/part-0") == b"12345"
    assert memory.exists("/data/out/staged/part-0") is plain
    files.drop()
    assert "day=1" in files.names()
    files.remove("day=1/part-0")
    files.remove("day=1/part-0")
    assert not memory.exists("/data/out/day=1/part-0")
    assert files.clear("staged")
    assert files.clear("staged")
    assert files.clear("day=1")
    files.drop()
    assert not memory.exists("/data/out")
