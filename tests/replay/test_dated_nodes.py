"""Forty directories that brokers of ten releases left: the range has the release, and says no more.

KDUMP_FUZZ=long; needs Maven, Java 17, and `broker/` of KDUMP_SHARED.
"""

from pathlib import Path

import pytest
from dated_nodes import SHAPES, Shape, make
from long_runs import LONG

from kdump.broker.versions import RELEASES
from kdump.replay.directory_releases import date_directories

pytestmark = pytest.mark.broker


@pytest.mark.skipif(not LONG, reason="minutes of real brokers: KDUMP_FUZZ=long")
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_last_writing_release_is_found(shape: Shape, tmp_path: Path) -> None:
    data = str(make(shape, tmp_path / "node"))
    dating = date_directories([data])[data]
    last = tuple(map(int, shape.releases[-1].split(".")))
    true = max(one for one in RELEASES if one <= last)
    assert dating.first <= true <= dating.last
    if shape.kraft and true >= (3, 3):
        assert dating.first == dating.last
