"""MANIFEST against what lies in sample-data/, and sample-data/ against the size it may have."""

import hashlib
import tomllib
from pathlib import Path

from each import each

from kdump.engine.dump.run import dump
from kdump.engine.reading.options import DumpOptions
from kdump.errors import KdumpError
from kdump.findings.finding import Finding

ROOT = Path(__file__).parents[2] / "sample-data"
DIRECTORIES = tomllib.loads((ROOT / "MANIFEST").read_text("utf-8"))["directory"]
SIZE_MAX = 5_000_000


def listed() -> list[Path]:
    return [ROOT / entry["path"] / name for entry in DIRECTORIES for name, _, _ in entry["files"]]


@each("entry", DIRECTORIES, ids=lambda entry: str(entry["path"]))
def test_directory_matches_its_list(entry: dict[str, object]) -> None:
    assert all(entry[key] for key in ("path", "broker", "origin", "what"))
    files = entry["files"]
    assert isinstance(files, list)
    for name, size, sha256 in files:
        data = (ROOT / str(entry["path"]) / name).read_bytes()
        assert len(data) == size, name
        assert hashlib.sha256(data).hexdigest() == sha256, name


@each("entry", DIRECTORIES, ids=lambda entry: str(entry["path"]))
def test_findings_match_the_list(entry: dict[str, list[list[object]] | str]) -> None:
    directory = ROOT / str(entry["path"])
    if any(path.is_dir() for path in directory.iterdir()):  # a data directory: its own files
        asked = [
            (str(path), "records" if path.suffix == ".checkpoint" else "entries")
            for path in sorted(directory.iterdir())
            if path.is_file()
        ]
    elif "remote" in directory.parts:
        asked = []  # objects are read by `verify --tier` and the like
    else:
        asked = [(str(directory), mode) for mode in ("records", "entries")]
    found = []
    for path, mode in asked:
        for item in dump([path], DumpOptions(mode=mode)):
            assert not isinstance(item, KdumpError), item
            if isinstance(item, Finding):
                found.append([Path(item.path).name, item.code, item.position])
    assert found == entry["findings"]


def test_every_file_is_listed_once() -> None:
    found = [path for top in ("clean", "damaged") for path in (ROOT / top).rglob("*")]
    assert sorted(listed()) == sorted(path for path in found if path.is_file())


def test_sample_data_is_small_and_has_no_links() -> None:
    paths = list(ROOT.rglob("*"))
    assert not [path for path in paths if path.is_symlink()]
    assert sum(path.stat().st_size for path in paths if path.is_file()) < SIZE_MAX
