"""A cluster of two executors, one of which is killed in mid-job."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import builders
import pytest
from bulk import left_in

pytestmark = [pytest.mark.spark]


@pytest.mark.skipif(
    os.environ.get("KDUMP_FUZZ") != "long", reason="takes minutes; KDUMP_FUZZ=long asks for it"
)
def test_lost_executor(tmp_path: Path) -> None:
    if importlib.util.find_spec("pyspark") is None or shutil.which("java") is None:
        pytest.skip("Spark needs Java 17 and pip install 'kdump[spark]'")
    data = tmp_path / "data"
    for name in ("orders-0", "orders-1"):
        (data / name).mkdir(parents=True)
        for base in (0, 400, 800):
            (data / name / f"{base:020}.log").write_bytes(
                b"".join(
                    builders.batch(
                        [builders.record(k, k, b"k%d" % k, b"v" * 50) for k in range(10)],
                        base_offset=base + 10 * n,
                    )
                    for n in range(40)
                )
            )
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("on_cluster.py")), data, tmp_path / "out"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip() == "killed"
    here = left_in(tmp_path / "out/here")
    assert left_in(tmp_path / "out/killed") == here
