"""`kdump usage` and `kdump sequences` from the outside: arguments, forms, statuses."""

import csv
import json
from pathlib import Path

import builders
import damage
import pytest
from commands import modules_after, read_rows, run
from producing import data, write_log


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Give a data directory with two topics, the second larger."""
    for topic, count in (("orders", 3), ("payments", 9)):
        log = tmp_path / f"{topic}-0" / f"{0:020}.log"
        log.parent.mkdir()
        log.write_bytes(
            builders.batch([builders.record(n, key=b"k\xff", value=b"v") for n in range(count)])
        )
    return tmp_path


def test_usage_in_a_pipe_is_rows_and_a_summary(directory: Path) -> None:
    result = run("usage", directory)
    assert result.exit_code == 0
    rows = read_rows(result)
    assert [row["row"] for row in rows] == ["usage", "usage", "usage-summary"]
    assert [row.get("topic") for row in rows] == ["payments", "orders", None]
    assert rows[0]["share"] + rows[1]["share"] == pytest.approx(1)
    assert rows[2]["records_count"] == 12


def test_usage_in_csv_is_one_table(directory: Path) -> None:
    lines = list(csv.DictReader(run("usage", "--format", "csv", directory).stdout.splitlines()))
    assert [line["topic"] for line in lines] == ["payments", "orders"]


def test_words_in_any_order(directory: Path) -> None:
    rows = read_rows(run("usage", "--by", "codec,topic", directory))
    assert list(rows[0])[:4] == ["row", "by", "topic", "codec"]
    assert rows[0]["by"] == "topic,codec"


@pytest.mark.parametrize("by", ["colour", "key,codec", "", "topic,,", "hour,day", "day,key"])
def test_invalid_group_words(directory: Path, by: str) -> None:
    assert run("usage", "--by", by, directory).exit_code == 2


@pytest.mark.parametrize(("by", "time"), [("hour", "2023-11-14T22:00:00Z"), ("day", "2023-11-14")])
def test_bars_of_hours_and_days(directory: Path, by: str, time: str) -> None:
    lines = run("usage", "--format", "table", "--by", f"topic,{by}", directory).stdout.splitlines()
    assert lines[0].split()[:2] == ["topic", by]
    cells = [line.split() for line in lines[2:4]]
    assert [(one[0], one[1], one[5]) for one in cells] == [
        ("payments", time, "█" * 10),  # whatever its share of all
        ("orders", time, "█" * 6),
    ]


def test_keys_are_written_in_the_requested_form(directory: Path) -> None:
    row = read_rows(run("usage", "--by", "key", "--bytes", "hex", directory))[0]
    assert (row["key"], row["key_size_bytes"], row["records_count"]) == ("6bff", 2, 12)


@pytest.mark.parametrize(("args", "shown"), [((), 20), (("--top", 3), 3), (("--top", 0), 30)])
def test_top_limits_rows(tmp_path: Path, args: tuple[object, ...], shown: int) -> None:
    log = tmp_path / "orders-0" / f"{0:020}.log"
    log.parent.mkdir()
    log.write_bytes(builders.batch([builders.record(n, key=b"%d" % n) for n in range(30)]))
    rows = read_rows(run("usage", "--by", "key", *args, tmp_path))
    assert len(rows) == shown + 1
    assert (rows[-1]["groups"], rows[-1]["listed"]) == (30, shown)


def test_damage_is_reported_and_not_counted(directory: Path) -> None:
    log = directory / "orders-0" / f"{0:020}.log"
    whole = log.read_bytes()
    log.write_bytes(damage.flip(whole, 70) + builders.batch(base_offset=3))
    result = run("usage", directory)
    assert result.exit_code == 3
    assert json.loads(result.stderr)["code"] == "crc-mismatch"
    assert read_rows(result)[-1]["bytes_not_counted"] == len(whole)
    assert run("usage", "--fail-on", "never", directory).exit_code == 0


def test_missing_path_exits_with_1(directory: Path) -> None:
    for command in ("usage", "sequences"):
        result = run(command, directory / "nowhere", directory)
        assert result.exit_code == 1
        assert read_rows(result)[-1]["paths_unfinished"] == 1


def test_missing_selection() -> None:
    for command in ("usage", "sequences"):
        assert run(command).exit_code == 2
        assert run(command, "--master", "local[2]", ".").exit_code == 2


def test_sequence_findings_are_notes(tmp_path: Path) -> None:
    path = write_log(tmp_path, {0: [data(0, 7, 0), data(1, 7, 5), data(2, 7, 5)]})
    result = run("sequences", path)
    assert result.exit_code == 0
    rows = read_rows(result)
    assert [row["row"] for row in rows] == [
        "sequence-gap", "sequence-duplicate", "sequence-summary",
    ]  # fmt: skip
    assert (rows[-1]["gaps"], rows[-1]["duplicates"]) == (1, 1)
    assert run("sequences", "--fail-on", "note", path).exit_code == 3
    assert run("sequences", "--fail-on", "rebuild", path).exit_code == 0


def test_explained_rows_need_the_option(tmp_path: Path) -> None:
    path = write_log(tmp_path, {0: [data(0, 7, 0), data(9, 7, 5)]})
    assert len(read_rows(run("sequences", path))) == 1
    rows = read_rows(run("sequences", "--explained", "--fail-on", "note", path))
    assert [row.get("kind") for row in rows] == ["removed", None]
    assert run("sequences", "--explained", "--fail-on", "note", path).exit_code == 0


def test_same_output_from_several_workers(directory: Path) -> None:
    for command in (("usage", "--by", "partition"), ("sequences",)):
        wanted = run(*command, directory).stdout
        assert run(*command, "-j", 2, directory).stdout == wanted


def test_tables_fit_the_terminal(directory: Path) -> None:
    """What a terminal shows; the forms are asked for, so that no terminal is needed."""
    table = run("usage", "--format", "table", directory).stdout
    lines = table.splitlines()
    assert lines[0].split()[:2] == ["topic", "size"]
    assert lines[2].startswith("payments")
    assert lines[-1].startswith("total: ")
    broken = directory / "orders-1"
    write_log(directory, {0: [data(0, 7, 0), data(1, 7, 5)]}).rename(broken)
    table = run("sequences", "--format", "table", broken).stdout
    assert "orders-1" in table
    assert "1 gap (4 numbers missing)" in table


def test_fleet_commands_load_neither_spark_nor_arrow(directory: Path) -> None:
    assert not {"pyspark", "pyarrow", "py4j"} & modules_after("usage", str(directory))


def test_verify_sums_by_broker_and_topic(directory: Path) -> None:
    result = run("verify", "--summary-by", "topic, broker", directory)
    rows = [row for row in read_rows(result) if row["row"] != "finding"]
    assert [row["row"] for row in rows] == ["summary-by", "summary-by", "summary"]
    assert [(row["broker"], row["topic"]) for row in rows[:2]] == [
        (str(directory), "orders"), (str(directory), "payments"),
    ]  # fmt: skip
    assert sum(row["records_count"] for row in rows[:2]) == rows[2]["records_count"]
    table = run("verify", "--format", "table", "--summary-by", "topic", directory).stdout
    assert "\ntopic " in table
    assert run("verify", "--summary-by", "rack", directory).exit_code == 2


def test_quiet_prints_no_rows(directory: Path) -> None:
    for command in ("usage", "sequences"):
        assert run(command, "-q", directory).stdout == ""
