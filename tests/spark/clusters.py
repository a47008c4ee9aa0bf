"""A cluster of Spark's own kind on this machine, whose workers believe they are on other hosts."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

import kdump

HOSTS = ("127.0.0.2", "127.0.0.3")
_START_SECONDS = 120.0


@contextmanager
def standalone(directory: Path, hosts: tuple[str, ...] = HOSTS) -> Iterator[str]:
    """Start a master and a worker for each host, of one core; give the master's URL.

    Whatever they write lies in the directory, which the caller removes.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        log = directory / "master.log"
        stack.enter_context(
            _daemon(log, "master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        )
        url = _said(log, r"Starting Spark master at (spark://\S+)")
        for number, host in enumerate(hosts):
            work = directory / f"work-{number}"
            words = ("--host", host, "--cores", "1", "--memory", "1g", "--webui-port", "0")
            stack.enter_context(
                _daemon(
                    directory / f"worker-{number}.log",
                    "worker.Worker",
                    *words,
                    "--work-dir",
                    str(work),
                    url,
                )
            )
        for number in range(len(hosts)):
            _said(directory / f"worker-{number}.log", r"(Successfully registered with master)")
        yield url


@contextmanager
def _daemon(log: Path, name: str, *arguments: str) -> Iterator[None]:
    home = Path(pyspark.__file__).parent
    with _running(
        log, [str(home / "bin/spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
    ):
        yield


@contextmanager
def _running(log: Path, command: list[str], daemon_memory: str = "256m") -> Iterator[None]:
    """Keep a process of Spark's going; nothing of it is left outside of the log's directory."""
    environment = {
        **os.environ,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_DAEMON_MEMORY": daemon_memory,
        "SPARK_LOCAL_DIRS": str(log.parent / "local"),
    }
    environment.pop("PYSPARK_SUBMIT_ARGS", None)
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=environment,
            cwd=log.parent,
        )
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _said(log: Path, pattern: str) -> str:
    """Wait for a line of a log; give what the pattern's group holds."""
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        text = log.read_text("utf-8", "replace")
        if 'Exception in thread "main"' in text:
            break
        found = re.search(pattern, text)
        if found:
            return found[1]
        time.sleep(0.1)
    sys.exit(f"{log}: not started\n{log.read_text('utf-8', 'replace')}")


@contextmanager
def connect_server(directory: Path, master: str) -> Iterator[str]:
    """Start a Connect server on a cluster; give its URL."""
    directory.mkdir(parents=True, exist_ok=True)
    home = Path(pyspark.__file__).parent
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.ui.enabled": "false",
    }
    command = [str(home / "bin/spark-submit"), "--master", master]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    log = directory / "server.log"
    with _running(log, [*command, "spark-internal"], "1g"):
        port = _said(log, r"Spark Connect server started at: \S*:(\d+)")
        yield f"sc://127.0.0.1:{port}"


def python_without(module: str, directory: Path) -> Path:
    """Make a Python like this one that cannot import a module."""
    hidden = directory / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(
        "import sys\n"
        "class Hidden:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}:\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}')\n"
        "sys.meta_path.insert(0, Hidden())\n"
    )
    python = directory / "python"
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH="{hidden}:$PYTHONPATH" exec "{sys.executable}" "$@"\n'
    )
    python.chmod(0o755)
    return python


def packed_environment(directory: Path) -> Path:
    """Pack a virtual environment with this kdump; all else it takes from the one of the tests."""
    environment = directory / "environment"
    venv.create(environment, symlinks=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(environment)}))
    shutil.copytree(
        Path(kdump.__file__).parent,
        packages / "kdump",
        ignore=shutil.ignore_patterns("__pycache__", "*.c"),
    )
    (packages / "rest.pth").write_text(sysconfig.get_path("purelib") + "\n")
    archive = directory / "env.tar.gz"
    subprocess.run(["tar", "-czf", archive, "-C", environment, "."], check=True)
    return archive
