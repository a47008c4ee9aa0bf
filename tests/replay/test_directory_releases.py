"""The release that wrote a directory lies in the range that its files give."""

import re
import shutil
import tarfile
from pathlib import Path

import pytest
from corpus import corpus, find_expected, names
from each import each
from metadata_log import HOUR, LONG_AGO, NODE, log_of, register

from kdump.broker import versions as v
from kdump.broker.dating import EXACT, UNTIL, Evidence, combine_evidence, settings_evidence
from kdump.engine.info.run import InfoOptions, info
from kdump.replay.directory_releases import ReleaseCache, date_directories
from kdump.rows.info import DatingEvidence
from kdump.storage.data_directories import spread
from kdump.storage.properties import java_properties

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
    for path, dating in date_directories(spread(str(root))).items():
        assert dating.first <= true <= dating.last, (path, dating)
        if any(one.bound == EXACT for one in dating.evidence):
            assert dating.first == dating.last
        texts[path] = dating.text
    return texts


@each("sample", sorted(SAMPLES.glob("*/[0-9]*")), ids=lambda path: path.name)
def test_sample_data_is_dated(sample: Path) -> None:
    found = re.match(r"[\d.]+", sample.name)
    assert found is not None
    assert check(sample, found[0])


@pytest.mark.parametrize("archive", NODES, ids=lambda path: path.name)
def test_nodes_of_ten_releases_are_dated(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path, filter="fully_trusted")  # ours
    version = archive.name.partition("-")[0]
    texts = check(tmp_path, version)
    if version.startswith(("3.", "4.")):
        assert set(texts.values()) == {v.text_of(minor(version))}


@pytest.mark.parametrize("name", WHOLE)
def test_corpora_are_dated(name: str) -> None:
    family = name.partition("/")[0]
    if family == "old":
        family = next(one for one in FAMILIES if name.startswith(f"old/{one}"))
    check(corpus(name), FAMILIES[family])


def test_release_ranges_are_as_narrow_as_possible() -> None:
    expected = {
        "0.7.2": "0.7", "0.8.2.2": "0.8.1 to 0.10.0", "0.9.0.1": "0.8.2 to 0.10.0",
        "0.10.2.2": "0.10.1 to 0.10.2", "2.8.2": "2.4 to 3.6",
    }  # fmt: skip
    for name, text in expected.items():
        assert set(check(SAMPLES / "clean" / name, name).values()) == {text}


def test_present_files_outweigh_missing_ones() -> None:
    old = Evidence(UNTIL, (2, 3), "no cluster.id", "")
    new = Evidence("from", (2, 8), "partition.metadata", "")
    assert combine_evidence([old, new]).text == "2.8 to 4.4"


@each(
    ("levels", "release"),
    [
        ({"metadata.version": 14}, (3, 6)),
        ({"metadata.version": 20}, (3, 8)),
        ({"metadata.version": 21, "kraft.version": 1}, (3, 9)),
        ({"metadata.version": 99}, None),
    ],
)
def test_registration_gives_the_release(levels: dict[str, int], release: v.Version | None) -> None:
    assert v.find_release_by_levels(levels) == release


@pytest.mark.parametrize("share", [1, 2])
def test_unstable_levels_differ_from_the_next_release(share: int) -> None:
    """Seen on 4.1.1, which registers so where unstable features are enabled."""
    levels = {
        "group.version": 1, "kraft.version": 1, "metadata.version": 29, "share.version": share,
        "streams.version": 1, "transaction.version": 2, "eligible.leader.replicas.version": 1,
    }  # fmt: skip
    assert v.find_release_by_levels(levels) == ((4, 1) if share == 1 else (4, 2))


def test_registrations_reveal_upgrades(tmp_path: Path) -> None:
    """Three starts: of 3.6 twice, then of 3.7, a day later each."""
    data = tmp_path / "data"
    log = data / "__cluster_metadata-0"
    log.mkdir(parents=True)
    (data / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=abc\n")
    day = 24 * HOUR
    starts = (14, 14, 19)
    (log / f"{0:020}.log").write_bytes(
        b"".join(
            log_of([register(NODE, (), level)], LONG_AGO + number * day, number)
            for number, level in enumerate(starts)
        )
    )
    dates = ReleaseCache([str(data)])
    assert dates.of(str(data)).text == "3.7"
    history = [(one.bound, one.release, one.at_ms) for one in dates.history(str(data))]
    assert history == [
        ("before", (3, 6), LONG_AGO),
        ("exactly", (3, 7), LONG_AGO + 2 * day),
    ]
    rows = [*info([str(data)], InfoOptions(explain=True))]
    told = [one for one in rows if isinstance(one, DatingEvidence) and one.at_ms is not None]
    assert [(one.release, one.bound) for one in told] == [("3.6", "before"), ("3.7", "exactly")]


@each(
    ("place", "settings", "text"),
    [
        ("server.properties", "broker.id=0\ninter.broker.protocol.version=2.8-IV1\n", "2.8 to 3.6"),
        (
            "../server.properties",
            "broker.id=0\nzookeeper.metadata.migration.enable=true",
            "3.4 to 3.6",
        ),
        ("../config/server.properties", "log.dirs=/mnt/x,/mnt/data/\nbroker.rack=a", "2.4 to 3.6"),
        ("../server.properties", "broker.id=7\ninter.broker.protocol.version=2.8", "2.4 to 3.6"),
        (
            "../server.properties",
            "log.dirs=/mnt/x\ninter.broker.protocol.version=2.8",
            "2.4 to 3.6",
        ),
        ("../server.properties", "broker.id=0\nprocess.roles=broker\nnode.id=0", "2.8 to 3.6"),
    ],
)
def test_settings_next_to_the_directory_are_found(
    place: str, settings: str, text: str, tmp_path: Path
) -> None:
    """Settings of another node, or of directories of other names, are not its broker's."""
    data = shutil.copytree(SAMPLES / "clean/2.8.2", tmp_path / "data")
    file = data / place
    file.parent.mkdir(exist_ok=True)
    file.write_text(settings)
    assert date_directories([str(data)])[str(data)].text == text


@pytest.mark.parametrize("corpus_name", ["newest", "modern", "tiered"])
def test_settings_of_real_brokers_match_their_releases(corpus_name: str) -> None:
    file = find_expected(f"{corpus_name}/server.properties.txt")
    values = dict(java_properties(file.read_text("latin-1")))
    true = minor(FAMILIES[corpus_name])
    for one in settings_evidence(values, ""):
        assert one.bound == UNTIL or one.release <= true
        assert one.bound != UNTIL or one.release >= true
