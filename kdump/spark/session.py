"""Make, silence and end a session of Spark."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from typing import Any

from kdump.errors import KdumpError, PathError, UsageError

Session = Any  # PySpark is there only where it was asked for

# For one machine: no web page, no address that others can reach.
_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
_EVERYWHERE = {
    "spark.ui.showConsoleProgress": "false",
    # Workers start in a directory that may hold anything, and would import from there first.
    "spark.executorEnv.PYTHONSAFEPATH": "1",
}
# An archive is unpacked under this name where a worker starts. The setting is the one that holds
# for a session on a Connect server too; `spark.pyspark.python` only works before one is made.
_ARCHIVE_NAME = "env"
_ARCHIVE_PYTHON = {"spark.sql.execution.pyspark.python": f"./{_ARCHIVE_NAME}/bin/python"}
_OLDEST_JAVA = 17
_CONNECT_PORT = 15002
_CONNECT_SECONDS = 20.0
_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")  # through which gRPC would go


class SparkUnavailableError(KdumpError):
    """Spark cannot be started here."""


@contextmanager
def spark_session(
    master: str | None, remote: str | None, archive: str | None = None
) -> Iterator[Session]:
    """Give a session: of a Connect server, of a cluster, else on this machine's processors.

    One that is active already, as under spark-submit, is used and left running. `archive` is a
    packed environment with kdump in it, which the executors get and take their Python from.
    """
    _need_pyspark(connect=remote is not None)
    if master is not None:
        _refuse_master(master)
        _need_java()
    if remote is not None:
        _need_server(remote)
    _refuse_archive(archive, master, remote)
    from pyspark.sql import SparkSession

    found = None if master or remote else SparkSession.getActiveSession()
    if found is not None:
        yield found
        return
    if (remote or master or "local").startswith("local"):
        # A setting of the session would come too late: workers are asked for by this name.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("kdump")
    if remote is not None:
        with _jvm_kept_quiet() if remote.startswith("local") else nullcontext():
            session = _start(builder.remote(remote), remote)
    else:
        _need_java()
        master = master or os.environ.get("MASTER") or "local[*]"
        settings = dict(_EVERYWHERE)
        if master.startswith("local"):
            settings |= _LOCAL
        if archive is not None:
            settings["spark.archives"] = f"{os.path.abspath(archive)}#{_ARCHIVE_NAME}"
        for name, value in settings.items():
            builder = builder.config(name, value)
        with _jvm_kept_quiet():
            session = _start(builder.master(master), master)
        session.sparkContext.setLogLevel("OFF")
    try:
        _prepare(session, archive, remote)
        yield session
    finally:
        session.stop()


def _prepare(session: Session, archive: str | None, remote: str | None) -> None:
    """Set what can still be set in a session that runs already."""
    from kdump.spark.errors import one_line

    if archive is None:
        return
    if remote is not None:
        try:
            session.addArtifacts(f"{os.path.abspath(archive)}#{_ARCHIVE_NAME}", archive=True)
        except Exception as error:  # Spark's and gRPC's have no base in common
            raise SparkUnavailableError(f"{archive} could not be sent: {one_line(error)}") from None
    for name, value in _ARCHIVE_PYTHON.items():
        session.conf.set(name, value)


def _refuse_master(master: str) -> None:
    """Say what a master is: Spark's own answer to a wrong one is lost with its JVM."""
    if master != "yarn" and not master.startswith(("local", "spark://", "k8s://")):
        raise UsageError(f"--master {master}: give local[N], spark://HOST:PORT, k8s://URL or yarn")


def _refuse_archive(archive: str | None, master: str | None, remote: str | None) -> None:
    """Say that there is no such archive, or nobody to send it to."""
    if archive is None:
        return
    if not os.path.isfile(archive):
        raise PathError(archive, "is not a file")
    where = remote or master or ""
    if not where or (where.startswith("local") and not where.startswith("local-cluster")):
        raise UsageError("--archive requires --master URL or --remote URL")


@contextmanager
def _jvm_kept_quiet() -> Iterator[None]:
    """Give the JVM that starts meanwhile, and its workers, a standard error that nobody reads.

    What it says there before its log level can be set would stand among findings.
    """
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _start(builder: Any, where: str) -> Session:
    from kdump.spark.errors import one_line

    try:
        return builder.getOrCreate()
    except Exception as error:  # Spark's, gRPC's and Py4J's have no base in common
        reason = _too_old_java() or one_line(error)
        if "stopped SparkContext" in reason:  # what is left when a master gave no answer
            reason = "no master responds there"
        raise SparkUnavailableError(f"no Spark session at {where}: {reason}") from None


def _need_pyspark(*, connect: bool) -> None:
    needed = ("pyspark", "pyarrow", "pandas", *(("grpc",) if connect else ()))
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        extra = "connect" if connect else "spark"
        raise SparkUnavailableError(
            f"--engine spark needs {', '.join(missing)}, which is not installed: "
            f"pip install 'kdump[{extra}]'"
        )
    versions = {name: _version_of(name) for name in ("pyspark", "pyspark-client")}
    if None not in versions.values() and len(set(versions.values())) > 1:
        installed = " and ".join(f"{name} {version}" for name, version in versions.items())
        raise SparkUnavailableError(
            f"{installed} are both installed, in the same place: uninstall both, then install "
            "'kdump[spark]' or 'kdump[connect]'"
        )


def _need_server(remote: str) -> None:
    """Say at once that nobody listens there: gRPC would try for ten minutes, and say nothing."""
    import socket
    from urllib.parse import urlsplit

    if not remote.startswith("sc://") or any(map(os.environ.get, _PROXIES)):
        return
    try:
        address = urlsplit(remote)
        host, port = address.hostname, address.port or _CONNECT_PORT
        socket.create_connection((host, port), _CONNECT_SECONDS).close()
    except ValueError as error:
        raise SparkUnavailableError(f"no Spark Connect server: {error}") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise SparkUnavailableError(f"no Spark Connect server at {host}:{port}: {reason}") from None


def _version_of(name: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return shutil.which(f"{home}/bin/java") if home else shutil.which("java")


def _need_java() -> None:
    if _java() is None:
        where = "at JAVA_HOME" if os.environ.get("JAVA_HOME") else "on PATH"
        raise SparkUnavailableError(
            f"--engine spark needs Java {_OLDEST_JAVA} or later, which is not {where} (--remote "
            "sc://HOST needs no local Java)"
        )


def _too_old_java() -> str | None:
    """Say that Java is too old. Asked when nothing started: a JVM says so to nobody."""
    import re
    import subprocess

    java = _java()
    if java is None:
        return None
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    if version is None or int(version[1]) >= _OLDEST_JAVA:
        return None
    return f"{java} is Java {version[1]}, and Spark needs {_OLDEST_JAVA} or later"
