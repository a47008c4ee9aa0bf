"""The release that wrote a directory lies in the range that its files give."""

import re
import tarfile
from pathlib import Path

import pytest
from corpus import corpus, names

from kdump.broker import versions as v
from kdump.broker.dating import EXACT, UNTIL, Evidence, dated
from kdump.replay.written_by import written_by
from kdump.storage.data_directories import spread

SAMPLES = Path(__file__).parents[2] / "sample-data"
NODES = sorted((Path(__file__).parents[1] / "broker/nodes").glob("*.tar.xz"))
#: Archive -> the release of the broker, where its name does not say it.
FAMILIES = {
    "modern": "4.1.1", "newest": "4.4.0", "retention": "4.1.1", "incident": "4.4.0",
    "values": "4.4.0", "tiered": "4.1.1", "v07": "0.7.2", "v0-0822": "0.8.2.2",
    "v0-0901": "0.9.0.1", "v1-01022": "0.10.2.2", "mixed-282": "2.8.2", "damage-0822": "0.8.2.2",
    "damage-01022": "0.10.2.2",
}  # fmt: skip
WHOLE = [
    name
    for folder in (
        "old",
        "modern/data",
        "newest/data",
        "retention",
        "incident/data",
        "values/data",
        "tiered/data",
    )
    for name in names(folder)
]


def minor(version: str) -> v.Version:
    """Return the minor release that a version is of."""
    return max(one for one in v.RELEASES if one <= tuple(map(int, version.split("."))))


def check(root: Path, version: str) -> dict[str, str]:
    true, texts = minor(version), {}
    for path, dating in written_by(spread(str(root))).items():
        assert dating.first <= true <= dating.last, (path, dating)
        if any(one.bound == EXACT for one in dating.evidence):
            assert dating.first == dating.last
        texts[path] = dating.text
    return texts


@pytest.mark.parametrize("sample", sorted(SAMPLES.glob("*/[0-9]*")), ids=lambda path: path.name)
def test_sample_data(sample: Path) -> None:
    found = re.match(r"[\d.]+", sample.name)
    assert found is not None
    assert check(sample, found[0])


@pytest.mark.parametrize("archive", NODES, ids=lambda path: path.name)
def test_nodes_of_ten_releases(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path, filter="fully_trusted")  # ours
    version = archive.name.partition("-")[0]
    texts = check(tmp_path, version)
    if version.startswith(("3.", "4.")):
        assert set(texts.values()) == {v.text_of(minor(version))}


@pytest.mark.parametrize("name", WHOLE)
def test_corpora(name: str) -> None:
    family = name.partition("/")[0]
    if family == "old":
        family = next(one for one in FAMILIES if name.startswith(f"old/{one}"))
    check(corpus(name), FAMILIES[family])


def test_ranges_are_as_narrow_as_the_files_allow() -> None:
    expected = {
        "0.7.2": "0.7", "0.8.2.2": "0.8.1 to 0.10.0", "0.9.0.1": "0.8.2 to 0.10.0",
        "0.10.2.2": "0.10.1 to 0.10.2", "2.8.2": "2.4 to 3.6",
    }  # fmt: skip
    for name, text in expected.items():
        assert set(check(SAMPLES / "clean" / name, name).values()) == {text}


def test_what_is_there_counts_more_than_what_is_missing() -> None:
    old = Evidence(UNTIL, (2, 3), "no cluster.id", "")
    new = Evidence("from", (2, 8), "partition.metadata", "")
    assert dated([old, new]).text == "2.8 to 4.4"


@pytest.mark.parametrize(
    ("levels", "release"),
    [
        ({"metadata.version": 14}, (3, 6)),
        ({"metadata.version": 20}, (3, 8)),
        ({"metadata.version": 21, "kraft.version": 1}, (3, 9)),
        ({"metadata.version": 99}, None),
    ],
)
def test_registration_names_a_release(levels: dict[str, int], release: v.Version | None) -> None:
    assert v.release_registering(levels) == release


@pytest.mark.parametrize("share", [1, 2])
def test_unstable_levels_are_told_from_those_of_the_next_release(share: int) -> None:
    """Seen on 4.1.1, which registers so where unstable features are enabled."""
    levels = {
        "group.version": 1, "kraft.version": 1, "metadata.version": 29, "share.version": share,
        "streams.version": 1, "transaction.version": 2, "eligible.leader.replicas.version": 1,
    }  # fmt: skip
    assert v.release_registering(levels) == ((4, 1) if share == 1 else (4, 2))
