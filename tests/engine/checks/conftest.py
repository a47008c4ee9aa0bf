"""What several checks are tried on."""

from pathlib import Path

import pytest
from directories import DataDirectory
from sound_partition import sound_partition


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    return sound_partition(tmp_path)


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    """Give a sound directory with two partitions of two and four segments, stopped cleanly."""
    directory = DataDirectory(tmp_path / "data")
    directory.partition("orders", 0)
    directory.partition("users", 3, (0, 10, 20, 30), topic_id=8)
    directory.stop()
    return directory
