"""`kdump find-offset` and `kdump find-time` from the outside: arguments, forms, statuses."""

import csv
import json
import shutil
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import builders
import pytest
from click.testing import Result
from commands import modules_after, run
from each import each
from lookup_rows import TIME, batches, write_segment

from kdump.cli import results
from kdump.cli.find_time import read_target
from kdump.engine.find import run as find
from kdump.engine.find.run import plan

STEM = "00000000000000000000"


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Give a partition with offsets 0 to 5, a record a millisecond."""
    directory = tmp_path / "data" / "orders-7"
    write_segment(directory, 0, batches(0, 2, 4), [], [(TIME + 5, 5)])
    (directory.parent / "replication-offset-checkpoint").write_text("0\n1\norders 7 6\n")
    return directory


def row_of(result: Result) -> dict[str, object]:
    row = json.loads(result.stdout)
    assert isinstance(row, dict)
    return row


def test_offset_lookup_in_a_pipe_prints_one_line(partition: Path) -> None:
    result = run("find-offset", partition, 3)
    row = row_of(result)
    assert (result.exit_code, row["row"], row["offset"]) == (0, "offset-lookup", 3)
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("target", "offset"),
    [
        ("-2", 0),
        ("-1", 6),
        ("-3", 5),
        ("earliest", 0),
        ("latest", 6),
        ("max-timestamp", 5),
        (str(TIME + 3), 3),
        ("2023-11-14T22:13:20.004Z", 4),
        ("2023-11-14T22:13:20.004", 4),
    ],
)
def test_times_are_looked_up(partition: Path, target: str, offset: int) -> None:
    result = run("find-time", partition, target)
    assert (result.exit_code, row_of(result)["offset"]) == (0, offset)


def test_options_may_follow_a_negative_target(partition: Path) -> None:
    result = run("find-time", partition.parent, "-2", "--topic", "ord*", "--format", "reset-csv")
    assert (result.exit_code, result.stdout) == (0, "orders,7,0\n")


def test_negative_offset_is_out_of_range_not_an_option(partition: Path) -> None:
    result = run("find-offset", partition, "-15")
    assert result.exit_code == 4
    assert "OFFSET_OUT_OF_RANGE" in str(row_of(result)["error"])


@each(
    ("command", "args"),
    [
        ("find-offset", []),
        ("find-offset", ["5"]),
        ("find-offset", ["orders-7"]),
        ("find-offset", ["orders-7", "now"]),
        ("find-offset", ["orders-7", "--nonesuch", "5"]),
        ("find-offset", ["-x", "orders-7", "5"]),
        ("find-offset", ["orders-7", "99999999999999999999"]),
        ("find-offset", ["orders-7", "5", "--broker-version", "new"]),
        ("find-time", ["orders-7", "tomorrow"]),
        ("find-time", ["orders-7", "1969-12-31T23:59:59.999Z"]),
        ("find-time", ["orders-7", "now", "--format", "parquet"]),
        ("find-time", ["orders-7", "now", "--check", "--list-offsets-version", "0"]),
        ("find-offset", ["orders-7", "5", "--master", "local[1]"]),
        ("find-time", ["orders-7", "now", "--remote", "sc://host"]),
        ("find-time", ["a", "-1", "--engine", "spark", "--master", "x", "--remote", "y"]),
    ],
)
def test_wrong_usage_exits_with_2(command: str, args: list[str]) -> None:
    assert run(command, *args).exit_code == 2


def test_path_may_look_like_an_option_after_dashes(partition: Path) -> None:
    assert run("find-offset", "--", "-nonesuch", "5").exit_code == 1


def test_relative_times_are_accepted() -> None:
    now = time.time_ns() // 1_000_000
    assert 0 <= now - 1_800_000 - read_target("now-30m") + 1000 < 60_000


def test_status_4_only_when_no_partition_answers(partition: Path) -> None:
    late = run("find-time", partition, TIME + 100)
    assert (late.exit_code, row_of(late)["offset"]) == (4, None)
    other = partition.parent / "audit-0"
    other.mkdir()
    (other / f"{STEM}.log").write_bytes(b"")
    (other / f"{STEM}.index").write_bytes(b"")
    result = run("find-offset", partition.parent, 3)
    assert [json.loads(line)["offset"] for line in result.stdout.splitlines()] == [None, 3]
    assert result.exit_code == 0


def test_missing_path_exits_with_1_after_the_other_lookups(partition: Path) -> None:
    result = run("find-offset", partition.parent / "nonesuch-0", partition, 3)
    assert (result.exit_code, row_of(result)["offset"]) == (1, 3)
    assert run("find-offset", partition.parent, 3, "--topic", "none*").exit_code == 1


def test_old_message_format(partition: Path) -> None:
    result = run("find-time", partition, TIME, "--message-format", "0.9.0")
    assert result.exit_code == 4
    assert "UNSUPPORTED_FOR_MESSAGE_FORMAT" in str(row_of(result)["error"])


def test_wrong_index_is_found_and_fails(partition: Path) -> None:
    size = (partition / f"{STEM}.log").stat().st_size // 3
    entry = (1).to_bytes(4) + (2 * size).to_bytes(4)
    (partition / f"{STEM}.index").write_bytes(entry)
    assert run("find-offset", partition, 2).exit_code == 0
    result = run("find-offset", partition, 2, "--check", "--fail-on", "rebuild")
    row, found = row_of(result), json.loads(result.stderr)
    assert result.exit_code == 3
    assert (row["offset"], row["scan_offset"]) == (4, 2)
    assert (found["code"], found["expected"], found["actual"]) == ("offset-lookup-differs", 2, 4)
    assert "offset 4" in found["message"]
    assert "offset 2" in found["message"]


def test_record_that_stops_consumers_is_damage(partition: Path) -> None:
    path = partition / f"{STEM}.log"
    log = bytearray(path.read_bytes())
    log[-2] ^= 1  # in the last value
    path.write_bytes(log)
    result = run("find-offset", partition, 5)
    assert (result.exit_code, row_of(result)["offset"]) == (3, 5)
    assert json.loads(result.stderr)["code"] == "crc-mismatch"
    assert run("find-offset", "--fail-on", "never", partition, 5).exit_code == 0
    assert run("find-offset", partition, 3).exit_code == 0


@pytest.mark.parametrize(("none", "end"), [(None, 6), ("latest", 6), ("earliest", 0)])
def test_reset_csv_uses_the_log_end_without_later_records(
    partition: Path, none: str | None, end: int
) -> None:
    words = [] if none is None else ["--none", none]
    result = run("find-time", partition, TIME + 100, "--format", "reset-csv", *words)
    assert (result.exit_code, result.stdout) == (0, f"orders,7,{end}\n")
    where = "start" if none == "earliest" else "end"
    assert f"orders-7: no record found; reset to the log {where}, {end}" in result.stderr
    assert f"1 partition: 0 at the record found, 1 at the log {where}" in result.stderr
    row = row_of(run("find-time", partition, TIME + 100, "--none", none or "latest"))
    assert (row["offset"], row["reset_offset"], row["reset_to"]) == (None, end, none or "latest")


def test_reset_csv_omits_partitions_without_an_answer(partition: Path) -> None:
    result = run("find-time", partition, TIME + 100, "--format", "reset-csv", "--none", "skip")
    assert (result.exit_code, result.stdout) == (4, "")
    assert "left out: orders-7: no answer" in result.stderr
    assert "1 partition: 0 at the record found, 1 left out" in result.stderr


def test_reset_csv_clamps_an_offset_out_of_range(partition: Path) -> None:
    checkpoint = partition.parent / "log-start-offset-checkpoint"
    checkpoint.write_text("0\n1\norders 7 2\n")
    for offset, line in ((0, "2"), (3, "3"), (6, "6"), (7_000, "6")):
        result = run("find-offset", partition, offset, "--format", "reset-csv")
        assert (result.exit_code, result.stdout) == (0, f"orders,7,{line}\n")


def test_reset_csv_reports_missing_partitions(partition: Path) -> None:
    broken = partition.parent / "orders-8"
    shutil.copytree(partition, broken)
    size = (broken / f"{STEM}.log").stat().st_size
    with (broken / f"{STEM}.log").open("r+b") as file:
        file.seek(8)
        file.write(bytes(4))  # a length that no batch can have
    assert size
    result = run("find-time", partition.parent, TIME + 3, "--as-is", "--format", "reset-csv")
    assert (result.exit_code, result.stdout) == (1, "orders,7,3\n")
    assert "left out: orders-8: " in result.stderr
    assert "2 partitions: 1 at the record found, 1 left out" in result.stderr


def test_reset_csv_has_one_line_for_replicas(partition: Path) -> None:
    behind = partition.parent.parent / "other" / "orders-7"
    shutil.copytree(partition, behind)
    log = behind / f"{STEM}.log"
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 3])
    (behind / f"{STEM}.timeindex").write_bytes(b"")
    result = run("find-time", behind, partition, TIME + 3, "--as-is", "--format", "reset-csv")
    assert (result.exit_code, result.stdout) == (0, "orders,7,3\n")
    assert "orders-7: replicas give different offsets; the plan has 3" in result.stderr


def test_csv_has_one_header(partition: Path) -> None:
    result = run("find-time", partition, TIME + 1, "--format", "csv")
    (row,) = csv.DictReader(result.stdout.splitlines())
    assert (row["row"], row["offset"], row["error"]) == ("time-lookup", "1", "")


def test_table_shows_the_lookup(partition: Path) -> None:
    asked = ("find-offset", partition, 3, "--broker-version", "4.4", "--format", "table")
    title, heading, _, line = run(*asked).stdout.splitlines()
    assert title == "According to Kafka 4.4:"
    assert heading.split() == "partition offset time segment position batch note".split()
    assert line.split()[:4] == ["orders-7", "3", "2023-11-14T22:13:20.003Z", "0"]


def test_explained_table_starts_with_the_answer(partition: Path) -> None:
    result = run("find-time", partition, TIME + 3, "--explain", "--check", "--format", "table")
    lines = result.stdout.splitlines()
    assert lines[0].startswith("orders-7   offset 3   2023-11-14T22:13:20.003Z   segment 0 ")
    numbered = [line.split()[1] for line in lines if line[:2].strip()][2:]
    assert numbered == ["segment", "timeindex", "index", "scan", "record", "check"]
    assert "a scan of the log finds the same" in lines[-1]


def test_many_skipped_segments_are_condensed(partition: Path) -> None:
    for base in range(6, 30, 2):
        stem = f"{base:020}"
        (partition / f"{stem}.log").write_bytes(
            builders.batch(base_offset=base, base_timestamp=TIME + base)
        )
        (partition / f"{stem}.index").write_bytes(b"")
        time_index = (TIME + base).to_bytes(8) + (0).to_bytes(4)
        (partition / f"{stem}.timeindex").write_bytes(time_index)
    (partition.parent / "replication-offset-checkpoint").unlink()
    args = ("find-time", partition, TIME + 28, "--explain")
    assert "older segments" in run(*args, "--format", "table").stdout
    steps = row_of(run(*args))["steps"]
    assert isinstance(steps, list)
    assert sum(step["step"] == "segment" for step in steps) == 13


def test_quiet_prints_nothing_and_sets_the_status(partition: Path) -> None:
    result = run("find-offset", partition, 77, "-q")
    assert (result.exit_code, result.stdout) == (4, "")


def test_workers_give_the_same_output(partition: Path) -> None:
    for number in range(5):
        other = partition.parent / f"audit-{number}"
        other.mkdir()
        (other / f"{STEM}.log").write_bytes(builders.batch(base_offset=number))
    missing = partition.parent / "nonesuch-0"
    for words in (("find-offset", 3), ("find-time", -1, "--explain", "--format", "table")):
        command, target, *form = words
        args = (command, partition.parent, missing, target, *form)
        alone, together = run(*args), run(*args, "-j", 3)
        assert alone.exit_code == together.exit_code == 1
        assert (together.stdout, together.stderr) == (alone.stdout, alone.stderr)
        assert "orders" in alone.stdout


def test_one_worker_imports_only_its_modules(partition: Path) -> None:
    imported = modules_after("find-offset", str(partition), "3")
    assert "kdump.engine.find.run" in imported
    packages = {name.split(".")[0] for name in imported}
    assert not packages & {"multiprocessing", "pyspark", "pyarrow", "rich"}
    assert not imported & {"kdump.spark", "kdump.engine.work.pipeline"}


def test_vanished_partition_is_not_an_answer(
    partition: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def planned(*asked: Any) -> Iterator[Any]:
        items = list(plan(*asked))
        shutil.rmtree(partition)
        return iter(items)

    monkeypatch.setattr(find, "plan", planned)
    result = run("find-offset", partition, 3)
    assert (result.exit_code, result.stdout) == (4, "")
    found = json.loads(result.stderr)
    assert (found["code"], found["path"]) == ("file-vanished", str(partition))


def test_buffered_rows_are_printed_on_interrupt(
    partition: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pour = results.pour

    def interrupted(items: Iterable[Any], *others: Any) -> None:
        def some() -> Iterator[Any]:
            yield next(iter(items))
            raise KeyboardInterrupt

        pour(some(), *others)

    monkeypatch.setattr(results, "is_terminal", lambda file: True)
    monkeypatch.setattr(results, "pour", interrupted)
    result = run("find-offset", partition, 3)
    assert result.exit_code == 1
    assert result.stdout.splitlines()[3].startswith("orders-7 ")


def test_output_of_a_fetch_is_exactly_its_bytes(partition: Path, tmp_path: Path) -> None:
    log = (partition / f"{STEM}.log").read_bytes()
    out = tmp_path / "out" / "fetched"
    out.parent.mkdir()
    fetch = ("find-offset", partition, 2, "--max-bytes", 100, "--output", out)
    result = run(*fetch)
    row = row_of(result)
    assert (result.exit_code, row["row"], row["size_bytes"]) == (0, "fetch", 100)
    assert out.read_bytes() == log[row["position"] : row["end_position"]]
    assert "wrote" in result.stderr
    assert run(*fetch, "--force").exit_code == 5  # it looks like a file of a broker
    out.unlink()
    shutil.copytree(partition, partition.parent / "orders-8")
    refused = run("find-offset", partition.parent, *fetch[2:])
    assert (refused.exit_code, out.exists()) == (2, False)
    assert "bytes of one partition" in refused.stderr
    for extra in ("--check", "--none=skip", "--format=reset-csv"):
        assert run(*fetch, extra).exit_code == 2
    assert run("find-offset", partition, 2, "--max-offset", 3).exit_code == 2
    table = run("find-offset", partition, 3, "--max-bytes", 10, "--format", "table")
    assert "the first entry needs" in table.stdout
