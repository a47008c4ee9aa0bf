"""`kdump salvage` from the outside: arguments, forms, statuses, and what is said at the end."""

import csv
import json
from functools import partial
from pathlib import Path

import commands
import pytest
from commands import read_rows
from comparing import batches, replica, rewrite_record
from salvaging import break_batch
from terminals import on_terminal

from kdump.cli import status
from kdump.cli.salvage_report import SalvageReport
from kdump.engine.salvage.options import SalvageOptions
from kdump.findings.finding import finding

LOG = batches(0, 30)


@pytest.fixture
def copies(tmp_path: Path) -> list[Path]:
    """Give two data directories, which together have a whole partition."""
    one = replica(tmp_path, "one", [*LOG[:2], break_batch(LOG[2]), *LOG[3:]])
    return [one, replica(tmp_path, "two", LOG[:4])]


run = partial(commands.run, "salvage")


carve = partial(commands.run, "carve")


def test_dry_run_writes_nothing(copies: list[Path], tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    for more in ((), ("--dry-run",), ("--dry-run", "--out", tmp_path / "out")):
        result = run(*more, *copies)
        assert result.exit_code == 0
        (row,) = read_rows(result)
        assert (row["row"], row["records_count"], row["lost"]) == ("salvaged", 30, [])
    assert sorted(tmp_path.rglob("*")) == before


def test_lost_records_set_the_status(copies: list[Path]) -> None:
    result = run(copies[0])
    assert result.exit_code == 3
    assert read_rows(result)[0]["lost"] == [[10, 14]]
    assert run("--fail-on", "never", copies[0]).exit_code == 0


def test_records_that_did_not_arrive_have_a_status_of_their_own() -> None:
    report = SalvageReport(SalvageOptions(), is_check=True)
    assert report.status(status.FINDINGS) == status.FINDINGS
    assert report.takes(finding("produced-short", path="orders-0"))
    reached = (status.DONE, status.FINDINGS, status.REFUSED)
    assert [*map(report.status, reached)] == [status.DONE, status.NOT_DONE, status.REFUSED]


def test_result_is_built_and_verified(copies: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run("--out", out, *copies).exit_code == 0
    assert (out / "orders-0" / f"{0:020}.index").is_file()
    manifest = tmp_path / "out.manifest.json"
    assert run("--check", manifest, out).exit_code == 0
    (out / "more").touch()
    result = run("--check", manifest, out)
    assert result.exit_code == 3
    assert [row["path"] for row in read_rows(result) if row["outcome"] != "same"] == ["more"]
    again = run("--out", out, *copies)
    assert again.exit_code == 5
    assert "is not empty" in again.stderr


def test_conflict_is_refused(tmp_path: Path) -> None:
    one = replica(tmp_path, "one", LOG)
    two = replica(tmp_path, "two", [rewrite_record(LOG[0], 2, b"other"), *LOG[1:]])
    assert run(one, two).exit_code == 3
    result = run("--out", tmp_path / "out", one, two)
    assert result.exit_code == 5
    assert "--prefer" in result.stderr
    assert run("--prefer", two, "--out", tmp_path / "out", one, two).exit_code == 0


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--check", "m", "--out", "out"), "--check needs"),
        (("--topic-id", "short"), "22 characters"),
        (("--apply-groups",), "--apply-groups was replaced by: kdump produce"),
        (("--carve",), "--carve was replaced by: kdump carve"),
        (("--out", "s3://bucket/out"), "is in a store"),
    ],
)
def test_wrong_usage_exits_with_2(words: tuple[str, ...], why: str, copies: list[Path]) -> None:
    result = run(*words, copies[0])
    assert result.exit_code == 2
    assert why in result.stderr


def test_tables_and_csv(copies: list[Path]) -> None:
    table = run("--format", "table", *copies).stdout
    assert "orders-0" in table
    assert "10" in table
    title, legend = table.splitlines()[:2]
    cell = table.split("from ")[1]
    assert title.startswith("According to Kafka ")
    assert legend == f"A = {copies[0]}"  # once, and a letter in its place
    assert cell.startswith("A: ")
    assert table.count(str(copies[0])) == 1
    (line,) = csv.DictReader(run("--format", "csv", *copies).stdout.splitlines())
    assert json.loads(line["lost"]) == []


def test_terminal_output_names_the_next_command(copies: list[Path], tmp_path: Path) -> None:
    status, written = on_terminal("salvage", *map(str, copies))
    assert status == 0
    assert b"Nothing was written. To build it:\r\n  kdump salvage" in written
    out = tmp_path / "out"
    status, written = on_terminal("salvage", "--out", str(out), *map(str, copies))
    assert status == 0
    text = written.decode().replace("\r", "")
    assert f'  cp -a {out}/orders-0 "${{LOG_DIR:?}}"\n' in text
    assert '  rm -f "${LOG_DIR:?}"/.kafka_cleanshutdown\n' in text


def test_image_is_carved(tmp_path: Path) -> None:
    image, names = tmp_path / "disk.img", tmp_path / "names"
    image.write_bytes(bytes(4096) + b"".join(batch.data() for batch in LOG))
    result = carve(image)
    assert result.exit_code == 0
    carved, row = read_rows(result)
    assert (carved["row"], carved["batches"], carved["torn"]) == ("carved", len(LOG), 0)
    assert (row["topic"], row["records_count"]) == ("carved-1", 30)
    names.write_text("carved-1,orders-7\n")
    row = read_rows(carve("--topic-map", names, image))[1]
    assert (row["topic"], row["partition"], row["carved"][0]["named_by"]) == (
        "orders",
        7,
        "topic-map",
    )
    names.write_text("carved-1,orders\n")
    result = carve("--topic-map", names, image)
    assert result.exit_code == 1
    assert "carved-1,TOPIC-PARTITION" in result.stderr
    result = carve(tmp_path / "not-there.img", image)
    assert result.exit_code == 1
    assert len(read_rows(result)) == 2
    status, written = on_terminal("carve", str(image))
    assert status == 0
    assert b"The partition of carved-1 is unknown." in written


def test_directory_in_place_of_a_log_hides_no_copy(tmp_path: Path) -> None:
    copy = replica(tmp_path, "one", LOG[:2])
    (copy / "orders-0" / f"{9999:020}.log").mkdir()
    (row,) = read_rows(run(copy))
    assert (row["first_offset"], row["last_offset"]) == (LOG[0].base, LOG[1].last)
    forecast = commands.run("predict", copy)
    (start,) = (one for one in read_rows(forecast) if one["row"] == "recovery")
    assert start["log_end_before"] == LOG[1].last + 1
    checked = read_rows(commands.run("verify", "--broker-version", "4.4", copy))
    codes = [row["code"] for row in checked if row["row"] == "finding"]
    assert codes.count("file-unknown") == 1
    assert "segment-missing" not in codes
    assert checked[-1]["findings"]["damage"] == 0
