"""Real data directories of real brokers, and those brokers' recorded answers.

They are no part of this repository: the environment variable KDUMP_SHARED names the directory that
holds `corpus/`, by default `shared` beside the checkout. Where it is absent the tests that ask for
it skip. An archive is unpacked once for each run, to a directory of its own that goes with it.
"""

import atexit
import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest


@cache
def find_shared() -> Path | None:
    """Find the directory that holds `corpus/`, or None."""
    named = os.environ.get("KDUMP_SHARED")
    path = Path(named) if named else Path(__file__).parents[3] / "shared"
    return path.absolute() if (path / "corpus").is_dir() else None


@cache
def _cache() -> Path:
    path = Path(tempfile.mkdtemp(prefix="kdump-corpus-"))
    atexit.register(_remove, path)
    return path


def _remove(path: Path) -> None:
    for directory, _, _ in os.walk(path):
        Path(directory).chmod(0o700)
    shutil.rmtree(path, ignore_errors=True)


@cache
def _unpack(name: str, whose: str = "ours") -> Path:
    root = find_shared()
    assert root is not None
    target = _cache() / whose / name
    target.mkdir(parents=True)
    with tarfile.open(root / "corpus" / f"{name}.tar.xz") as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extractall(target, filter="data")
        else:
            archive.extractall(target)
    return target


def corpus(name: str) -> Path:
    """Give a directory with what the archive holds, e.g. `modern/data/clean`: read only."""
    if find_shared() is None:
        pytest.skip("no corpora: KDUMP_SHARED names none, and there is no ../shared")
    return _unpack(name)


def corpus_to_let_go(name: str) -> Path:
    """Give another copy, for broker code: opening an index that is not there makes an empty one."""
    corpus(name)
    return _unpack(name, "theirs")


def find_expected(name: str) -> Path:
    """Give a recorded answer: a plain file, or a directory if it is an archive.

    `modern/clean/offsets.json`, `modern/clean/dumplogsegments`, `old/v1-01022.files.json.xz`.
    """
    root = find_shared()
    if root is None:
        pytest.skip("no corpora: KDUMP_SHARED names none, and there is no ../shared")
    family, _, rest = name.partition("/")
    path = root / "corpus" / family / "expected" / rest
    return path if path.is_file() else _unpack(f"{family}/expected/{rest}")


def names(folder: str) -> list[str]:
    """List the archives of a folder, e.g. `old` or `modern/data`; none without corpora."""
    root = find_shared()
    if root is None:
        return []
    paths = sorted((root / "corpus" / folder).glob("*.tar.xz"))
    return [f"{folder}/{path.name.removesuffix('.tar.xz')}" for path in paths]


def files(directory: Path, pattern: str) -> Iterator[Path]:
    """Find files by pattern at any depth, in a stable order."""
    yield from sorted(path for path in directory.rglob(pattern) if path.is_file())


def read_moments() -> list[dict[str, Any]]:
    """Read what a broker told of groups and transactions as its directory was copied, if any."""
    if find_shared() is None:
        return []
    text = find_expected("newest/moments.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]
