"""`kdump dump` of Connect's topics: rows of what they add up to, and no secret in any form."""

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest
from commands import run
from corpus import corpus, find_shared
from registry_log import topic

SECRET = "hunter-2-secret"


def dump(*args: object) -> str:
    result = run("dump", *args)
    assert result.exit_code == 0
    return result.stdout


def rows(*args: object) -> list[dict[str, Any]]:
    return [json.loads(line) for line in dump("--format", "jsonl", *args).splitlines()]


def properties(**given: str) -> bytes:
    return json.dumps({"properties": given}).encode()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    found = tmp_path / "data"
    topic(
        found,
        "connect-configs",
        [
            (b"connector-a", properties(name="a", password=SECRET)),
            (b"task-a-0", properties(name="a", password=SECRET)),
            (b"commit-a", b'{"tasks":1}'),
            (b"connector-gone", properties(name="gone")),
            (b"connector-gone", None),
            (b"target-state-a", b'{"state":"PAUSED","state.v2":"STOPPED"}'),
            (b"session-key", json.dumps({"key": SECRET, "algorithm": "x"}).encode()),
            (b"\xff", b"no key of Connect's"),
            (b"connector-odd", b"[1]"),
        ],
    )
    topic(
        found,
        "connect-status",
        [
            (b"status-connector-a", b'{"state":"RUNNING","worker_id":"w:1"}'),
            (b"status-connector-a", b'{"state":"FAILED","worker_id":7,"trace":"why"}'),
            (b"status-task-a-1", b'{"state":"RUNNING","worker_id":"w:1"}'),
        ],
    )
    topic(
        found,
        "connect-offsets",
        [
            (b'["a",{"f":1}]', b'{"at":1}'),
            (b'["a",{"f":1}]', b'{"at":2}'),
            (b'["a",{"f":2}]', None),
        ],
    )
    return found


def test_rows(data: Path) -> None:
    found = [row for row in rows("--decode", "schema", data) if row["row"] != "record"]
    config = {"name": "a", "password": "(redacted)"}
    assert found == [
        {
            "row": "connector", "connector": "a", "state": "FAILED", "worker_id": None,
            "target_state": "STOPPED", "deleted": False, "tasks": 1, "config": config,
            "trace": "why",
        },
        {
            "row": "connector", "connector": "gone", "state": None, "worker_id": None,
            "target_state": None, "deleted": True, "tasks": None, "config": None, "trace": None,
        },
        {
            "row": "task", "connector": "a", "task": 0, "state": None, "worker_id": None,
            "config": config, "trace": None,
        },
        {
            "row": "task", "connector": "a", "task": 1, "state": "RUNNING", "worker_id": "w:1",
            "config": None, "trace": None,
        },
        {
            "row": "connector-offset", "connector": "a", "source_partition": {"f": 1},
            "source_offset": {"at": 2},
        },
        {
            "row": "connector-offset", "connector": "a", "source_partition": {"f": 2},
            "source_offset": None,
        },
    ]  # fmt: skip
    table = dump("--decode", "schema", "--format", "table", "--rows", "connector", data)
    assert "deleted" in table


@pytest.mark.parametrize(
    "words",
    [
        "--format jsonl", "--format table --wide", "--format csv", "--format csv --decode auto",
        "--decode raw --format jsonl", "--format kafka", "--hex", "--decode schema --format jsonl",
        "--decode schema --format table --wide",
    ],
)  # fmt: skip
def test_no_form_reveals_a_secret(data: Path, words: str) -> None:
    for more in ((), ("--show-secrets",)):
        shown = dump(*words.split(), *more, data)
        if words == "--hex":  # the bytes of all lines, one after another
            lines = re.findall(r"^  \+\S+ +((?:[0-9a-f]{2} )+)", shown, re.MULTILINE)
            shown = bytes.fromhex("".join(lines)).decode("latin-1")
        assert (SECRET in shown) == bool(more)


def test_filters_do_not_match_secrets(data: Path) -> None:
    assert dump("--format", "jsonl", "--grep", SECRET, data) == ""


@pytest.mark.parametrize("copy", ["clean", "killed"])
def test_records_of_connect_mirror_maker_and_streams(copy: str) -> None:
    """Is what Connect's own interface, and Kafka's own classes, said of it."""
    found = corpus(f"values/data/{copy}") / "data"
    root = find_shared()
    assert root is not None
    spec = importlib.util.spec_from_file_location("c", root / "corpus" / "values" / "check.py")
    assert spec is not None
    assert spec.loader is not None
    check = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(check)
    mine = rows("--decode", "schema", found)
    for part in ("connect", "mirror", "streams"):
        count = check.Count(0)
        judge, name = check.PARTS[part]
        truth = check.load(root / "corpus" / "values" / "expected" / f"{name}.jsonl.xz")
        judge([row for row in mine if part != "connect" or is_of_connect(row)], truth, copy, count)
        assert (part, count.good, count.words) == (part, count.total, {})
        assert count.total > 20


def is_of_connect(row: dict[str, Any]) -> bool:
    return row["row"] != "record" or row["topic"].startswith("connect-")
