"""`kdump cluster` on the command line."""

import json
from pathlib import Path

import pytest
from commands import run
from each import each

ROOT = Path(__file__).parents[2]
SAMPLE = str(ROOT / "sample-data" / "clean" / "4.1.1" / "d1")
PAGE = (ROOT / "man" / "kdump-cluster.1").read_text("utf-8")


@each(
    ("moment", "offset"),
    [
        ("884", 884),
        (" 884 ", 884),
        ("0", 0),
        ("5000", 1141),
        ("1795220057942", 884),
        ("1795220057943", 886),
        ("2026-11-21T00:14:17.943Z", 886),
        ("@1795220057", 883),
    ],
)
def test_at_accepts_an_offset_or_a_time(moment: str, offset: int) -> None:
    done = run("cluster", "--at", moment, "--what", "features", SAMPLE)
    assert done.exit_code == 0
    summary = json.loads(done.stdout.splitlines()[-1])
    assert summary["row"] == "cluster-summary"
    assert summary["as_of_offset"] == offset


@each(
    ("arguments", "said"),
    [
        (["--diff", "1", "2", "--history"], "exclude each other"),
        (["--diff", "1", "2", "--at", "3"], "--diff and --at exclude each other"),
        (["--history", "--view", "zookeeper"], "exclude each other"),
        (["--what", "topics,nodes"], "'nodes', which is not one of"),
        (["--at", "last week"], "is not a time"),
        (["--diff", "1"], "is not a time"),
    ],
)
def test_invalid_requests(arguments: list[str], said: str) -> None:
    done = run("cluster", *arguments, SAMPLE)
    assert done.exit_code == 2
    assert said in done.stderr


@pytest.mark.parametrize("form", ["table", "jsonl", "csv"])
@pytest.mark.parametrize(
    "way", [[], ["--history"], ["--diff", "0", "900"], ["--view", "zookeeper"]]
)
def test_every_view_has_every_form(form: str, way: list[str]) -> None:
    done = run("cluster", "--format", form, *way, SAMPLE)
    assert (done.exit_code, done.stderr) == (0, "")
    assert "orders.gzip" in done.stdout
    assert ("cluster-summary" in done.stdout) is (form == "jsonl")
    assert ("As of offset" in done.stdout) is (form == "table")


def test_tables_have_titles_and_print_common_values_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    node = str(ROOT / "sample-data" / "damaged" / "4.4.0-three-nodes" / "n1")

    def shown(*more: str) -> list[str]:
        asked = ["cluster", "--format", "table", "--what", "features,controllers", *more]
        return run(*asked, node).stdout.splitlines()

    lines = shown()
    at = lines.index("controllers")
    assert (lines[0], lines[at + 1].split()[0]) == ("features", "controller")
    assert sum("kraft.version 0-1" in line for line in lines) == 1
    assert lines[at + 6].startswith("Same features for all: group.version 0-1, kraft.version 0-1,")
    assert sum("kraft.version 0-1" in line for line in shown("--wide")) == 3
