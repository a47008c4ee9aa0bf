"""What several checks are tried on."""

from pathlib import Path

import pytest
from sound_partition import sound_partition


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    return sound_partition(tmp_path)
