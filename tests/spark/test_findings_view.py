"""The view `findings` says what `kdump verify` says; planned and read here as a task does it."""

import json
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from corpus import corpus
from fleet import make_fleet
from view_rows import view_rows

from kdump.cli import cli

SAMPLES = Path(__file__).parents[2] / "sample-data"
PLACES = ("code", "severity", "topic", "partition", "segment", "position", "offset", "path")


def of_the_view(paths: Sequence[Path], pack_bytes: int = 1 << 20) -> list[dict[str, Any]]:
    return view_rows("findings", paths, pack_bytes=pack_bytes)


def of_the_command(paths: Sequence[Path]) -> list[dict[str, Any]]:
    words = ["verify", "--retired", "--notes", "--format", "jsonl", *map(str, paths)]
    rows = map(json.loads, CliRunner().invoke(cli, words).stdout.splitlines())
    return [row for row in rows if row["row"] == "finding"]


def counted(rows: Iterable[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.get(name) for name in PLACES) for row in rows)


def compare(*paths: Path) -> Counter[str]:
    view, command = of_the_view(paths), of_the_command(paths)
    assert counted(view) == counted(command)
    return Counter(row["code"] for row in view)


def test_damage_of_sample_data() -> None:
    found: Counter[str] = Counter()
    for directory in sorted((SAMPLES / "damaged").iterdir()):
        found += compare(directory)
    found += compare(*sorted((SAMPLES / "damaged/4.4.0-three-nodes").iterdir()))
    assert {"torn-tail", "crc-mismatch", "offset-index-missing"} <= found.keys()


def test_what_is_said_of_data_directories_and_replicas(tmp_path: Path) -> None:
    for name in ("d1", "d2"):
        shutil.copytree(SAMPLES / "clean/4.1.1" / name, tmp_path / name)
    first, second = tmp_path / "d1", tmp_path / "d2"
    with (first / "recovery-point-offset-checkpoint").open("a") as file:
        file.write("no line\n")
    with (second / "replication-offset-checkpoint").open("r+") as file:
        lines = file.read().splitlines()
        topic, partition, _ = lines[2].rsplit(" ", 2)
        file.seek(0)
        file.write("\n".join([*lines[:2], f"{topic} {partition} 99999", *lines[3:]]) + "\n")
    (first / "meta.properties").write_text("version=1\nnode.id=x\n")
    gone = next(path for path in sorted(second.iterdir()) if path.name.startswith("orders"))
    shutil.move(gone, first / gone.name)
    shutil.copytree(first / gone.name, second / gone.name)
    shutil.rmtree(next(path for path in sorted(second.iterdir()) if path.name[:6] == "ledger"))
    found = compare(first, second)
    of_directories = ("checkpoint-malformed", "checkpoint-stale-entry", "log-end-lost")
    assert {*of_directories, "meta-properties-malformed"} <= found.keys(), found


def test_ten_brokers_at_once(tmp_path: Path) -> None:
    assert compare(*make_fleet(tmp_path)) == {
        "crc-mismatch": 1, "log-end-lost": 1, "checkpoint-malformed": 1,
    }  # fmt: skip


@pytest.mark.parametrize("name", ["newest/data/killed", "modern/data/killed"])
def test_directories_of_real_brokers(name: str) -> None:
    assert compare(*sorted(path for path in corpus(name).iterdir() if path.is_dir()))


def test_three_brokers_of_an_incident() -> None:
    assert compare(*(corpus(f"incident/data/node-{number}") for number in (1, 2, 3)))
