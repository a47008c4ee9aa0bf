"""Every start that was recorded: what the broker did to each partition, and what we predict.

`before` is what it found, `after` what it left, its log and answers say the rest. `unknown` may be
predicted only where the metadata log is missing from the archive; those are listed here by name.
"""

import gzip
import json
import lzma
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from corpus import corpus, find_expected, find_shared
from each import each

from kdump.broker.settings import Settings
from kdump.engine.predict.recovery import predict_partition
from kdump.engine.predict.strays import cluster_of
from kdump.engine.predict.verdict import predict_directory
from kdump.storage.log_dir import LogDir
from kdump.storage.targets import Selection, Target, resolve

CASES = ("killed", "clean", "killed-norp")
MODERN = (4, 1)
REFUSED = ("refuses-to-start", "out-of-memory")
Fields = dict[str, Any]

# The metadata log is not in these archives, and no checkpoint names this partition, the one that
# the cluster did not know. The broker recovered it like any other, then renamed it to -stray.
UNKNOWN = {"rv-stray-0"}
# Its partition.metadata is missing: recovered, renamed to -stray, and begun anew at offset 0.
STRAYS = {"rv-no-partmeta-0"}


def targets(root: Path) -> Iterator[Target]:
    for target in resolve([str(root)], Selection(retired=True), listed=False):
        assert isinstance(target, Target)
        yield target


def rows(
    root: Path, broker: tuple[int, ...], settings: Settings | None = None
) -> dict[str, Fields]:
    """Predict all partitions of a data directory, by directory name."""
    found = {}
    for target in targets(root):
        used = settings
        if used is None:  # as the topics of `modern/recovery` are configured
            name = target.topic or ""
            used = Settings(index_interval_bytes=256 if name.startswith("rv-") else 4096)
        found[Path(target.path).name] = predict_partition(target, broker, used).fields
    return found


def recorded_path(case: str, name: str) -> Path:
    root = find_shared()
    if root is None:
        pytest.skip("no corpora: KDUMP_SHARED names none, and there is no ../shared")
    return root / "corpus/modern/recovery" / case / name


def load_json(path: Path) -> Any:
    opener = lzma.open if path.suffix == ".xz" else open
    with opener(path, "rt") as text:
        return json.load(text)


def lines_about(log: list[str], partition: str) -> list[str]:
    """Lines of a broker's log that name a partition's directory."""
    pattern = re.compile(rf"[=/ ]{re.escape(partition)}[,/.\s)]")
    return [line for line in log if pattern.search(line)]


def rebuilt_in(lines: list[str]) -> set[int]:
    """Segments whose indexes the broker says it rebuilt."""
    found = set()
    for line in lines:
        found.update(map(int, re.findall(r"Recovering unflushed segment (\d+)", line)))
        if "rebuilding index" in line:
            found.update(map(int, re.findall(r"/(\d{20})\.", line)))
    return found


def log_sizes(sizes: dict[str, int], partition: str) -> dict[int, int]:
    """Sizes of a partition's logs by base offset."""
    return {
        int(path.rsplit("/", 1)[1].split(".")[0]): size
        for path, size in sizes.items()
        if f"{partition}/" in path and re.search(r"/\d+\.log\Z", path)
    }


@each("case", CASES)
@each("disk", ["d1", "d2"])
def test_predictions_match_modern_starts(case: str, disk: str) -> None:
    predicted = rows(corpus(f"modern/recovery/{case}/before") / disk, MODERN)
    latest = load_json(recorded_path(case, "answers") / "offsets.json")
    before_damage = load_json(recorded_path("answers-before-damage", "offsets.json"))
    with gzip.open(recorded_path(case, "broker-log.txt.gz"), "rt") as text:
        log = text.read().splitlines()
    sizes: dict[str, int] = {}
    for line in recorded_path(case, "after.files.tsv").read_text().splitlines():
        size, *_, path = line.split("\t")
        if size.isdigit():
            sizes[path] = int(size)
    assert len(predicted) > 20
    for partition, row in predicted.items():
        told = lines_about(log, partition)
        done = [match for line in told if (match := re.search(r"logEndOffset=(\d+)\) with", line))]
        assert set(row["indexes_rebuilt"]) == rebuilt_in(told), partition
        if partition in UNKNOWN:
            assert row["outcome"] == "unknown"
            assert any("-stray" in line or "stray" in line.lower() for line in told)
            assert row["log_end_after"] == int(done[-1][1])
            continue
        assert row["log_end_after"] == latest[partition]["latest"]["offset"], partition
        if partition in STRAYS:
            assert row["outcome"] == "stray"
            continue
        assert row["outcome"] not in ("stray", "unknown", *REFUSED), partition
        assert not done or int(done[-1][1]) == row["log_end_after"], partition
        left = log_sizes(sizes, f"{disk}/{partition}")
        _check_left(row, left, partition)
        if partition.startswith("rv-"):
            end = before_damage[partition]["latest"]["offset"]
            assert row["log_end_before"] == end, partition
            assert row["records_lost"] == end - row["log_end_after"], partition
            lost = row["log_end_after"] if end > row["log_end_after"] else None
            assert row["first_lost_offset"] == lost, partition


