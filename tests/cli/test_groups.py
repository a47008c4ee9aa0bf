"""`kdump groups` as it is called: forms, statuses, what is said beside the rows."""

import csv
import io
import json
from functools import partial
from pathlib import Path

import commands
from offsets_log import Log, classic, commit
from terminals import find_controls, on_terminal

SAMPLE = str(Path(__file__).parents[2] / "sample-data/clean/4.4.0/d2")


run = partial(commands.run, "groups")


def test_rows_have_their_declared_members() -> None:
    rows: dict[str, list[str]] = {}
    for line in run(SAMPLE).stdout.splitlines():
        fields = json.loads(line)
        rows.setdefault(fields.pop("row"), list(fields))
    assert (
        rows["group"]
        == (
            "group type state protocol_type protocol epoch assignment_epoch leader members_count"
            " offsets_partition changed_ms"
        ).split()
    )
    assert (
        rows["committed-offset"]
        == (
            "group topic partition offset leader_epoch metadata commit_ms expire_ms pending"
            " producer_id log_start log_end high_watermark lag broker_version"
        ).split()
    )
    lines = map(json.loads, run("--history", SAMPLE).stdout.splitlines())
    history = next(line for line in lines if line["row"] == "offset-commit")
    assert (
        list(history)
        == (
            "row at_ms group topic partition previous_offset offset kind producer_id members_count"
            " offsets_partition source_offset"
        ).split()
    )


def test_csv_has_a_header_for_each_kind() -> None:
    lines = list(csv.reader(io.StringIO(run("--format", "csv", SAMPLE).stdout)))
    heads = [line for line in lines if line[:2] == ["row", "group"]]
    assert len(heads) == 2
    assert {line[0] for line in lines} == {"row", "group", "committed-offset"}


def plan(directory: Path) -> Path:
    log = Log()
    log.add(commit("g", "t-0", 5), commit("g,h", "t-0", 6), commit('g"', "t-0", 7))
    log.add(commit("g\nh", "t-0", 8), commit("g", "t,u-0", 9), commit(" g", "t-0", 10))
    log.add(commit("g", "t-1", 11), producer_id=3)
    return log.write(directory / "__consumer_offsets-0")


def test_plan_of_one_group_has_no_groups(tmp_path: Path) -> None:
    result = run("--group", "g", "--format", "reset-csv", plan(tmp_path))
    assert result.stdout == "t,0,5\n"
    assert "topic-name" in result.stderr
    assert "left out: 1 offset in transactions that have not ended" in result.stderr


def test_plan_of_several_groups_names_them(tmp_path: Path) -> None:
    result = run("--format", "reset-csv", plan(tmp_path))
    assert result.stdout == "g,t,0,5\n"
    assert result.stderr.count("a reset plan cannot contain this name") == 4
    assert "group g\\nh:" in result.stderr


def test_plan_without_a_line_is_reported(tmp_path: Path) -> None:
    log = Log()
    log.add(commit("g", "t-0", 5), producer_id=3)
    log.add(commit("g", "t-0", None))
    path = log.write(tmp_path / "__consumer_offsets-0")
    result = run("--group", "g", "--format", "reset-csv", path)
    assert result.stdout == ""
    assert "nothing to reset" in result.stderr


def test_plan_leaves_share_groups_out() -> None:
    both = str(Path(SAMPLE).parent)
    result = run("--format", "reset-csv", "--group", "w*", both)
    assert "workers is a share group" in result.stderr
    assert result.stdout == ""
    assert run("--format", "reset-csv", both).stdout.startswith("batch-old,phoenix,0,0\n")


def test_history_is_not_a_plan() -> None:
    result = run("--history", "--format", "reset-csv", SAMPLE)
    assert result.exit_code == 2


def test_empty_result_is_reported() -> None:
    result = run("--group", "nobody", SAMPLE)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "kdump: no group found\n"
    assert run("-q", "--group", "nobody", SAMPLE).stderr == ""


