"""`file://`: what pyarrow reads of this machine is what kdump reads by itself."""

from pathlib import Path

import pytest
from commands import COMMANDS, DATA, answer, answer_in_a_store

pytest.importorskip("pyarrow", reason="PyArrow is not installed")

DIRECTORIES = sorted(
    {path.parent.parent for path in DATA.rglob("*") if path.suffix in (".log", ".kafka")}
)


@pytest.mark.parametrize("directory", DIRECTORIES, ids=lambda path: str(path.relative_to(DATA)))
def test_same_as_the_path(directory: Path) -> None:
    for command in COMMANDS:
        expected = answer_in_a_store(command, str(directory))
        assert answer(command, f"file://{directory}") == expected
        assert expected[0] != 1


def test_worker_processes() -> None:
    directory = DATA / "damaged/4.1.1-stopped/d1"
    for command in ("verify -j 2 --format jsonl {}", "find-offset -j 2 --format jsonl {} 5"):
        assert answer(command, f"file://{directory}") == answer(command, str(directory))


@pytest.mark.parametrize("command", ["dump --hex {}", "dump --format kafka {}", "dump {}"])
def test_single_files(command: str) -> None:
    directory = DATA / "clean/4.1.1/d2/orders.gzip-0"
    for path in sorted(directory.glob("*.log")):
        assert answer(command, f"file://{path}") == answer(command, str(path))


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("reindex {}", "is in a store; copy it here"),
        ("reindex --out {} /nowhere", "is in a store; copy it here"),
        ("verify --state {}/state {}", "is in a store, where kdump writes nothing but"),
        ("verify --textfile {}/t.prom {}", "is in a store, where kdump writes nothing but"),
        ("dump --output {}/x.jsonl {}", "is in a store, where kdump writes nothing but"),
        ("dump --format parquet --output {}/out/ {}", "lies in a directory that is read"),
    ],
)
def test_nothing_is_written_to_a_store(command: str, says: str) -> None:
    directory = f"file://{DATA}/clean/4.1.1/d2"
    status, _, stderr = answer(command.replace("{}", directory), directory)
    assert status == 2
    assert says in " ".join(stderr.split())


def test_nothing_there() -> None:
    status, _, stderr = answer("verify --format jsonl {}", "file:///no/such/directory")
    assert (status, stderr) == (1, "kdump: ROOT: No such file or directory\n")
