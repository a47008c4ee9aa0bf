"""Fixtures for tests of reading."""

import pytest
from damaged_segment import BASE, BATCHES, RECORDS, Segment, batch


@pytest.fixture
def segment() -> Segment:
    return Segment([batch(BASE + RECORDS * n) for n in range(BATCHES)])
