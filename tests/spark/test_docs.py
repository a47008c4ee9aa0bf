"""The page docs/spark.md shows what its examples print."""

import doctest
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from directories import CLUSTER
from fleet import LOG_END, PARTITIONS, make_fleet
from s3_server import s3_environment, upload, why_no_server

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]
ROOT = Path(__file__).parents[2]


def test_page_shows_the_output_of_its_examples(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    page = (ROOT / "docs/spark.md").read_text("utf-8")
    examples = "\n".join(re.findall(r"```pycon\n(.*?)```", page, re.DOTALL))
    assert examples
    test = doctest.DocTestParser().get_doctest(examples, {"spark": spark}, "spark.md", None, 0)
    said: list[str] = []
    options = doctest.NORMALIZE_WHITESPACE | doctest.REPORT_NDIFF
    doctest.DocTestRunner(optionflags=options).run(test, out=said.append)
    assert not said, "".join(said)


@pytest.mark.parametrize("place", ["disks", "store"])
def test_fleet_queries_of_the_page_run(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Ten brokers, of which three are damaged, and what the statements of the page say of them."""
    make_fleet(tmp_path)
    root = str(tmp_path)
    if place == "store":
        if reason := why_no_server():
            pytest.skip(reason)
        for name, value in s3_environment().items():
            monkeypatch.setenv(name, value)
        root = upload(tmp_path, "fleet")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    page = (ROOT / "docs/fleet-on-spark.md").read_text("utf-8")
    assert "regexp" not in page
    blocks = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    answers = []
    for statement in ";".join(blocks).replace("/mnt/brokers", root).split(";"):
        if statement.strip():
            rows = spark.sql(statement).collect()
            if not statement.strip().startswith("CREATE"):
                answers.append([tuple(row) for row in rows])
    damaged, behind, by_hour, lag, twice, sizes, following, since = answers
    assert damaged == [
        (CLUSTER, 1, "damage", "crc-mismatch", 1),
        (CLUSTER, 3, "damage", "log-end-lost", 1),
        (CLUSTER, 6, "rebuild", "checkpoint-malformed", 1),
    ]
    assert behind == [(CLUSTER, "orders", 2, 3, 10)]
    hour = datetime.fromisoformat("2023-11-14T22:00")
    topics = {"__consumer_offsets": 3, "orders": PARTITIONS * LOG_END, "payments": 5 * LOG_END}
    assert by_hour == [(CLUSTER, topic, hour, count) for topic, count in topics.items()]
    assert lag == [(CLUSTER, "billing", "orders", 3, 13 + 0 + 8)]
    assert twice == [(CLUSTER, topic, "k", "v", 100) for topic in ("orders", "payments")]
    assert [row[:4] for row in sizes if row[1] == 4] == [
        (CLUSTER, 4, "__consumer_offsets", 1),
        (CLUSTER, 4, "orders", 6),
    ]
    assert all(
        row[4] > 0 and row[5].replace(minute=0, second=0, microsecond=0) == hour for row in sizes
    )
    assert following[1:6] == [("orders", number, LOG_END) for number in range(PARTITIONS)]
    assert since == [(0, 18, 2), *((number, 0, LOG_END) for number in range(2, PARTITIONS))]
