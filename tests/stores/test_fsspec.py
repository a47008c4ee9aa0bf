"""Stores that fsspec knows, by the one that lies in memory."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import COMMANDS, DATA, answer, answer_in_a_store

from kdump.errors import PathError
from kdump.storage import places
from kdump.storage.source import Source

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
