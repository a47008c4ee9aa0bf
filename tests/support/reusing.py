"""One frame used more than once: what Spark counts, and what must come out.

For classic sessions (spark/test_reuse.py) and for Connect's (spark/on_connect.py).
"""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: One that is read by splits, and one by partitions.
VIEWS_OF_LOGS = ("records", "findings")
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
SAMPLES = Path(__file__).parents[2] / "sample-data"
PATHS = [str(SAMPLES / "damaged/4.1.1-stopped/d1"), str(SAMPLES / "clean/4.1.1/d2")]


def frame_of(spark: Any, view: str, **options: str) -> Any:
    """Give a new frame of a view."""
    return spark.read.format("kdump").options(view=view, **options).load(PATHS)


def refusal(spark: Any, view: str) -> str:
    """Give what is said where conditions are to be used; empty if nothing is."""
    try:
        frame_of(spark, view, pushdown="true").count()
    except Exception as error:  # Spark's, classic's and Connect's have no base in common
        return str(error)
    return ""


def rows_of(spark: Any, view: str) -> Counter[tuple[str, int]]:
    """Count the rows of each partition, of a frame that is used once and without a condition."""
    rows = frame_of(spark, view).select("topic", "partition").collect()
    return Counter((row.topic, row.partition) for row in rows)


def uses(spark: Any, view: str, **options: str) -> dict[str, tuple[list[int], list[int]]]:
    """Use frames of a view in every way; give of each way what came, and what had to."""
    rows = rows_of(spark, view)
    (first, _), *_, (last, _) = sorted(rows)
    count = Counter[str]()
    for (topic, _), n in rows.items():
        count[topic] += n
    a, b, whole = count[first], count[last], rows.total()
    assert first != last
    assert 0 < a < whole > b > 0
    partitions = {partition for topic, partition in rows if topic == first}
    joined = sum(n for (_, partition), n in rows.items() if partition in partitions)
    one, other = f"topic = '{first}'", f"topic = '{last}'"

    def in_a_row(frame: Any) -> list[int]:
        return [frame.where(one).count(), frame.count(), frame.where(other).count()]

    def union(frame: Any) -> list[int]:
        both = frame.where(one).union(frame.where(other))
        return [both.count(), frame.where(one).union(frame).count()]

    def join(frame: Any) -> list[int]:
        few = frame.where(one).select("partition").distinct()
        return [few.join(frame, "partition").count()]

    def view_of_frame(frame: Any) -> list[int]:
        frame.createOrReplaceTempView("used")
        return by_sql()

    def view_of_format(_: Any) -> list[int]:
        told = {"paths": json.dumps(PATHS), "view": view, **options}
        given = ", ".join(f"{name} '{value}'" for name, value in told.items())
        spark.sql(f"create or replace temporary view used using kdump options ({given})")
        return by_sql()

    def by_sql() -> list[int]:
        asked = [
            f"from used where {one}",
            f"from used where topic not in (select topic from used where {one})",
        ]
        return [spark.sql(f"select count(*) {text}").collect()[0][0] for text in asked]

    ways: dict[str, tuple[Callable[[Any], list[int]], list[int]]] = {
        "in a row": (in_a_row, [a, whole, b]),
        "union": (union, [a + b, a + whole]),
        "join": (join, [joined]),
        "view": (view_of_frame, [a, whole - a]),
        "view of the format": (view_of_format, [a, whole - a]),
    }
    return {name: (use(frame_of(spark, view, **options)), due) for name, (use, due) in ways.items()}
