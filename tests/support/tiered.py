"""The corpus of tiered topics: a broker's directory, its remote storage, and its answers."""

import json
import lzma
import shutil
import tarfile
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from corpus import corpus, find_expected, find_shared, names

MOMENTS = [name.rpartition("/")[2] for name in names("tiered/data")] or ["none"]
Runs = list[list[int]]


def moment(name: str) -> tuple[str, str]:
    """Give the data directory and the remote storage of a moment."""
    found = corpus(f"tiered/data/{name}")
    return str(found / "data"), str(found / "remote")


def answers(name: str) -> list[dict[str, Any]]:
    """Give what the broker answered at a moment, partition by partition."""
    lines = find_expected(f"tiered/{name}/answers.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@cache
def read_consumed_offsets(name: str) -> dict[tuple[str, int], Runs]:
    """Give the runs of offsets that consumers received from earliest on."""
    found: dict[tuple[str, int], Runs] = defaultdict(list)
    data = lzma.decompress(find_expected(f"tiered/{name}/records.tsv.xz").read_bytes()).decode()
    for line in data.splitlines():
        place, offset, _ = line.split("\t", 2)
        topic, _, number = place.rpartition("-")
        add(found[topic, int(number)], int(offset))
    return found


def add(runs: Runs, offset: int) -> None:
    """Add an offset to runs of [first, last]."""
    if runs and runs[-1][1] == offset - 1:
        runs[-1][1] = offset
    else:
        runs.append([offset, offset])


@cache
def truth() -> dict[str, dict[str, Any]]:
    """Give the planted faults by their names."""
    root = find_shared()
    assert root is not None
    read = json.loads((root / "corpus/tiered/faults/truth.json").read_text())
    return {one["fault"]: one for one in read}


def broker_on_faults() -> Iterator[dict[str, Any]]:
    """Give what a broker answered on each fault."""
    root = find_shared()
    assert root is not None
    for line in (root / "corpus/tiered/faults/broker.jsonl").read_text().splitlines():
        yield json.loads(line)


def plant_faults(fault: str, folder: Path, *more: str, index_cache: bool = True) -> tuple[str, str]:
    """Plant faults in a copy of `last` in a folder; give its data directory and its storage."""
    if not folder.exists():
        shutil.copytree(corpus("tiered/data/last"), folder)
        for one in (fault, *more) if fault != "none" else ():
            _plant(truth()[one], folder)
        if not index_cache:
            shutil.rmtree(folder / "data/remote-log-index-cache")
    return str(folder / "data"), str(folder / "remote")


def _plant(fault: dict[str, Any], folder: Path) -> None:
    for name in fault["remove"]:
        (folder / name).unlink()
    root = find_shared()
    if fault["overlay"] and root is not None:
        with tarfile.open(root / "corpus/tiered/faults" / fault["overlay"]) as archive:
            archive.extractall(folder, filter="data")
