"""`file://`: what pyarrow reads of this machine is what kdump reads by itself."""

import random
import time
from pathlib import Path
from typing import Any

import pytest
from commands import COMMANDS, DATA, answer, answer_in_a_store
from each import each
from long_runs import LONG, SEED

from kdump.engine.reading.options import DumpOptions
from kdump.engine.work.splits import plan
from kdump.stores.arrow_store import ArrowStore

pytest.importorskip("pyarrow", reason="PyArrow is not installed")

_OF = 1 if LONG else 3
DIRECTORIES = sorted(
    {path.parent.parent for path in DATA.rglob("*") if path.suffix in (".log", ".kafka")}
)[SEED % _OF :: _OF]


@pytest.mark.parametrize("directory", DIRECTORIES, ids=lambda path: str(path.relative_to(DATA)))
def test_uri_gives_the_same_as_the_path(directory: Path) -> None:
    for command in COMMANDS:
        expected = answer_in_a_store(command, str(directory))
        assert answer(command, f"file://{directory}") == expected
        assert expected[0] != 1


def test_workers_read_stores() -> None:
    directory = DATA / "damaged/4.1.1-stopped/d1"
    for command in ("verify -j 2 --format jsonl {}", "find-offset -j 2 --format jsonl {} 5"):
        assert answer(command, f"file://{directory}") == answer(command, str(directory))


@pytest.mark.parametrize("command", ["dump --hex {}", "dump --format kafka {}", "dump {}"])
def test_single_files_are_read(command: str) -> None:
    directory = DATA / "clean/4.1.1/d2/orders.gzip-0"
    for path in sorted(directory.glob("*.log")):
        assert answer(command, f"file://{path}") == answer(command, str(path))


@each(
    ("command", "says"),
    [
        ("reindex {}", "is in a store; copy it to the broker's"),
        ("reindex --out {} /nowhere", "is in a store; copy it to the broker's"),
        ("verify --state {}/state {}", "is in a store; kdump can write there only"),
        ("verify --textfile {}/t.prom {}", "is in a store; kdump can write there only"),
        ("dump --output {}/x.jsonl {}", "is in a store; kdump can write there only"),
        ("dump --format parquet --output {}/out/ {}", "is inside an input directory"),
    ],
)
def test_stores_are_not_written_to(command: str, says: str) -> None:
    directory = f"file://{DATA}/clean/4.1.1/d2"
    status, _, stderr = answer(command.replace("{}", directory), directory)
    assert status == 2
    assert says in " ".join(stderr.split())


def test_missing_path_is_an_error() -> None:
    status, _, stderr = answer("verify --format jsonl {}", "file:///no/such/directory")
    assert (status, stderr) == (1, "kdump: ROOT: No such file or directory\n")


def test_several_partitions_are_listed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """In whatever order a store answers, the plan is that of the path."""
    waiting, most = [0], [0]
    entries = ArrowStore.entries

    def late(self: ArrowStore, path: str) -> Any:
        waiting[0] += 1
        most[0] = max(most[0], waiting[0])
        time.sleep(random.Random(path).random() / 20)
        waiting[0] -= 1
        return entries(self, path)

    monkeypatch.setattr(ArrowStore, "entries", late)
    directory = f"{DATA}/clean/4.1.1/d2"
    planned = [repr(each) for each in plan([f"file://{directory}"], DumpOptions())]
    assert most[0] > 1
    expected = [repr(each) for each in plan([directory], DumpOptions())]
    assert [each.replace("file://", "") for each in planned] == expected
