"""Fixtures of `kdump verify`."""

from pathlib import Path

import pytest
from verify_command import write_partition


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Give a directory with two sound partitions."""
    for number in range(2):
        write_partition(tmp_path / "data" / f"orders-{number}")
    return tmp_path / "data"
