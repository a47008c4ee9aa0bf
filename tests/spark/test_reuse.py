"""A frame that is used more than once gives each query its own rows, whatever was asked before."""

from collections.abc import Iterator
from typing import Any

import pytest
from reusing import PUSHDOWN, VIEWS_OF_LOGS, frame_of, refusal, uses

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def pushing(spark: Any) -> Iterator[Any]:
    """Give the session while Spark hands conditions to the sources that take them."""
    spark.conf.set(PUSHDOWN, "true")
    yield spark
    spark.conf.unset(PUSHDOWN)


@pytest.mark.parametrize("view", VIEWS_OF_LOGS)
def test_each_use_of_a_frame_returns_its_rows(pushing: Any, view: str) -> None:
    for way, (came, due) in uses(pushing, view).items():
        assert came == due, way


def test_conditions_are_not_to_be_used(pushing: Any) -> None:
    """With `pushdown` the counts above are wrong on every Spark there is; see `KdumpSource`."""
    said = refusal(pushing, "groups")
    assert "option pushdown is not supported" in said
    assert "topic, partition, fromOffset, toOffset, fromTimeMs, toTimeMs" in said


def test_refused_also_without_files_from_spark(spark: Any) -> None:
    assert "option pushdown is not supported" in refusal(spark, "records")
    assert frame_of(spark, "findings", pushdown="false").count() == 7
