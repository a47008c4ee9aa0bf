"""Rows, forms, and statuses of `kdump verify`."""

import csv
import io
import json
import shutil
import tarfile
from pathlib import Path

import corpus
import pytest
from commands import DATA
from each import each
from verify_command import (
    break_batch,
    break_index,
    log,
    rows,
    rows_but_seconds,
    run,
    write_partition,
)


def test_sound_data_has_only_the_summary_row(data: Path) -> None:
    result = run(data)
    (summary,) = rows(result)
    assert (result.exit_code, result.stderr) == (0, "")
    assert summary["row"] == "summary"
    assert (summary["paths"], summary["segments"], summary["batches"]) == (2, 6, 30)
    assert (summary["records_count"], summary["bytes"]) == (60, 6 * len(log(0)))
    assert summary["findings"] == {"damage": 0, "rebuild": 0, "note": 0}
    assert summary["finished"] is True


def test_findings_are_results_and_the_summary_is_last(data: Path) -> None:
    break_batch(data)
    result = run(data)
    found, way, summary = rows(result)
    assert (result.exit_code, result.stderr) == (3, "")
    assert found["row"] == "finding"
    assert (found["code"], found["severity"]) == ("crc-mismatch", "damage")
    assert (found["topic"], found["partition"], found["segment"]) == ("orders", 1, 10)
    assert (found["position"], found["offset"]) == (len(log(0)) // 5, 12)
    assert summary["findings"] == {"damage": 1, "rebuild": 0, "note": 0}
    assert way == {
        "row": "way-past", "topic": "orders", "partition": 1, "offset": found["served_from"],
        "stops_at": 12, "first": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fail_on", "status"), [("never", 0), ("damage", 0), ("rebuild", 3), ("note", 3)]
)
def test_rebuild_sets_the_status(data: Path, fail_on: str, status: int) -> None:
    break_index(data)
    assert run(data, "--fail-on", fail_on).exit_code == status


def test_unreadable_path_exits_with_1_and_damage_stays(data: Path) -> None:
    result = run(data, data / "nowhere")
    assert (result.exit_code, rows(result)[-1]["paths_unfinished"]) == (1, 1)
    assert "nowhere: No such file" in result.stderr
    break_batch(data)
    assert run(data / "nowhere", data).exit_code == 3


def test_no_input_exits_with_1(data: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert run(tmp_path / "empty").exit_code == 1
    assert run("--topic", "nonesuch*", data).exit_code == 1


@each(
    "args",
    [
        [],
        ["--deep", "--quick", "x"],
        ["--quick", "--state", "s", "x"],
        ["--subset", "0/3", "x"],
        ["--subset", "4/3", "x"],
        ["--max-duration", "soon", "x"],
        ["--bwlimit", "0", "x"],
        ["--recheck-after", "3d", "x"],
        ["--format", "kafka", "x"],
    ],
)
def test_wrong_usage_exits_with_2(args: list[str]) -> None:
    assert run(*args).exit_code == 2


def test_one_segment_may_be_verified(data: Path) -> None:
    break_batch(data)
    whole = run(data / "orders-1" / f"{10:020}.log")
    other = run(data / "orders-1" / f"{20:020}.log")
    assert (whole.exit_code, rows(whole)[-1]["segments"]) == (3, 1)
    assert (other.exit_code, rows(other)[-1]["segments"]) == (0, 1)


def test_quiet_prints_findings_only(data: Path) -> None:
    assert run("-q", data).stdout == ""
    break_batch(data)
    assert [row["row"] for row in rows(run("-q", data))] == ["finding"]


def test_csv_has_findings_only(data: Path) -> None:
    break_batch(data)
    (row,) = csv.DictReader(io.StringIO(run("--format", "csv", data).stdout))
    assert (row["row"], row["code"], row["segment"]) == ("finding", "crc-mismatch", "10")


def test_output_is_written_to_a_file(data: Path, tmp_path: Path) -> None:
    target = tmp_path / "found.jsonl"
    result = run("--output", target, data)
    assert result.stdout == ""
    assert json.loads(target.read_text())["row"] == "summary"
    inside = run("--output", data / "found.jsonl", data)
    assert inside.exit_code == 2


def test_table_in_a_pipe(data: Path) -> None:
    break_batch(data)
    result = run("--format", "table", data)
    lines = result.stdout.splitlines()
    assert lines[2].startswith("DAMAGE   orders-1   segment 10   position ")
    assert lines[-1] == "exit status 3"


@pytest.mark.parametrize("jobs", [2, 5])
def test_workers_give_the_same_rows(data: Path, jobs: int) -> None:
    for number in range(2, 12):
        write_partition(data / f"orders-{number}")
    break_batch(data)
    break_index(data)
    assert rows_but_seconds(run("-j", jobs, data)) == rows_but_seconds(run(data))


def test_quick_reports_what_it_checked(data: Path) -> None:
    (summary,) = rows(run("--quick", data))
    assert (summary["segments"], summary["tails"]) == (0, 6)
    assert "tails of 6 segments checked (--quick)" in run("--quick", "--nagios", data).stdout
    assert "the tails of 6 segments" in run("--quick", "--format", "table", data).stdout


@pytest.mark.parametrize("name", ["x.log", "photo.png", "notes.txt", "random.bin", "empty"])
@pytest.mark.parametrize("inside", [True, False])
def test_files_not_from_kafka_are_never_sound(data: Path, name: str, inside: bool) -> None:
    path = (data / "orders-0" if inside else data.parent) / name
    contents = {"x.log": make_tar(), "photo.png": b"\x89PNG\r\n\x1a\n", "empty": b""}
    path.write_bytes(contents.get(name, b"neither a batch nor a message\n" * 40))
    for form in ("table", "jsonl"):
        result = run("--format", form, path)
        assert result.exit_code == 1
        assert "no damage" not in result.stdout.lower()
    assert '"paths":0,' in result.stdout
    assert run("--nagios", path).exit_code == 3


def make_tar() -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("notes.txt"))
    return held.getvalue()


def test_directory_without_a_segment_is_not_sound(tmp_path: Path) -> None:
    (tmp_path / "notes-1").mkdir()
    (tmp_path / "notes-1" / "readme.txt").write_text("no log\n")
    text = run("--format", "table", tmp_path / "notes-1").stdout
    assert "No segment was checked" in text
    assert "damage" not in text


@each("copy", ["live", "clean", "killed", "recovered"])
def test_sound_directories_of_brokers_have_only_notes(copy: str) -> None:
    directory = corpus.corpus(f"modern/data/{copy}")
    result = run("-j", 2, *sorted(directory.iterdir()))
    grave = [row for row in rows(result)[:-1] if row["severity"] != "note"]
    assert grave == []
    assert result.exit_code == 0


def test_directory_named_like_a_log_makes_no_gap(tmp_path: Path) -> None:
    data = shutil.copytree(DATA / "clean/4.1.1/d1", tmp_path / "d1")
    (data / "orders.zstd-0" / f"{9999:020}.log").mkdir()
    result = run("--topic", "orders.zstd", data)
    assert [row["code"] for row in rows(result) if row["row"] == "finding"] == ["file-unknown"]
    assert result.exit_code == 1
    assert f"{9999:020}.log: is a directory" in result.stderr