def _check_left(row: Fields, left: dict[int, int], partition: str) -> None:
    if row["truncate_segment"] is not None:
        assert left[row["truncate_segment"]] == row["truncate_position"], partition
    if row["outcome"] == "delete-segments":
        assert not set(row["segments_deleted"]) & set(left), partition
    elif row["outcome"] in ("clean", "recover"):
        assert row["truncate_segment"] is None, partition


@pytest.mark.parametrize("case", CASES)
def test_predictions_match_modern_refusals(case: str, tmp_path: Path) -> None:
    """Each directory over which the whole broker gave up, back in its place."""
    damage = load_json(recorded_path(case, "damage.json"))
    fatal = {topic: item for topic, item in damage.items() if item.get("fatal")}
    broken = corpus(f"modern/recovery/{case}/fatal")
    for topic, item in fatal.items():
        root = tmp_path / topic
        shutil.copytree(corpus(f"modern/recovery/{case}/before") / item["dir"], root)
        shutil.rmtree(root / f"{topic}-0")
        (found,) = (path for path in broken.rglob(f"{topic}-0") if path.is_dir())
        shutil.copytree(found, root / f"{topic}-0")
        predicted = rows(root, MODERN)
        row = predicted[f"{topic}-0"]
        assert row["outcome"] == "refuses-to-start"
        said = item["broker_refused_to_start"]
        for word in ("Split operation", "CorruptRecordException"):
            assert (word in said) == (word in row["reason"]), topic
        refused = [name for name, row in predicted.items() if row["outcome"] in REFUSED]
        assert refused == [f"{topic}-0"]
        stopped = predict_directory(
            LogDir.open(str(root)),
            (predict_partition(target, MODERN, Settings()) for target in targets(root)),
            MODERN,
        )
        assert stopped is not None
        assert stopped.fields["outcome"] == "refuses-to-start"
        assert f"{topic}-0" in str(stopped.fields["reason"])


def test_torn_metadata_log_is_predicted() -> None:
    """Here the metadata log is at hand, so that strays are known: there are none."""
    root = corpus("modern/extras/metadata-torn-before")
    extras = find_shared()
    assert extras is not None
    answers = load_json(extras / "corpus/modern/extras/metadata-torn-after-answers/offsets.json")
    disks = [LogDir.open(str(root / disk)) for disk in ("d1", "d2")]
    cluster = cluster_of(disks)
    assert cluster is not None
    for disk in disks:
        for target in targets(Path(disk.path)):
            row = predict_partition(target, MODERN, Settings(), cluster=cluster).fields
            name = Path(target.path).name
            if name == "__cluster_metadata-0":
                assert (row["outcome"], row["log_end_after"]) == ("truncate", 382)
                assert (row["truncate_segment"], row["truncate_position"]) == (0, 26901)
            elif name.endswith("-delete"):
                assert row["outcome"] == "delete-segments"
            else:
                assert row["outcome"] in ("recover", "truncate"), name
                assert row["log_end_after"] == answers[name]["latest"]["offset"], name


def test_partition_unknown_to_the_cluster_is_predicted(tmp_path: Path) -> None:
    source = corpus("modern/extras/metadata-torn-before") / "d1"
    root = tmp_path / "d1"
    shutil.copytree(source, root)
    text = (root / "ext-staying-0/partition.metadata").read_text()
    (root / "ext-staying-0/partition.metadata").write_text(text[:-3] + "AA\n")
    directory = LogDir.open(str(root))
    predicted = {
        Path(target.path).name: predict_partition(
            target, MODERN, Settings(), cluster=cluster_of([directory])
        ).fields["outcome"]
        for target in targets(root)
    }
    assert predicted["ext-staying-0"] == "stray"
    assert list(predicted.values()).count("stray") == 1


OLD = (("damage-0822", (0, 8, 2)), ("damage-01022", (0, 10, 2)))


def old_settings(of_broker: dict[str, str]) -> Settings:
    return Settings(
        index_interval_bytes=int(of_broker["log.index.interval.bytes"]),
        index_size_max_bytes=int(of_broker["log.index.size.max.bytes"]),
        message_max_bytes=int(of_broker.get("message.max.bytes", 1_000_012)),
    )


