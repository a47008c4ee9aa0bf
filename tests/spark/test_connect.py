"""On Spark Connect everything is as in process: files, findings, answers, rows, bar and Ctrl-C."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark]


@pytest.mark.skipif(find_spec("grpc") is None, reason="pip install 'kdump[connect]'")
def test_all_functions_work_on_a_connect_server(tmp_path: Path) -> None:
    script = Path(__file__).with_name("on_connect.py")
    done = subprocess.run(
        [sys.executable, str(script), tmp_path / "out"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    moving, (came, went_on) = told.pop("moving"), told.pop("interrupted")
    assert told == {
        **dict.fromkeys(("connect", "dump", "verify", "find", "read", "seen", "reused"), True),
        "handlers": 0,
    }
    assert moving == sorted(moving)
    assert len(moving) >= 3  # none, some and all at least
    assert moving[0] == [0, 0]
    assert moving[-1][0] == 7
    assert came == "KeyboardInterrupt"
    assert not went_on  # the processors were free again before any task had ended
