"""The views of replayed topics against the rows of the commands that replay."""

import json
from pathlib import Path
from typing import Any

import pytest
from commands import run
from offsets_log import Log, commit

from kdump.spark.schema import columns_of

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]
SAMPLE = Path(__file__).parents[2] / "sample-data/clean"
GROUPS, METADATA = SAMPLE / "4.4.0", SAMPLE / "4.1.1"
Json = dict[str, Any]


def read(spark: Any, path: Path, **options: str) -> Any:
    return spark.read.format("kdump").options(**options).load(str(path))


def of_command(name: str, *words: object) -> list[Json]:
    result = run(name, *words)
    return [json.loads(line) for line in result.stdout.splitlines()]


def as_columns(row: Json, view: str, cluster_id: str | None) -> Json:
    """Write a row of a command as the view has it; every member must have a column."""
    kinds = columns_of(view)
    if row["row"] == "controller":
        row["leads"] = row.pop("leader")
    assert not row.keys() - kinds.keys()
    made = dict.fromkeys(kinds) | {k: v for k, v in row.items() if k in kinds}
    for name, kind in kinds.items():
        if kind == "string" and not isinstance(made[name], str | None):
            made[name] = json.dumps(made[name], ensure_ascii=False, separators=(",", ":"))
    owner = dict.fromkeys(("node_id", "data_directory"))
    return made | owner | {"cluster_id": cluster_id}


def of_spark(table: Any) -> list[Json]:
    rows = [row.asDict(recursive=True) for row in table.collect()]
    places = dict.fromkeys(("node_id", "data_directory"))  # of the few that name a path
    return sorted((row | places for row in rows), key=str)


@pytest.mark.parametrize(
    ("view", "path", "words", "options"),
    [
        ("groups", GROUPS, ["groups"], {}),
        (
            "groups",
            GROUPS,
            ["groups", "--group", "b*", "--topic", "orders", "--at", "1795350100000"],
            {"group": "b*", "topic": "orders", "atMs": "1795350100000"},
        ),
        ("commits", GROUPS, ["groups", "--history"], {}),
        ("transactions", METADATA, ["transactions"], {}),
        ("metadata", METADATA, ["cluster", "--at", "1000"], {"atOffset": "1000"}),
        ("metadata", METADATA, ["cluster", "--history"], {"history": "true"}),
    ],
)
def test_rows_equal_those_of_the_command(
    spark: Any, view: str, path: Path, words: list[str], options: dict[str, str]
) -> None:
    theirs = of_command(*words, path)
    if view == "commits":  # members and generations are of the command alone
        theirs = [row for row in theirs if row["row"] in ("offset-commit", "finding")]
    (cluster_id,) = {
        row["cluster_id"] for row in of_command("cluster", path) if "cluster_id" in row
    }
    expected = sorted((as_columns(row, view, cluster_id) for row in theirs), key=str)
    assert len(expected) > 1
    assert of_spark(read(spark, path, view=view, **options)) == expected


def test_clusters_are_kept_apart(spark: Any, tmp_path: Path) -> None:
    """Directories of two clusters, and of brokers that do not say which; each is one replay."""
    for name, cluster in (("a1", "A"), ("a2", "A"), ("b1", "B"), ("c1", None)):
        log = Log()
        log.add(commit("billing", "orders-0", 7 if name == "a2" else 5))
        if name == "a2":  # goes further than the replica in a1
            log.add(commit("billing", "orders-0", 9))
        made = tmp_path / name / "__consumer_offsets-0"
        made.mkdir(parents=True)
        (made / f"{0:020}.log").write_bytes(b"".join(log.batches))
        if cluster is not None:
            meta = f"version=1\nnode.id=1\ncluster.id={cluster}\n"
            (tmp_path / name / "meta.properties").write_text(meta)
    table = read(spark, tmp_path, view="groups").where("row = 'committed-offset'")
    assert sorted((row.cluster_id or "", row.offset) for row in table.collect()) == [
        ("", 5),
        ("A", 9),
        ("B", 5),
    ]
    one = read(spark, tmp_path / "b1" / "__consumer_offsets-0", view="groups")
    assert {row.cluster_id for row in one.collect()} == {"B"}


def test_missing_partitions_have_a_row(spark: Any, tmp_path: Path) -> None:
    log = Log()
    log.add(commit("billing", "orders-0", 5))
    log.add(commit("billing", "orders-0", 6))
    made = tmp_path / "__consumer_offsets-0"
    made.mkdir()
    data = bytearray(b"".join(log.batches))
    data[len(log.batches[0]) + 70] ^= 1
    (made / f"{0:020}.log").write_bytes(data)
    rows = read(spark, tmp_path, view="groups").collect()
    told = {row.code for row in rows if row.row == "finding"}
    assert told == {"crc-mismatch", "replay-incomplete"}


def test_a_cluster_without_the_topic_has_no_rows(spark: Any) -> None:
    assert read(spark, METADATA / "d2" / "orders.plain-0", view="groups").count() == 0
