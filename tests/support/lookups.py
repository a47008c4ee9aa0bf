"""Partitions of the corpora opened for lookups, with the file times their answers hang on."""

import atexit
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from corpus import find_expected, find_shared

from kdump.broker.list_offsets import list_offsets
from kdump.broker.lookup_records import BrokerError
from kdump.broker.partition import PartitionView
from kdump.storage.targets import Selection, Target, resolve


@cache
def _copies() -> Path:
    path = Path(tempfile.mkdtemp(prefix="kdump-lookups-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


@cache
def copy_of(name: str) -> Path:
    """Unpack an archive to a copy of its own, so that its file times can be set."""
    root = find_shared()
    assert root is not None
    target = _copies() / name
    target.mkdir(parents=True)
    with tarfile.open(root / "corpus" / f"{name}.tar.xz") as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extractall(target, filter="data")
        else:
            archive.extractall(target)
    return target


@cache
def modern(state: str) -> Path:
    """Give the data directories of a state of the modern corpus, file times in milliseconds."""
    directory = copy_of(f"modern/data/{state}")
    if not (directory / "d1").is_dir():
        directory /= state
    for line in find_expected(f"modern/{state}/files.tsv").read_text().splitlines():
        columns = line.split("\t")
        path = directory / columns[-1]
        if columns[2].isdigit() and path.is_file():
            when = int(columns[2]) * 1_000_000
            os.utime(path, ns=(when, when))
    return directory


def partitions(*directories: Path) -> Iterator[tuple[str, Target]]:
    """Give the partitions under data directories as (TOPIC-PARTITION, target)."""
    for target in resolve([str(directory) for directory in directories], Selection()):
        assert isinstance(target, Target)
        if target.topic is not None:
            yield f"{target.topic}-{target.partition}", target


def ask_list_offsets(view: PartitionView, target: int) -> list[Any] | str:
    """Answer ListOffsets as [offset, timestamp, leader epoch], or with the broker's error."""
    try:
        answer = list_offsets(view, target)
    except BrokerError as error:
        return str(error)
    return [answer.offset, answer.timestamp_ms, answer.leader_epoch]
