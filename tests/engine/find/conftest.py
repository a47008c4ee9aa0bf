"""Fixtures for lookups."""

from pathlib import Path

import pytest
from lookup_rows import SIZE, TIME, batches, write_segment


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Give two segments, offsets 0 to 5 and 10 to 13, both with sound indexes."""
    directory = tmp_path / "data" / "orders-7"
    write_segment(directory, 0, batches(0, 2, 4), [(3, SIZE)], [(TIME + 5, 5)])
    write_segment(directory, 10, batches(10, 12), [(3, SIZE)], [(TIME + 13, 3)])
    return directory
