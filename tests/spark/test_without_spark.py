"""What runs in process needs no Spark, imports none, and says in one line what is missing."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import builders
import pytest

from kdump.spark import session
from kdump.spark.session import SparkMissing, spark_session


def kdump(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "kdump", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "orders-0"
    path.mkdir()
    for base in (0, 1):
        (path / f"{base:020}.log").write_bytes(builders.batch(base_offset=base))
    return path


@pytest.mark.parametrize("arguments", [(), ("-j", "2"), ("--batches",)])
def test_no_trace_of_spark_in_process(
    directory: Path, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    if find_spec("pyarrow") is None:
        pytest.skip("PyArrow is not installed")
    output = tmp_path / "out"
    form = ("--format", "parquet", "--output", f"{output}/")
    done = kdump("dump", *form, *arguments, directory, PATH="/nowhere", JAVA_HOME="")
    assert done.returncode == 0, done.stderr
    assert (output / "_SUCCESS").is_file()
    for line in done.stderr.splitlines():
        module = line.rpartition("|")[2].strip()
        assert module.split(".")[0] not in ("pyspark", "py4j", "pyspark_kdump"), module
        assert not module.startswith("kdump.spark"), module


def test_no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    if find_spec("pyspark") is None:
        pytest.skip("PySpark is not installed")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with (
        pytest.raises(SparkMissing, match=r"^--engine spark needs Java 17 .* not on PATH"),
        spark_session("local[1]", None),
    ):
        pass


def test_no_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "find_spec", lambda name: None)
    for remote, extra in ((None, "spark"), ("sc://host", "connect")):
        with (
            pytest.raises(SparkMissing, match=rf"pip install 'kdump\[{extra}\]'"),
            spark_session(None, remote),
        ):
            pass
