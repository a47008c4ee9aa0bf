"""One session of Spark for all tests of a run: it takes ten seconds to start."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from typing import Any

import pytest
from s3_server import s3_environment, why_no_server

NEEDED = ("pyspark", "pyarrow", "pandas", "grpc")
OLDEST_JAVA = 17


@cache
def why_not() -> str:
    """Say in one line why Spark cannot be started here; empty if it can."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        return f"Spark needs {', '.join(missing)}: pip install 'kdump[spark]'"
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(f"{home}/bin/java" if home else "java")
    if java is None:
        return f"Spark needs Java {OLDEST_JAVA}, which is not on PATH"
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', told)
    if version is None or int(version[1]) < OLDEST_JAVA:
        return f"Spark needs Java {OLDEST_JAVA}, and here is {told.partition(chr(10))[0]}"
    return ""


#: How often a task may fail, in the environment.
TASK_FAILURES = "KDUMP_TEST_TASK_FAILURES"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs Spark from one place, so that a run says so in one line."""
    if item.get_closest_marker("spark") is not None and (reason := why_not()):
        pytest.skip(reason)


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """Give a session on two processors, in which a task that fails once fails the query.

    TASK_FAILURES in the environment allows more, as a cluster does.
    """
    from kdump.spark.session import spark_session

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if not why_no_server():  # workers have the environment in which the session started
        os.environ.update(s3_environment())
    with spark_session(f"local[2,{os.environ.get(TASK_FAILURES, 1)}]", None) as session:
        session.conf.set("spark.sql.shuffle.partitions", "2")
        yield session
