"""One session of Spark for all tests of a run: it takes ten seconds to start."""

import os
import shutil
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

NEEDED = ("pyspark", "pyarrow", "pandas")


def why_not() -> str:
    """Say in one line why Spark cannot be started here; empty if it can."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        return f"Spark needs {', '.join(missing)}: pip install 'kdump[spark]'"
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        return "Spark needs Java 17, which is not on PATH"
    return ""


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """Give a session on two processors; a task may fail three times, as on a cluster."""
    if reason := why_not():
        pytest.skip(reason)
    from kdump.spark.session import spark_session

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with spark_session("local[2,4]", None) as session:
        session.conf.set("spark.sql.shuffle.partitions", "2")
        yield session