def test_missing_partition_is_reported(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{0:020}.log").touch()
    result = run(tmp_path)
    assert result.exit_code == 1
    assert "no partition of __consumer_offsets" in result.stderr


def test_damage_sets_the_status(tmp_path: Path) -> None:
    log = Log()
    log.add(commit("g", "t-0", 5))
    log.add(commit("g", "t-0", 6))
    log.batches[0] = log.batches[0][:-1] + b"\x55"
    path = log.write(tmp_path / "__consumer_offsets-0")
    assert run(path).exit_code == 3
    assert run("--fail-on", "never", path).exit_code == 0
    log.batches[0] = log.batches[1]
    (path / f"{0:020}.log").write_bytes(log.batches[1])
    assert run(path).exit_code == 0


def make_moved(directory: Path) -> Path:
    log = Log()
    log.add(classic("g", 1), commit("g", "t-0", 5))
    log.add(classic("g", 0))
    log.add(commit("g", "t-0", 2))
    return log.write(directory / "__consumer_offsets-0")


def test_undo_command_is_printed(tmp_path: Path) -> None:
    path = make_moved(tmp_path)
    status, written = on_terminal("groups", "--history", str(path))
    text = written.decode().replace("\r\n", "\n")
    assert status == 0
    assert "no member (admin client?)" in text
    lines = text.splitlines()
    command = lines[lines.index("To reset it:") + 1]
    words = command.removeprefix("  kdump ").removesuffix(" > back.csv").split()
    result = commands.run(*words)
    assert result.stdout == "t,0,5\n"


def test_forward_and_member_commits_are_ignored(tmp_path: Path) -> None:
    log = Log()
    log.add(classic("g", 1), commit("g", "t-0", 5))
    log.add(commit("g", "t-0", 2))
    log.add(classic("g", 0))
    log.add(commit("g", "t-0", 9))
    log.add(commit("g", "t-0", None))
    path = log.write(tmp_path / "__consumer_offsets-0")
    _, written = on_terminal("groups", "--history", str(path))
    assert b"To put it back" not in written
    assert b"removed" in written


def test_tables_escape_hostile_names(tmp_path: Path) -> None:
    log = Log()
    evil = "g\x1b[2J\r\n\u202e\udc80"
    log.add(classic(evil, 2, protocol="\x9b1m", leader="m\x07"), commit(evil, "t\x1b-0", 5))
    log.add(commit(evil, "t-0", 1, metadata="\x1b]0;x\x07"), producer_id=3)
    path = log.write(tmp_path / "__consumer_offsets-0")
    for words in ((), ("--history",), ("--wide",), ("--format", "csv"), ("--format", "jsonl")):
        _, written = on_terminal("groups", *words, str(path))
        assert written
        assert not find_controls(written), words
    for form in ("jsonl", "csv", "reset-csv"):
        assert run("--format", form, path).exit_code == 0


def jumps(directory: Path) -> Path:
    """Offsets that go forward, back, forward, are removed and come back lower, at 1 s each."""
    log = Log()
    log.now_ms = -1000
    for offset in (5, 9, 2, 7, None, 3, 8):
        log.add(commit("g", "t-0", offset))
    return log.write(directory / "__consumer_offsets-0")


def offsets(*words: object) -> list[tuple[object, object]]:
    rows = [json.loads(line) for line in run("--history", *words).stdout.splitlines()]
    return [(row["previous_offset"], row["offset"]) for row in rows]


def test_history_of_backward_commits(tmp_path: Path) -> None:
    path = jumps(tmp_path)
    assert len(offsets(path)) == 7
    assert offsets("--backwards", path) == [(9, 2), (None, 3)]
    assert offsets("--backwards", "--from", "3000", path) == [(None, 3)]


def test_history_is_limited_to_a_time(tmp_path: Path) -> None:
    path = jumps(tmp_path)
    assert offsets("--from", "2000", path) == [(9, 2), (2, 7), (7, None), (None, 3), (3, 8)]
    assert offsets("--from", "2000", "--to", "4000", path) == [(9, 2), (2, 7)]
    assert offsets("--to", "1000", path) == [(None, 5)]
    result = run("--history", "--from", "9000", path)
    assert result.stderr == "kdump: no change found\n"


def test_history_options_need_history(tmp_path: Path) -> None:
    path = jumps(tmp_path)
    for words in (["--backwards"], ["--from", "0"], ["--to", "0"]):
        result = run(*words, path)
        assert result.exit_code == 2
        assert f"{words[0]} requires --history" in result.stderr
