"""One master and one worker: findings as `verify` has them, also by Connect, and executors lost."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from long_runs import LONG

pytestmark = [pytest.mark.spark]


@pytest.mark.skipif(not LONG, reason="takes minutes; KDUMP_FUZZ=long asks for it")
@pytest.mark.skipif(find_spec("grpc") is None, reason="pip install 'kdump[connect]'")
def test_each_code_and_kind_of_job_works(tmp_path: Path) -> None:
    script = Path(__file__).with_name("on_standalone.py")
    done = subprocess.run(
        [sys.executable, str(script), tmp_path / "out", "--one-by-one"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    for session in ("classic", "connect"):
        codes, odd = told[session]
        assert not odd
        assert codes > 100
    assert not told["lost_rows"]
    assert not told["not_killed"]
