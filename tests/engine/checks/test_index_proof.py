"""Both indexes against the log: what cannot be read of them."""

from pathlib import Path

import pytest
from segments import batches, only, place_of, read, write_partition
from segments import name as named

from kdump.storage import source as sources


@pytest.mark.parametrize("extension", ["index", "timeindex"])
def test_an_index_that_the_device_does_not_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extension: str
) -> None:
    """It is told of, and nothing is held against the zeros that stand for it."""
    directory = write_partition(tmp_path, {0: batches(0, 60), 60: batches(60, 90)})
    name = named(0, extension)
    pread = sources.Source._pread

    def failing(source: sources.Source, view: memoryview, position: int) -> int:
        if source.path.endswith(name):
            raise OSError(5, "Input/output error")
        return pread(source, view, position)

    monkeypatch.setattr(sources.Source, "_pread", failing)
    size = len(read(directory, 0, extension))
    assert place_of(only(directory), directory) == ("unreadable", name, 0, size)
