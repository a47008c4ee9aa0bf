"""What runs in process needs no Spark, imports none, and says in one line what is missing."""

import os
import re
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import builders
import pytest
from commands import CONTEXT, NAMES

from kdump.cli import cli
from kdump.spark import session
from kdump.spark.session import SparkUnavailableError, spark_session

ROOT = Path(__file__).parents[2]


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
def test_process_loads_no_spark(
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


def test_missing_java_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "find_spec", lambda name: True)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with (
        pytest.raises(SparkUnavailableError, match=r"^--engine spark needs Java 17 .* not on PATH"),
        spark_session("local[1]", None),
    ):
        pass


def test_missing_pyspark_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "find_spec", lambda name: None)
    for remote, extra in ((None, "spark"), ("sc://host", "connect")):
        with (
            pytest.raises(SparkUnavailableError, match=rf"pip install 'kdump\[{extra}\]'"),
            spark_session(None, remote),
        ):
            pass


def test_no_server_is_listening(monkeypatch: pytest.MonkeyPatch) -> None:
    """gRPC would try for ten minutes and say nothing meanwhile."""
    for name in ("grpc_proxy", "https_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(session, "_need_pyspark", lambda **asked: None)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    for remote, why in (
        (f"sc://127.0.0.1:{port}/;token=secret", rf"at 127\.0\.0\.1:{port}: Connection refused$"),
        ("sc://127.0.0.1:nowhere", "nowhere"),
    ):
        with (
            pytest.raises(SparkUnavailableError, match=f"^no Spark Connect server.*{why}"),
            spark_session(None, remote),
        ):
            pass


def test_old_java_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Spark itself only says that a process has ended."""
    java = tmp_path / "bin/java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\nexit 1\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(
        SparkUnavailableError, match=r"^no Spark session at local: .*java is Java 11, and "
    ):
        session._start(None, "local")


def test_second_package_of_the_name_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"pyspark": "4.3.0", "pyspark-client": "4.2.0"}
    monkeypatch.setattr(session, "find_spec", lambda name: True)
    monkeypatch.setattr(session, "_version_of", versions.get)
    with (
        pytest.raises(
            SparkUnavailableError, match=r"^pyspark 4\.3\.0 and pyspark-client 4\.2\.0 are both"
        ),
        spark_session("local[1]", None),
    ):
        pass


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--master", "nonsense"), "--master nonsense: give local[N], spark://HOST:PORT"),
        (("--master", "spark://h:1", "--archive", "/no.tar.gz"), "/no.tar.gz: is not a file"),
        (("--master", "local[1]", "--archive", __file__), "--archive requires --master URL"),
        (("--archive", __file__), "--archive requires --master URL"),
    ],
)
def test_wrong_options_are_reported(
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    error: str,
) -> None:
    from kdump.cli import main

    monkeypatch.setattr(session, "find_spec", lambda name: True)
    monkeypatch.setattr(session, "_java", lambda: "java")
    with pytest.raises(SystemExit) as ended:
        main(["verify", "--engine", "spark", *arguments, str(directory)])
    assert ended.value.code in (1, 2)
    assert capsys.readouterr().err.startswith(f"kdump: {error}")


def test_commands_that_run_on_spark(capsys: pytest.CaptureFixture[str]) -> None:
    """Help, pages and refusals agree on which they are."""
    from kdump.cli import main

    with_it = set()
    for name in NAMES:
        command = cli.get_command(CONTEXT, name)
        assert command is not None
        if any("--engine" in one.opts for one in command.params):
            with_it.add(name)
    for name in set(NAMES) - with_it:
        with pytest.raises(SystemExit) as ended:
            main([name, "--engine", "spark", "x"])
        assert ended.value.code == 2
        assert f"kdump {name} has no --engine: it runs on this" in capsys.readouterr().err
    manual = (ROOT / "man/kdump-spark.7").read_text().replace("\\", "")
    listed = manual.partition(".SH COMMANDS ON SPARK")[2].partition("\nsupport\n")[0]
    assert set(re.findall(r"kdump ([a-z-]+)", listed)) == with_it
    page = (ROOT / "docs/spark.md").read_text()
    listed = page.partition("`--engine spark` is an option of")[2].partition(". ")[0]
    assert set(re.findall(r"`([a-z-]+)`", listed)) == with_it


def test_archive_without_spark(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from kdump.cli import main

    with pytest.raises(SystemExit) as ended:
        main(["verify", "--archive", __file__, str(directory)])
    assert ended.value.code == 2
    assert "--master, --remote, and --archive require --engine spark" in capsys.readouterr().err
