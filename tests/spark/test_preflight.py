"""The probe of executors: what it refuses, and how it says why nobody answers."""

from typing import Any

import pytest

from kdump.spark import preflight
from kdump.spark.errors import host_of, one_line
from kdump.spark.preflight import ExecutorError

LOST = (
    "Job aborted due to stage failure: Task 1 in stage 0.0 failed 4 times, most recent failure: "
    "Lost task 1.3 in stage 0.0 (TID 7) (10.1.2.3 executor 0): java.io.IOException: "
    'Cannot run program "./env/bin/python": error=2, No such file or directory\n\tat java.base/x\n'
)


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore")
def test_different_code_of_the_same_version_is_refused(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    preflight.preflight(spark, [])
    monkeypatch.setattr(preflight, "code_digest", lambda: "other")
    with pytest.raises(ExecutorError, match=r"^executor on \S+ has kdump \S+ with different code"):
        preflight.preflight(spark, [])


def test_executor_without_its_python_is_named() -> None:
    error = RuntimeError(LOST)
    assert host_of(error) == "10.1.2.3"
    assert preflight._explain_failure(error) == (
        'executor on 10.1.2.3 cannot run Python: Cannot run program "./env/bin/python": error=2, '
        "No such file or directory"
    )


def test_executors_without_pyarrow() -> None:
    told = preflight._explain_failure(
        RuntimeError("trace\nModuleNotFoundError: No module named 'x'\n")
    )
    assert told.startswith(
        "no executor responds: ModuleNotFoundError: No module named 'x' (without"
    )


def test_java_message_precedes_the_py4j_message() -> None:
    error = RuntimeError("An error occurred while calling None.a.B.\n: java.x: it is stopped.\nat")
    assert one_line(error) == "java.x: it is stopped."
