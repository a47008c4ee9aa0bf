"""The paths of the data source: patterns, lists, other spellings, and archives."""

import shutil
from pathlib import Path

import pytest

from kdump.errors import PathError, UsageError
from kdump.spark.paths import paths_of


def test_patterns_lists_and_spellings_are_accepted(tmp_path: Path) -> None:
    for name in ("b1", "b2", "c1", "a,b", "a[1]"):
        (tmp_path / name).mkdir()
    root = str(tmp_path)

    def given(*paths: str, fail: bool = False) -> list[str]:
        found = paths_of([f"{root}/{path}" for path in paths], fail_on_missing=fail)
        return [path.removeprefix(f"{root}/") for path in found]

    assert given("b*", "c1", "b1") == ["b1", "b2", "c1"]
    assert given(f"b1, {root}/c?") == ["b1", "c1"]
    assert given("a,b", "a[1]") == ["a,b", "a[1]"]
    assert given("no*") == []
    assert given("no") == ["no"]  # who reads it says that it is not there
    with pytest.raises(PathError, match=r"/no\*: matches no path"):
        given("no*", fail=True)
    spelled = ["dbfs:/x", "dbfs:/Volumes/x", "file:///y", "/Volumes/z"]
    found = paths_of(spelled, fail_on_missing=True)
    assert found == ["/dbfs/x", "/Volumes/x", "/y", "/Volumes/z"]
    with pytest.raises(UsageError, match="a path contains a password"):
        paths_of(["s3://key:secret@bucket/x"], fail_on_missing=False)


def test_patterns_work_in_stores() -> None:
    memory = pytest.importorskip("fsspec").filesystem("memory")
    for name in ("b1", "b2", "c1"):
        memory.pipe(f"/fleet/{name}/data/meta.properties", b"version=1\n")
    given = ["memory://fleet/b*/data"]
    assert paths_of(given, fail_on_missing=False) == [
        "memory://fleet/b1/data",
        "memory://fleet/b2/data",
    ]
    assert paths_of(["memory://fleet/b*/nothing"], fail_on_missing=False) == []
    assert paths_of(["memory://nothing/*"], fail_on_missing=False) == []
    assert paths_of(["memory://fleet/[bc]1"], fail_on_missing=True) == [
        "memory://fleet/b1",
        "memory://fleet/c1",
    ]


def test_archives_are_refused(tmp_path: Path) -> None:
    (tmp_path / "data" / "orders-0").mkdir(parents=True)
    log = tmp_path / "data" / "orders-0" / f"{0:020}.log"
    log.write_bytes(b"PK\x03\x04")  # a log by its name
    for form in ("zip", "gztar", "tar"):
        archive = shutil.make_archive(str(tmp_path / "logs"), form, tmp_path / "data")
        with pytest.raises(PathError, match=r": is an archive, which every task"):
            paths_of([archive], fail_on_missing=False)
    assert paths_of([str(log)], fail_on_missing=False) == [str(log)]
