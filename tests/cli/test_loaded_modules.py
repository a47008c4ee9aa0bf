"""How many modules of kdump a run loads: start-up is most of the time of a lookup.

A limit is what was loaded when it was set. It may fall, and should not rise without a reason.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PARTITION = Path(__file__).parents[2] / "sample-data/clean/4.1.1/d1/orders.lz4-0"
COUNT = """
import sys
from kdump.cli import main
try:
    main()
except SystemExit:
    pass
print(*(name for name in sys.modules if name.startswith("kdump")), file=sys.stderr)
"""


@pytest.mark.skipif("KDUMP_PURE" in os.environ, reason="the pure kernel has modules of its own")
@pytest.mark.parametrize(
    ("most", "words"),
    [
        (4, ["--help"]),
        (153, ["find-offset", "1", str(PARTITION)]),
        (127, ["dump", str(PARTITION)]),
        (174, ["verify", str(PARTITION)]),
    ],
)
def test_run_loads_few_modules(most: int, words: list[str]) -> None:
    command = [sys.executable, "-c", COUNT, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = done.stderr.splitlines()[-1].split()
    assert "kdump.cli" in loaded
    assert len(loaded) <= most, sorted(loaded)
