"""An exception that nobody foresaw, injected into each phase of each command, ends nothing else."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import commands
import pytest
from click.testing import Result
from commands import DATA, READING

from kdump.errors import TRACEBACK

SOURCE = DATA / "clean" / "4.1.1" / "d2"
BROKEN = "ledger.txn-0"
#: Each command, with the partition where the exception is injected.
COMMANDS = {
    "dump": "dump --format jsonl {}",
    "find-offset": "find-offset --format jsonl {} 5",
    "find-time": "find-time --format jsonl {} 1700050000000",
    "verify": "verify --format jsonl {}",
    "sequences": "sequences --format jsonl {}",
    "info": "info --format jsonl {}",
    "usage": "usage --format jsonl --by topic {}",
    "why": "why --format jsonl {}",
    "reindex": "reindex --format jsonl {}",
    "salvage": "salvage --format jsonl {}",
    "transactions": "transactions --format jsonl --topic clock.append {}",
    "timeline": "timeline --format jsonl {}",
    "report": "report --format jsonl {}",
    "groups": "groups --format jsonl {}",
    "cluster": "cluster --format jsonl {}",
    "compare": "compare --format jsonl {} {}-copy",
    "elect": "elect --format jsonl {} {}-copy",
    "predict": "predict --format jsonl {}",
    "duplicates": "duplicates --format jsonl {}",
    "placement": "placement --format jsonl {}",
    "carve": "carve --format jsonl {}",
}


class Unforeseen(Exception):
    """Raised where nobody expects it."""


@pytest.fixture(autouse=True)
def _as_for_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TRACEBACK)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    directory = tmp_path / "d2"
    shutil.copytree(SOURCE, directory)
    return directory


def run(command: str, data: Path) -> Result:
    return commands.run(*command.format(data, data).split())


def rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def internal(result: Result) -> list[dict[str, Any]]:
    found = [*rows(result.stdout), *rows(result.stderr)]
    return [row for row in found if row.get("code") == "internal-error"]


def failing(monkeypatch: pytest.MonkeyPatch, target: str, broken: str = BROKEN) -> None:
    """Let a function raise where an argument of it names the partition that is to break."""
    module, _, name = target.rpartition(".")
    owner = __import__("importlib").import_module(module.partition(":")[0])
    for part in filter(None, module.partition(":")[2].split(".")):
        owner = getattr(owner, part)
    before: Callable[..., Any] = getattr(owner, name)

    def now(*args: Any, **named: Any) -> Any:
        paths = (getattr(one, "path", one) for one in (*args, *named.values()))
        if any(isinstance(path, str) and broken in path for path in paths):
            raise Unforeseen("injected")
        return before(*args, **named)

    monkeypatch.setattr(owner, name, now)


def test_every_command_is_tested() -> None:
    assert sorted([*COMMANDS, "produce"]) == READING  # which needs a cluster


#: What a command reads of a partition when its turn comes: a file's bytes, or the listing.
OPENING = "kdump.storage.source:Source.__init__"
LISTING = "kdump.storage.local_log:LocalLog.__init__"


@pytest.mark.parametrize("command", sorted({*COMMANDS} - {"groups", "cluster", "transactions"}))
@pytest.mark.parametrize("target", [OPENING, LISTING])
def test_exception_of_one_partition_does_not_stop_the_others(
    command: str, target: str, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if command in ("compare", "elect"):
        shutil.copytree(data, f"{data}-copy")
    whole = run(COMMANDS[command], data).stdout if target == OPENING else ""
    if command == "info":  # which opens no partition
        target = "kdump.storage.places.entries"
    failing(monkeypatch, target)
    result = run(COMMANDS[command], data)
    found = internal(result)
    assert found, result.output
    assert found[0]["severity"] == "damage"
    assert BROKEN in found[0]["path"]
    assert "Unforeseen: injected" in found[0]["message"]
    assert "test_internal_errors.py" in found[0]["message"] or "kdump/" in found[0]["message"]
    assert result.exit_code == 3
    if whole:
        others = [
            {key: value for key, value in row.items() if key != "seconds"}
            for row in rows(whole)
            if row.get("topic") not in (None, "ledger.txn")
        ]
        text = result.stdout
        assert all(f'"topic":"{row["topic"]}"' in text for row in others)


@pytest.mark.parametrize("name", ["__consumer_offsets-0", "__transaction_state-1"])
def test_exception_in_a_replay_is_a_finding(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(DATA / "clean" / "4.1.1", tmp_path / "node")
    failing(monkeypatch, OPENING, name)
    command = "groups" if "offsets" in name else "transactions"
    result = run(f"{command} --format jsonl {{}}", tmp_path / "node")
    assert [name in row["path"] for row in internal(result)] == [True]
    assert result.exit_code == 3


def test_exception_in_the_metadata_log_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(DATA / "clean" / "4.1.1" / "d1", tmp_path / "d1")
    failing(monkeypatch, OPENING, "__cluster_metadata-0/")
    assert internal(run("cluster --format jsonl {}", tmp_path / "d1"))
    result = run("predict --format jsonl {}", tmp_path / "d1")
    assert internal(result)
    summary = rows(result.stdout)[-1]
    assert summary["row"] == "summary"
    assert summary["paths"] > 5


VERIFY_PHASES = {
    "settle": "kdump.engine.verify.partition.settle",
    "advise": "kdump.engine.advice.advisor.add_advice",
    "check": "kdump.engine.checks.framing:Framing.run",
    "end": "kdump.engine.checks.files:Files.end",
    "facts": "kdump.engine.checks.survey:Survey.facts",
    "predict": "kdump.engine.verify.predict.predict_partition",
    "prepare": "kdump.replay.topic_settings:TopicSettings.prepare",
    "directories": "kdump.engine.checks.node.check_data_directory",
    "node": "kdump.engine.predict.node.node_start",
    "predict-directory": "kdump.engine.verify.predict.predict_directory",
}


@pytest.mark.parametrize("phase", sorted(VERIFY_PHASES))
def test_each_phase_of_verify_may_fail_before_the_summary(
    phase: str, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = data / BROKEN / f"{0:020}.log"
    with log.open("r+b") as file:
        file.seek(600)
        file.write(b"\xff")
    module, _, name = VERIFY_PHASES[phase].rpartition(".")
    owner: Any = __import__("importlib").import_module(module.partition(":")[0])
    for part in filter(None, module.partition(":")[2].split(".")):
        owner = getattr(owner, part)
    calls = []

    def fail(*args: Any, **named: Any) -> Any:
        calls.append(args)
        raise Unforeseen("injected")

    monkeypatch.setattr(owner, name, fail)
    result = run("predict --format jsonl {}", data)
    assert calls
    found = rows(result.stdout)
    assert found[-1]["row"] == "summary"
    assert found[-1]["finished"] is False
    assert found[-1]["paths_unfinished"] == len(internal(result)) > 0
    assert result.exit_code == 3
    if phase not in ("check", "end", "facts"):
        assert "crc-mismatch" in {row.get("code") for row in found}


def test_internal_error_sets_the_status_despite_fail_on_never(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, OPENING)
    assert run("verify --fail-on never {}", data).exit_code == 1
    result = run("verify --nagios {}", data)
    assert result.exit_code == 2
    assert "internal-error in ledger.txn-0" in result.stdout


def test_failed_partition_is_not_remembered_as_verified(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    with monkeypatch.context() as broken:
        broken.setattr("kdump.engine.checks.files.Files.end", lambda check: 1 / 0)
        assert internal(run(f"verify --format jsonl --state {state} {{}}", data))
    result = run(f"verify --format jsonl --state {state} {{}}", data)
    assert "segments_verified_before" not in rows(result.stdout)[-1]["not_checked"]


def test_parquet_directory_keeps_the_parts_of_the_others(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    failing(monkeypatch, OPENING)
    result = run(f"dump --format parquet --output {tmp_path / 'out'}/ {{}}", data)
    assert result.exit_code == 3
    assert "internal-error" in result.stderr
    assert list((tmp_path / "out").rglob("*.parquet"))
    assert not list((tmp_path / "out").rglob("*ledger.txn*"))


def test_zeros_in_a_swap_file_hide_no_partition(data: Path) -> None:
    log = data / "orders.plain-0" / f"{0:020}.log"
    log.with_suffix(".log.swap").write_bytes(log.read_bytes() + bytes(100))
    with log.open("r+b") as file:
        file.seek(9000)
        file.write(b"\xff" * 4)
    result = run("verify --format jsonl {}", data)
    assert internal(result) == []
    assert result.exit_code == 3
    assert rows(result.stdout)[-1]["paths"] == 7
    for command in ("find-offset", "find-time"):
        result = run(COMMANDS[command], data)
        assert internal(result) == []
        found = rows(result.stdout)
        assert len(found) == 7
        assert [row["topic"] for row in found if row["error"]] == ["orders.plain"]


def test_exception_outside_the_work_prints_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **named: Any) -> Any:
        raise Unforeseen("in\nlines")

    monkeypatch.setattr("kdump.cli.results.run_plan", fail)
    monkeypatch.setattr("kdump.cli.results.form_of", fail)
    result = commands.run("why", SOURCE)
    assert result.exit_code == 1
    assert "internal error: Unforeseen: in lines" in result.stderr
    assert "Traceback" not in result.output