@each(("name", "broker"), OLD)
@each("run", ["unclean", "full", "marker"])
def test_predictions_match_old_starts(
    name: str, broker: tuple[int, ...], run: str, tmp_path: Path
) -> None:
    told = load_json(find_expected(f"old/{name}.{run}.after.answers.json.xz"))
    left_out = set(told["left_out"] or [])
    root = tmp_path / "data"
    shutil.copytree(corpus(f"old/{name}.{run}.before") / "data", root)
    for partition in left_out - {path.name for path in root.iterdir()}:
        shutil.copytree(corpus(f"old/{name}.all.before") / "data" / partition, root / partition)
    predicted = rows(root, broker, old_settings(told["settings"]))
    sizes = {path: entry["size"] for path, entry in told["files_after"].items()}
    assert len(predicted) > 25
    assert {name for name, row in predicted.items() if row["outcome"] in REFUSED} == left_out
    for partition, row in predicted.items():
        if partition in left_out:
            continue
        latest = told["answers"][partition]["latest"]
        assert row["log_end_after"] == latest["offsets"][0], partition
        _check_left(row, log_sizes(sizes, partition), partition)
        told_of = lines_about(told["recovery_log"], partition)
        assert set(row["indexes_rebuilt"]) == rebuilt_in(told_of), partition


def test_out_of_memory_of_old_brokers_is_predicted() -> None:
    told = load_json(find_expected("old/damage-0822.marker.refused.json.xz"))
    assert any("OutOfMemory" in item["reason"] for item in told["refusals"])
    root = corpus("old/damage-0822.all.before") / "data"
    shown = [target for target in targets(root) if target.topic == "d-sizebig"]
    from kdump.broker.log_reader import MemoryRefusalError
    from kdump.broker.shutdown_state import Stop
    from kdump.engine.predict.recovery import load

    assert shown[0].log is not None
    with pytest.raises(MemoryRefusalError):
        load(shown[0].log, (0, 8, 2), Settings(), Stop(clean=True))


@pytest.mark.parametrize("run", ["damaged-unclean", "damaged-marker"])
def test_predictions_match_starts_of_0_7(run: str) -> None:
    told = load_json(find_expected(f"old/v07-072.{run}.after.answers.json.xz"))
    predicted = rows(corpus(f"old/v07-072.{run}.before") / "data", (0, 7))
    assert set(predicted) == set(told["answers"])
    for partition, row in predicted.items():
        assert row["log_end_after"] == told["answers"][partition]["latest"], partition
        if row["truncate_position"] is not None:
            after = told["files_after"][f"{partition}/{row['truncate_segment']:020d}.kafka"]
            assert after["size"] == row["truncate_position"]
        assert (row["outcome"] == "clean") == (run == "damaged-marker")


def test_hole_stops_a_start_of_0_7() -> None:
    root = corpus("old/v07-072.hole.before") / "data"
    assert [row["outcome"] for row in rows(root, (0, 7)).values()] == ["refuses-to-start"]


@each(
    ("name", "broker"),
    [
        ("v0-0822", (0, 8, 2)),
        ("v0-0901", (0, 9, 0)),
        ("v1-01022", (0, 10, 2)),
        ("mixed-282", (2, 8)),
    ],
)
def test_predictions_match_old_starts_after_a_kill(name: str, broker: tuple[int, ...]) -> None:
    """Sound logs: nothing is cut, and the broker says which segments it recovered."""
    told = load_json(find_expected(f"old/{name}.files.json.xz"))
    answers = load_json(find_expected(f"old/{name}.clean.answers.json.xz"))
    log = told["recovery_after_kill_log"]  # empty of mixed-282
    predicted = rows(
        corpus(f"old/{name}.killed") / "data", broker, old_settings(answers["settings"])
    )
    for partition, row in predicted.items():
        assert row["outcome"] == "recover", partition
        assert row["records_lost"] == 0, partition
        latest = answers["answers"][partition]["latest"]
        assert row["log_end_after"] == latest["offsets"][0], partition
        if log:
            assert set(row["indexes_rebuilt"]) == rebuilt_in(lines_about(log, partition)), partition


def test_prediction_matches_a_modern_start_after_a_kill() -> None:
    """Every partition of the large corpus, the metadata log among them: nothing is lost."""
    with gzip.open(find_expected("modern/recovered/broker-log.txt.gz"), "rt") as text:
        log = text.read().splitlines()
    topics = load_json(find_expected("modern/killed/topics.json"))
    disks = [LogDir.open(str(corpus("modern/data/killed") / disk)) for disk in ("d1", "d2")]
    cluster = cluster_of(disks)
    compared = 0
    for disk in disks:
        for target in targets(Path(disk.path)):
            of_topic = topics.get(target.topic, {}).get("configs", {})
            settings = Settings(
                index_interval_bytes=int(of_topic.get("index.interval.bytes", 4096)),
                index_size_max_bytes=int(of_topic.get("segment.index.bytes", 10_485_760)),
            )
            row = predict_partition(target, MODERN, settings, cluster=cluster).fields
            name = Path(target.path).name
            assert row["records_lost"] == 0, name
            if name.endswith("-delete"):
                assert row["outcome"] == "delete-segments"
                continue
            assert row["outcome"] == "recover", name
            loaded = [
                match
                for line in log
                if f"/{name}, " in line and (match := re.search(r"logEndOffset=(\d+)\) with", line))
            ]
            if loaded:
                assert row["log_end_after"] == int(loaded[-1][1]), name
                compared += 1
    assert compared > 40
