"""A session of Spark: made, quiet, and ended by who made it."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from kdump.errors import KdumpError

if TYPE_CHECKING:
    from collections.abc import Iterator

Session = Any  # PySpark is there only where it was asked for

# For one machine: no web page, no address that others can reach.
_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
_EVERYWHERE = {"spark.ui.showConsoleProgress": "false"}
# Without it, Spark refuses a source that uses a query's conditions.
_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


class SparkMissing(KdumpError):
    """Spark cannot be started here."""


@contextmanager
def spark_session(master: str | None, remote: str | None) -> Iterator[Session]:
    """Give a session: of a Connect server, of a cluster, else on this machine's processors.

    One that is active already, as under spark-submit, is used and left running.
    """
    _need_pyspark(connect=remote is not None)
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
            session = _started(builder.remote(remote), remote)
    else:
        _need_java()
        master = master or os.environ.get("MASTER") or "local[*]"
        settings = dict(_EVERYWHERE)
        if master.startswith("local"):
            settings |= _LOCAL
        for name, value in settings.items():
            builder = builder.config(name, value)
        with _jvm_kept_quiet():
            session = _started(builder.master(master), master)
        session.sparkContext.setLogLevel("OFF")
    session.conf.set(_PUSHDOWN, "true")
    try:
        yield session
    finally:
        session.stop()


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


def _started(builder: Any, where: str) -> Session:
    from kdump.spark.errors import one_line

    try:
        return builder.getOrCreate()
    except Exception as error:  # Spark's, gRPC's and Py4J's have no base in common
        raise SparkMissing(f"no Spark session at {where}: {one_line(error)}") from None


def _need_pyspark(*, connect: bool) -> None:
    needed = ("pyspark", "pyarrow", "pandas", *(("grpc",) if connect else ()))
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        extra = "connect" if connect else "spark"
        raise SparkMissing(
            f"--engine spark needs {', '.join(missing)}, which is not installed: "
            f"pip install 'kdump[{extra}]'"
        )


def _need_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java") is None and not (home and os.path.exists(f"{home}/bin/java")):
        raise SparkMissing(
            "--engine spark needs Java 17 or later, which is not on PATH (a Connect server "
            "needs none here: --remote sc://HOST)"
        )
