"""`kdump verify` from the outside: rows, forms, statuses, and what cron needs."""

import csv
import io
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import builders
import corpus
import damage
import pytest
from click.testing import CliRunner, Result
from node_starts import Node, unpacked

from kdump.cli import cli
from kdump.engine.verify.options import VerifyOptions
from kdump.engine.verify.run import verify
from kdump.findings.commands import command_for
from kdump.findings.finding import Finding

TIME = 1_700_000_000_000
BASES = (0, 10, 20)


def log(base: int) -> bytes:
    return b"".join(
        builders.batch(
            [builders.record(n, 0, b"k", b"v" * 20) for n in range(2)],
            base_offset=base + more,
            base_timestamp=TIME,
            max_timestamp=TIME,
        )
        for more in range(0, 10, 2)
    )


def write_partition(directory: Path) -> Path:
    """Write three segments with all that belongs to them."""
    directory.mkdir(parents=True)
    for base in BASES:
        path = directory / f"{base:020}.log"
        path.write_bytes(log(base))
        path.with_suffix(".index").write_bytes(b"")
        path.with_suffix(".timeindex").write_bytes(TIME.to_bytes(8) + (1).to_bytes(4))
    (directory / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    return directory


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Give a directory with two sound partitions."""
    for number in range(2):
        write_partition(tmp_path / "data" / f"orders-{number}")
    return tmp_path / "data"


def break_batch(data: Path) -> None:
    path = data / "orders-1" / f"{10:020}.log"
    path.write_bytes(damage.flip(path.read_bytes(), len(log(0)) // 5 + 70))


def break_index(data: Path) -> None:
    (data / "orders-0" / f"{0:020}.index").unlink()


def run(*args: object) -> Result:
    return CliRunner().invoke(cli, ["verify", *map(str, args)])


def names_in(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def rows(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_sound_data_has_one_row_the_summary(data: Path) -> None:
    result = run(data)
    (summary,) = rows(result)
    assert (result.exit_code, result.stderr) == (0, "")
    assert summary["row"] == "summary"
    assert (summary["paths"], summary["segments"], summary["batches"]) == (2, 6, 30)
    assert (summary["records_count"], summary["bytes"]) == (60, 6 * len(log(0)))
    assert summary["findings"] == {"damage": 0, "rebuild": 0, "note": 0}
    assert summary["finished"] is True


def test_a_finding_is_a_result_and_the_summary_comes_last(data: Path) -> None:
    break_batch(data)
    result = run(data)
    found, summary = rows(result)
    assert (result.exit_code, result.stderr) == (3, "")
    assert found["row"] == "finding"
    assert (found["code"], found["severity"]) == ("crc-mismatch", "damage")
    assert (found["topic"], found["partition"], found["segment"]) == ("orders", 1, 10)
    assert (found["position"], found["offset"]) == (len(log(0)) // 5, 12)
    assert summary["findings"] == {"damage": 1, "rebuild": 0, "note": 0}


@pytest.mark.parametrize(
    ("fail_on", "status"), [("never", 0), ("damage", 0), ("rebuild", 3), ("note", 3)]
)
def test_status_of_a_rebuild(data: Path, fail_on: str, status: int) -> None:
    break_index(data)
    assert run(data, "--fail-on", fail_on).exit_code == status


def test_a_path_that_cannot_be_read_is_1_and_damage_stays_true(data: Path) -> None:
    result = run(data, data / "nowhere")
    assert (result.exit_code, rows(result)[-1]["paths_unfinished"]) == (1, 1)
    assert "nowhere: No such file" in result.stderr
    break_batch(data)
    assert run(data / "nowhere", data).exit_code == 3


def test_nothing_to_work_on_is_1(data: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert run(tmp_path / "empty").exit_code == 1
    assert run("--topic", "nonesuch*", data).exit_code == 1


@pytest.mark.parametrize(
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
        ["--recovery-rate", "1MiB", "x"],
        ["--recovery-threads", "1", "x"],
        ["--predict", "--recovery-threads", "0", "x"],
        ["--format", "kafka", "x"],
    ],
)
def test_wrong_usage(args: list[str]) -> None:
    assert run(*args).exit_code == 2


def test_one_segment_may_be_named(data: Path) -> None:
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


def test_output_goes_to_a_file(data: Path, tmp_path: Path) -> None:
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
    assert lines[-1] == "status 3"


def rows_but_seconds(result: Result) -> list[dict[str, Any]]:
    found = rows(result)
    del found[-1]["seconds"]
    return found


@pytest.mark.parametrize("jobs", [2, 5])
def test_workers_change_no_row(data: Path, jobs: int) -> None:
    for number in range(2, 12):
        write_partition(data / f"orders-{number}")
    break_batch(data)
    break_index(data)
    assert rows_but_seconds(run("-j", jobs, data)) == rows_but_seconds(run(data))


def test_predictions_are_rows_behind_the_findings_of_their_partition(data: Path) -> None:
    break_batch(data)
    result = run("--predict", "--broker-version", "2.8", data)
    kinds = [(row["row"], row.get("partition")) for row in rows(result)]
    assert kinds == [
        ("recovery", 0),
        ("finding", 1),
        ("finding", 1),  # of what is foretold
        ("recovery", 1),
        ("node-start", None),
        ("node-start", None),  # what is not known of it
        ("summary", None),
    ]
    assert rows(result)[2]["code"] == "start-loses-records"
    assert rows(result)[0]["outcome"] == "recover"
    assert rows_but_seconds(
        run("--predict", "--broker-version", "2.8", "-j", 2, data)
    ) == rows_but_seconds(result)
    assert "What the next start would do:" in run("--predict", "--format", "table", data).stdout


def test_a_broker_that_would_not_start_is_a_row_of_its_own(data: Path) -> None:
    (data / "no partition").mkdir()
    result = run("--predict", data)
    *_, refusal, _ = rows(result)
    assert result.exit_code == 3
    assert (refusal["row"], refusal["topic"]) == ("recovery", None)
    assert (refusal["outcome"], refusal["path"]) == ("refuses-to-start", str(data))


def test_a_forecast_that_loses_records_fails_and_sums_up(data: Path) -> None:
    broken = data / "orders-1" / f"{20:020}.log"
    broken.write_bytes(broken.read_bytes()[:-9])
    assert run("--predict", "--fail-on", "never", data).exit_code == 0
    assert run("--predict", "--nagios", data).exit_code == 2
    result = run("--predict", "--format", "table", "--recovery-rate", "1k", data)
    assert result.exit_code == 3
    text = " ".join(result.stdout.split())
    assert "start-loses-records: The next start loses 2 records from offset 28 on" in text
    assert "In all: re-reads 6 segments, " in text
    assert " at 1.0 KiB/s a thread and 2 recovery threads a data directory;" in text
    assert "2 records lost in 1 partition." in text


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return unpacked("4.4.0", 1, tmp_path / "node")


def test_whether_a_node_starts_comes_first_in_the_table_and_as_rows_in_a_pipe(node: Node) -> None:
    asked = ("--predict", "--server-properties", node.server_properties)
    sound = run(*asked)
    assert sound.exit_code == 0
    assert [row["outcome"] for row in rows(sound) if row["row"] == "node-start"] == ["starts"]
    assert "\nThe node starts.\n" in run(*asked, "--format", "table").stdout
    node.write_meta({"node.id": "99"})
    refused = run(*asked)
    assert refused.exit_code == 3
    (row,) = (row for row in rows(refused) if row["row"] == "node-start")
    assert list(row) == ["row", "outcome", "cause", "message", "path", "remedy"]
    assert (row["outcome"], row["cause"]) == ("refuses", "node-id")
    assert row["message"].startswith("Stored node id 99 doesn't match previous node id 1 in ")
    assert rows(refused)[-1]["codes"] == {"start-refused": 1}
    verdict, *said = run(*asked, "--format", "table").stdout.splitlines()[2:]
    assert verdict == "THE NODE DOES NOT START: node-id"
    assert sum("Stored node id 99" in line for line in said) == 1
    assert run(*asked, "--fail-on", "never").exit_code == 0
    assert "start-refused in" in run(*asked, "--nagios").stdout


def test_without_settings_is_said_what_is_not_known(node: Node) -> None:
    result = run("--predict", node.first)
    found = [row for row in rows(result) if row["row"] == "node-start"]
    assert result.exit_code == 0
    assert [row["outcome"] for row in found] == ["starts", "unknown"]


def test_an_emptied_volume_has_its_row_though_it_has_no_partition(node: Node) -> None:
    shutil.rmtree(node.first)
    node.first.mkdir()
    result = run("--predict", "--server-properties", node.server_properties, node.first)
    (row,) = (row for row in rows(result) if row["row"] == "node-start")
    assert (row["outcome"], row["cause"]) == ("refuses", "meta-missing")
    assert result.exit_code in (1, 3)


def test_rights_are_those_of_the_user_that_is_named(node: Node) -> None:
    (node.first / "meta.properties").chmod(0o600)
    asked = ("--predict", "--server-properties", node.server_properties)
    assert run(*asked, "--as-user", os.getuid()).exit_code == 0
    result = run(*asked, "--as-user", "54321")
    told = [row for row in rows(result) if row["row"] == "node-start"]
    assert {(row["outcome"], row["cause"]) for row in told} == {("refuses", "permission")}
    files = [Path(row["path"]).name for row in told]
    assert files == ["meta.properties", ".lock"]  # all obstacles, in the broker's order
    assert run(*asked, "--as-user", "nobody of that name").exit_code == 2
    assert run("--as-user", "54321", node.first).exit_code == 2


def test_slices_together_are_everything(data: Path) -> None:
    break_batch(data)
    slices = [rows(run("--subset", f"{number}/3", data)) for number in (1, 2, 3)]
    assert sum(each[-1]["segments"] for each in slices) == 6
    assert sum(each[-1]["not_checked"].get("segments_outside_subset", 0) for each in slices) == 12
    assert [row["code"] for each in slices for row in each[:-1]] == ["crc-mismatch"]


def test_a_slice_is_always_the_same(data: Path) -> None:
    before = rows(run("--subset", "1/3", data))[-1]["segments"]
    shutil.move(data / "orders-0", data.with_name("orders-0"))
    after = [rows(run("--subset", "1/3", path))[-1] for path in (data, data.with_name("orders-0"))]
    assert sum(each["segments"] for each in after) == before


def test_no_time_left_is_no_error_and_the_summary_says_what_is_left(data: Path) -> None:
    break_batch(data)
    result = run("--max-duration", "0", data)
    (summary,) = rows(result)
    assert result.exit_code == 0
    assert summary["finished"] is False
    assert summary["not_checked"]["segments_out_of_time"] == 6


def test_a_batch_over_the_limit_is_a_note_and_not_checked(data: Path) -> None:
    packed = builders.batch(
        [builders.record(n, 0, b"k", b"v" * 5000) for n in range(2)],
        attributes=1,
        compress=builders.gzip_bytes,
        base_offset=30,
        base_timestamp=TIME,
        max_timestamp=TIME,
    )
    path = data / "orders-0" / f"{20:020}.log"
    path.write_bytes(path.read_bytes() + packed)
    note, summary = rows(run("--deep", "--decompress-limit", "1000", data))
    assert (note["code"], note["severity"]) == ("over-decompress-limit", "note")
    assert summary["not_checked"] == {"batches_over_limit": 1}
    assert "not_checked=1" in run("--nagios", "--deep", "--decompress-limit", "1k", data).stdout


def test_bwlimit_slows_down(data: Path) -> None:
    started = time.monotonic()
    run("--bwlimit", "10k", data)
    assert time.monotonic() - started > 0.15  # 3,500 bytes and the burst before them


def test_state_leaves_out_what_was_seen_and_tells_of_it_again(data: Path, tmp_path: Path) -> None:
    break_batch(data)
    state = tmp_path / "state"
    first = run("--state", state, data)
    second = run("--state", state, data)
    assert [result.exit_code for result in (first, second)] == [3, 3]
    assert rows(first)[:-1] == rows(second)[:-1]
    assert [rows(result)[-1]["segments"] for result in (first, second)] == [6, 2]
    assert names_in(tmp_path) == {"data", "state"}


def test_a_state_that_is_none_is_told_of_and_replaced(data: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.write_bytes(b"\0\1garbage")
    assert run("--state", state, data).exit_code == 5
    assert state.read_bytes() == b"\0\1garbage"
    result = run("--force", "--state", state, data)
    assert result.exit_code == 0
    assert "everything is verified anew" in result.stderr
    assert rows(run("--state", state, data))[-1]["segments"] == 2


@pytest.mark.parametrize("option", ["--state", "--textfile"])
def test_nothing_is_written_into_a_directory_that_is_read(data: Path, option: str) -> None:
    before = sorted(data.rglob("*"))
    assert run(option, data / "file", data).exit_code == 2
    assert sorted(data.rglob("*")) == before


def test_textfile(data: Path, tmp_path: Path) -> None:
    target = tmp_path / "kdump.prom"
    run("--textfile", target, data)
    first = target.read_text()
    assert 'kdump_verify_findings{severity="damage"} 0' in first
    break_batch(data)
    assert run("--textfile", target, data, data / "nowhere").exit_code == 3
    second = target.read_text()
    assert 'kdump_verify_findings{severity="damage"} 1' in second
    assert 'code="crc-mismatch",topic="orders",partition="1"} 1' in second
    success = next(line for line in first.splitlines() if line.startswith("kdump_verify_last_succ"))
    assert success in second
    assert names_in(tmp_path) == {"data", "kdump.prom"}


def test_a_textfile_that_cannot_be_written_is_1(data: Path, tmp_path: Path) -> None:
    assert run("--textfile", tmp_path / "no" / "x.prom", data).exit_code == 1


@pytest.mark.parametrize(
    ("broken", "status", "word"),
    [((), 0, "OK"), ((break_index,), 1, "WARNING"), ((break_index, break_batch), 2, "CRITICAL")],
)
def test_nagios(data: Path, broken: tuple[Any, ...], status: int, word: str) -> None:
    for each in broken:
        each(data)
    result = run("--nagios", "-q", data)
    assert result.exit_code == status
    line, *more = result.stdout.splitlines()
    assert line.startswith(f"KDUMP {word} - ")
    assert " | damaged=" in line
    assert [one.split()[0] for one in more] == ["DAMAGE", "REBUILD"][2 - len(broken) :]


@pytest.mark.parametrize(
    ("fail_on", "status"), [("never", 0), ("damage", 0), ("rebuild", 1), ("note", 1)]
)
def test_nagios_keeps_to_fail_on(data: Path, fail_on: str, status: int) -> None:
    break_index(data)
    assert run("--nagios", "--fail-on", fail_on, data).exit_code == status
    break_batch(data)
    assert run("--nagios", "--fail-on", fail_on, data).exit_code == (0 if fail_on == "never" else 2)


def test_nagios_and_a_textfile_that_cannot_be_written(data: Path, tmp_path: Path) -> None:
    result = run("--nagios", "--textfile", tmp_path / "no" / "x.prom", data)
    assert result.exit_code == 3
    assert result.stdout.startswith("KDUMP UNKNOWN - ")
    assert "x.prom" in result.stdout


def test_quick_says_what_it_looked_at(data: Path) -> None:
    (summary,) = rows(run("--quick", data))
    assert (summary["segments"], summary["tails"]) == (0, 6)
    assert "tails of 6 segments checked (--quick)" in run("--quick", "--nagios", data).stdout
    assert "the tails of 6 segments" in run("--quick", "--format", "table", data).stdout


@pytest.mark.parametrize("name", ["x.log", "photo.png", "notes.txt", "random.bin", "empty"])
@pytest.mark.parametrize("inside", [True, False])
def test_what_is_no_file_of_kafkas_is_never_sound(data: Path, name: str, inside: bool) -> None:
    path = (data / "orders-0" if inside else data.parent) / name
    contents = {"x.log": tarred(), "photo.png": b"\x89PNG\r\n\x1a\n", "empty": b""}
    path.write_bytes(contents.get(name, b"neither a batch nor a message\n" * 40))
    for form in ("table", "jsonl"):
        result = run("--format", form, path)
        assert result.exit_code == 1
        assert "no damage" not in result.stdout.lower()
    assert '"paths":0,' in result.stdout
    assert run("--nagios", path).exit_code == 3


def tarred() -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("notes.txt"))
    return held.getvalue()


def test_a_directory_without_a_segment_is_not_called_sound(tmp_path: Path) -> None:
    (tmp_path / "notes-1").mkdir()
    (tmp_path / "notes-1" / "readme.txt").write_text("no log\n")
    text = run("--format", "table", tmp_path / "notes-1").stdout
    assert "No segment was looked at" in text
    assert "damage" not in text


@pytest.mark.parametrize(
    "args", [["--nagios", "nowhere"], ["--nagios"], ["--nagios", "--nonesuch", "x"]]
)
def test_nagios_of_what_cannot_be_done(args: list[str]) -> None:
    result = run(*args)
    assert result.exit_code == 3
    assert result.stdout.startswith("KDUMP UNKNOWN - ")


def test_printed_commands_run(data: Path) -> None:
    break_batch(data)
    break_index(data)
    text = run("--format", "table", data).stdout
    commands = [line.split("→ ")[1] for line in text.splitlines() if "→ kdump" in line]
    assert len(commands) == 2
    for command in commands:
        words = shlex.split(command)[1:]
        if words[0] not in cli.list_commands(None):  # type: ignore[arg-type]
            continue
        result = CliRunner().invoke(cli, words)
        assert result.exit_code in (0, 3), result.output
        if words[0] == "dump":
            assert f"position {len(log(0)) // 5:,} " in result.stdout


def test_a_plan_has_one_line_for_a_partition(data: Path) -> None:
    break_batch(data)
    for base in (0, 10):
        path = data / "orders-0" / f"{base:020}.log"
        path.write_bytes(damage.flip(path.read_bytes(), len(log(0)) // 5 + 70))
    shutil.copytree(data / "orders-0", data / "a b-0")
    shutil.copytree(data, data.parent / "replica")
    found = [row for row in rows(run(data)) if row["row"] == "finding" and row["served_from"]]
    result = run("--format", "reset-csv", data, data.parent / "replica")
    assert result.exit_code == 3
    assert result.stdout == "orders,0,4\norders,1,14\n"
    assert {(row["partition"], row["served_from"]) for row in found} == {(0, 4), (0, 14), (1, 14)}
    told = result.stderr.splitlines()
    assert told[:2] == [
        "kdump: orders-0: from the damage at offset 2 to 4",
        "kdump: orders-1: from the damage at offset 12 to 14",
    ]
    assert told[2].startswith("kdump: orders-0: not in the plan, more damage at offset 12: kafka-")
    assert told[2].endswith(" --topic orders:0 --to-offset 14 --execute")
    assert told[3] == "kdump: left out: Kafka cannot have a topic named 'a b'"
    assert len(told) == 5


def test_a_plan_without_damage_is_empty(data: Path) -> None:
    result = run("--format", "reset-csv", data)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("kdump: the plan is empty")


def test_the_command_for_a_plan_writes_it(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdump.output.damage_plan.SPELLED", 1)
    break_batch(data)
    shutil.copytree(data / "orders-1", data / "orders-2")
    monkeypatch.chdir(data.parent)
    words = ["verify", "--format", "table", str(data)]
    monkeypatch.setattr(sys, "argv", ["kdump", *words])
    text = CliRunner().invoke(cli, words).stdout
    [command] = [line.split("→ ")[1] for line in text.splitlines() if "→ kdump verify" in line]
    assert CliRunner().invoke(cli, shlex.split(command)[1:]).exit_code == 3
    assert Path("FILE").read_text() == "orders,1,14\norders,2,14\n"
    tool = "→ kafka-consumer-groups.sh --bootstrap-server BOOTSTRAP --group GROUP "
    commands = [line.split(tool)[1] for line in text.splitlines() if tool in line]
    assert commands == ["--describe", "--reset-offsets --from-file FILE --execute"]


@pytest.mark.parametrize("case", ["killed", "clean"])
def test_commands_for_real_damage_show_it(case: str) -> None:
    """Each command does what is promised: it shows the place, or plans to mend the file."""
    directory = corpus.corpus(f"modern/recovery/{case}/before")
    shown: set[str] = set()
    for item in verify([str(path) for path in directory.iterdir()], VerifyOptions(deep=True)):
        words = command_for(item) if isinstance(item, Finding) else None
        if words is None:
            continue
        assert isinstance(item, Finding)
        result = CliRunner().invoke(cli, list(map(str, words[1:])))
        assert result.exit_code in (0, 3), result.output
        if words[1:3] == ("dump", "--hex"):
            assert f"position {item.position:,} " in result.stdout
        elif words[1:3] == ("dump", "--batches"):
            assert f'"position":{item.position},' in result.stdout
        shown.add(" ".join(words[1:3]))
    assert shown == {"dump --hex", "dump --batches", "dump --entries", "reindex --only"}


def started(*args: object) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "kdump", "verify", *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A run in the background of a shell leaves interruptions ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def children_of(pid: int) -> list[int]:
    done = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    return [int(word) for word in done.stdout.split()]


@pytest.mark.skipif(shutil.which("ps") is None, reason="no ps here")
def test_an_interruption_ends_workers_without_a_word(data: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    process = started("--bwlimit", "50", "-j", 2, "--state", state, data)
    deadline = time.monotonic() + 20
    while len(workers := children_of(process.pid)) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 1
    assert errors == "kdump: interrupted\n"
    assert workers
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)


def _catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal, which would end it before."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = status.partition("SigCgt:")[2].split()[0]
    return bool(int(caught, 16) >> (number - 1) & 1)


def test_sigusr1_says_how_far_it_has_come(data: Path) -> None:
    process = started("--bwlimit", "50", data)
    assert process.stderr is not None
    while not _catches(process.pid, signal.SIGUSR1) and process.poll() is None:
        time.sleep(0.05)
    line = ""
    for _ in range(100):  # those before the plan know of no partition
        process.send_signal(signal.SIGUSR1)
        line = process.stderr.readline()
        if " of 2 partitions" in line and "/s" in line:
            break
        time.sleep(0.05)
    process.kill()
    process.communicate()
    assert " of 2 partitions" in line
    assert "/s" in line


def test_a_pipe_pays_for_no_table_and_no_workers(data: Path) -> None:
    code = (
        "import json, sys\n"
        "from kdump.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "verify", str(data)],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(json.loads(done.stderr.splitlines()[-1]))
    assert not loaded & {"rich", "multiprocessing", "crcmod", "pyarrow", "hashlib", "lz4"}


@pytest.mark.parametrize("copy", ["live", "clean", "killed", "recovered"])
def test_sound_directories_of_a_real_broker_have_notes_at_most(copy: str) -> None:
    directory = corpus.corpus(f"modern/data/{copy}")
    result = run("-j", 2, *sorted(directory.iterdir()))
    grave = [row for row in rows(result)[:-1] if row["severity"] != "note"]
    assert grave == []
    assert result.exit_code == 0
