"""`why` on directories written by hand: sums, what is read, settings, and plans."""

import fcntl
import os
import shutil
import signal
import struct
import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from each import each
from segments import START_MS, batch, batches, write, write_partition

from kdump.broker.settings import TopicConfig
from kdump.engine.why.options import WhyOptions
from kdump.engine.why.run import why
from kdump.engine.why.volumes import FreeRequest, Volume
from kdump.engine.work.pipeline import Workers
from kdump.errors import KdumpError, UsageError
from kdump.findings.finding import Finding
from kdump.findings.rows import Row
from kdump.storage.source import Source
from kdump.storage.targets import Selection

DAY_MS = 86_400_000
NOW = START_MS + 7 * DAY_MS
MANY = 200
SAMPLE = Path(__file__).parents[3] / "sample-data" / "clean" / "4.1.1"
METADATA = "__cluster_metadata-0"


def rows(*paths: Path, now_ms: int = NOW, **options: Any) -> list[tuple[str, dict[str, Any]]]:
    found = list(why([str(path) for path in paths], WhyOptions(now_ms, **options)))
    return [(item.row, item.fields) for item in found if isinstance(item, Row)]


def of(kind: str, found: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    return [fields for row, fields in found if row == kind]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with all that may lie in one."""
    data = tmp_path / "data"
    orders = write_partition(data, {0: batches(0, 30), 30: batches(30, 60), 60: batches(60, 90)})
    write_partition(data, {0: batches(0, 30)}, "users")
    (data / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    write(orders, 0, "log.deleted", b"x" * 5000)
    write(orders, 0, "index.cleaned", b"x" * 100)
    write(orders, 60, "snapshot", b"x" * 56)
    for ending in ("delete", "stray", "future"):
        retired = data / f"gone-0.{'0' * 32}-{ending}"
        shutil.copytree(orders, retired)
    (data / "lost+found" / "deep").mkdir(parents=True)
    (data / "lost+found" / "deep" / "file").write_bytes(b"y" * 777)
    (data / "link").symlink_to("/somewhere/else")
    os.link(data / "lost+found" / "deep" / "file", data / "again")
    with (orders / "sparse").open("wb") as file:
        file.truncate(10 << 20)
    return data


def test_sums_match_du(data: Path) -> None:
    found = rows(data)
    summary = found[-1][1]
    for option, member in (("-sb", "apparent_bytes"), ("-sB1", "allocated_bytes")):
        said = subprocess.run(["du", option, data], capture_output=True, text=True, check=True)
        assert summary[member] == int(said.stdout.split()[0])
    for fields in of("partition-space", found):
        parts = ("log_bytes", "index_bytes", "other_bytes", "retired_bytes")
        assert sum(fields[part] for part in parts) == fields["apparent_bytes"]


def test_topics_and_verdicts_add_up_to_the_summary(data: Path) -> None:
    found = rows(data)
    summary, topics = found[-1][1], of("topic-space", found)
    used = summary["apparent_bytes"] - summary["reserved_index_bytes"]
    assert sum(one["size_bytes"] for one in topics) == used
    assert [one["size_bytes"] for one in topics] == sorted(
        (one["size_bytes"] for one in topics), reverse=True
    )
    assert {(one["topic"], one["retired"]) for one in topics} == {
        (one["topic"], one["retired"]) for one in of("partition-space", found)
    }
    fates = of("segment-fate", found)
    for verdict, count in summary["segments_by_verdict"].items():
        assert count == sum(one["verdict"] == verdict for one in fates)
        by_topic = (one["bytes_by_verdict"].get(verdict, 0) for one in topics)
        assert sum(by_topic) == summary["bytes_by_verdict"][verdict]
    assert sum(summary["segments_by_verdict"].values()) == summary["segments"] == len(fates)


def test_retired_directories_are_separate(data: Path) -> None:
    spaces = of("partition-space", rows(data))
    retired = {fields["retired"]: fields for fields in spaces if fields["topic"] == "gone"}
    assert retired.keys() == {"delete", "stray", "future"}
    assert all(not one["log_bytes"] and one["retired_bytes"] for one in retired.values())
    (orders,) = (fields for fields in spaces if fields["topic"] == "orders")
    assert orders["retired_bytes"] == 5100


def test_selection_omits_files_outside_partitions(data: Path) -> None:
    found = rows(data, selection=Selection(topic="orders"))
    assert {fields["topic"] for fields in of("partition-space", found)} == {"orders"}
    both = rows(data, selection=Selection(topic="gone"))
    assert len(of("partition-space", both)) == 3


def test_segment_size_includes_all_its_files(data: Path) -> None:
    fates = of("segment-fate", rows(data, selection=Selection(topic="orders")))
    files = [path for path in (data / "orders-0").iterdir() if path.name.startswith(f"{60:020}.")]
    assert fates[2]["size_bytes"] == sum(path.stat().st_size for path in files)
    assert (data / "orders-0" / f"{60:020}.snapshot") in files


def test_any_number_of_jobs_gives_the_same_rows(data: Path) -> None:
    def ours(items: Iterable[Any]) -> list[Row]:
        """All rows but those that say how full a disk is, which others change."""
        return [item for item in items if isinstance(item, Row) and item.row != "data-directory"]

    options = WhyOptions(NOW, free=(FreeRequest(10**6),))
    alone = ours(why([str(data)], options))
    assert ours(why([str(data)], options, driver=Workers(3))) == alone


def test_deletion_time(data: Path) -> None:
    now = START_MS + DAY_MS
    kept = of("segment-fate", rows(data, now_ms=now, selection=Selection(topic="orders")))
    assert [one["verdict"] for one in kept] == ["kept", "kept", "active"]
    for number, one in enumerate(kept):
        due = one["deletable_at_ms"]
        assert due == START_MS + 10 * (30 * number + 29) + 7 * DAY_MS + 1
        for at, goes in ((due - 1, False), (due, True)):
            then = of("segment-fate", rows(data, now_ms=at, selection=Selection(topic="orders")))
            assert (then[number]["verdict"] == "deletable") is goes
            assert then[number]["deletable_at_ms"] == due


def test_requested_settings(data: Path) -> None:
    configs = (TopicConfig("retention.ms", "1000"),)
    (first, *_) = of("segment-fate", rows(data, now_ms=START_MS + 5000, configs=configs))
    assert first["verdict"] == "deletable"
    assert "retention.ms=1s (option)" in first["text"]
    configs = (TopicConfig("retention.ms", "-1"),)
    found = of("segment-fate", rows(data, configs=configs))
    assert {one["verdict"] for one in found} == {"not-deleted-by-policy", "active"}


def test_settings_of_a_brokers_file(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("log.retention.hours=1\nlog.retention.bytes=99999999999\n")
    now = START_MS + 2 * 3_600_000
    found = of("segment-fate", rows(data, now_ms=now, server_properties=str(file)))
    assert {one["rule"] for one in found} == {"retention.ms"}
    assert "retention.ms=1h (server-properties)" in found[0]["text"]


def test_pin(tmp_path: Path) -> None:
    ahead = batch(33, max_timestamp=NOW + DAY_MS, producer_id=9, base_timestamp=NOW + DAY_MS - 20)
    parts = {0: batches(0, 30), 30: [batch(30), ahead], 36: batches(36, 60), 60: batches(60, 90)}
    found = rows(write_partition(tmp_path, parts), now_ms=NOW + 9000)
    fates, (together,) = of("segment-fate", found), of("pinned-segments", found)
    assert [one["verdict"] for one in fates] == ["deletable", "pinned", "pinned", "active"]
    assert (together["segment"], together["segments"]) == (30, 2)
    assert together["size_bytes"] == fates[1]["size_bytes"] + fates[2]["size_bytes"]
    assert (together["pinned_by"], together["text"]) == (fates[1]["pinned_by"], fates[1]["text"])
    pin = {
        "offset": 35, "timestamp_ms": NOW + DAY_MS, "producer_id": 9, "records_ahead": 3
    }  # fmt: skip
    assert [one["pinned_by"] for one in fates] == [None, pin, pin, pin]
    assert "pinned by record 35 of segment 30, whose timestamp is 23 h ahead" in fates[2]["text"]


def test_only_the_time_index_end_of_closed_segments_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = {base: batches(base, base + 30) for base in range(0, 300 * MANY, 300)}
    directory = write_partition(tmp_path / "data", parts)
    (tmp_path / "data" / "meta.properties").write_text("version=1\nnode.id=1\n")
    opened: Counter[str] = Counter()
    taken = 0
    plain_init, plain_read = Source.__init__, Source.read

    def init(self: Source, path: str) -> None:
        opened[Path(path).suffix] += 1
        plain_init(self, path)

    def read(self: Source, position: int, size: int) -> bytes:
        nonlocal taken
        taken += size
        return plain_read(self, position, size)

    monkeypatch.setattr(Source, "__init__", init)
    monkeypatch.setattr(Source, "read", read)
    found = rows(directory)
    assert len(of("segment-fate", found)) == MANY
    assert opened[".log"] == 1
    assert opened[".timeindex"] <= MANY + 2
    assert opened[".index"] <= 3
    assert taken < 100 * MANY


def test_concurrently_deleted_segments_are_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker deletes the oldest segment between the listing of a partition and its reading."""
    directory = write_partition(tmp_path, {0: batches(0, 30), 30: batches(30, 60)})
    plain_init = Source.__init__

    def init(self: Source, path: str) -> None:
        for file in directory.glob(f"{0:020}.*"):
            file.unlink()
        plain_init(self, path)

    monkeypatch.setattr(Source, "__init__", init)
    assert [one["segment"] for one in of("segment-fate", rows(directory))] == [30]


@each("broken", ["none", "empty", "elsewhere", "zeros"])
def test_implausible_time_index_is_ignored(tmp_path: Path, broken: str) -> None:
    directory = write_partition(tmp_path, {0: batches(0, 30), 30: batches(30, 60)})
    path = directory / f"{0:020}.timeindex"
    if broken == "none":
        path.unlink()
    else:
        elsewhere = struct.pack(">qi", NOW + 99 * DAY_MS, 5000)
        path.write_bytes({"empty": b"", "elsewhere": elsewhere, "zeros": bytes(120)}[broken])
    first = of("segment-fate", rows(directory))[0]
    assert (first["largest_timestamp_ms"], first["time_source"]) == (START_MS + 290, "log")


def test_index_is_trusted_after_a_clean_stop(data: Path) -> None:
    (data / ".kafka_cleanshutdown").touch()
    (data / "orders-0" / f"{0:020}.timeindex").write_bytes(b"")
    first = of("segment-fate", rows(data))[0]
    assert first["time_source"] == "mtime"


def test_use_of_a_file_time_is_reported(data: Path) -> None:
    """Brokers before 0.10.1 know no other, and what has no timestamp has no other."""
    log = data / "orders-0" / f"{0:020}.log"
    os.utime(log, (1_600_000_000, 1_600_000_000))
    first = of("segment-fate", rows(data, broker_version=(0, 9, 0)))[0]
    assert (first["largest_timestamp_ms"], first["time_source"]) == (1_600_000_000_000, "mtime")
    assert "its file was changed at 2020-09-13 12:26 (brokers before 0.10.1" in first["text"]
    assert "last record" not in first["text"]
    assert "file" not in of("segment-fate", rows(data))[0]["text"]
    kept = of("segment-fate", rows(data, now_ms=1_600_000_100_000, broker_version=(0, 9, 0)))[0]
    assert "based on its file time (brokers before 0.10.1" in kept["text"]
    assert kept["kept_by"].endswith(", file time")


def test_indexes_of_a_running_broker_are_reserved(tmp_path: Path) -> None:
    directory = write_partition(tmp_path, {0: batches(0, 30), 30: batches(30, 600)})
    written = 0
    for extension, size in (("index", 8 << 17), ("timeindex", 12 << 17)):
        path = directory / f"{30:020}.{extension}"
        written += path.stat().st_size
        with path.open("r+b") as file:
            file.truncate(size)
    # The last batch is behind the last entry of the time index.
    with (directory / f"{30:020}.log").open("ab") as file:
        file.write(batch(600))
    found = rows(directory)
    (space,) = of("partition-space", found)
    assert space["reserved_index_bytes"] == (20 << 17) - written
    active = of("segment-fate", found)[-1]
    assert active["largest_timestamp_ms"] == START_MS + 10 * 602


def test_plan_lists_the_cheapest_first(data: Path) -> None:
    steps = of("plan-step", rows(data, now_ms=START_MS + DAY_MS, free=(FreeRequest(10**9),)))
    assert [step["order"] for step in steps] == [1, 2, 3, 4]
    assert {step["directory"] for step in steps} == {str(data)}
    deleted, *steps = steps
    assert (deleted["command"], deleted["frees_bytes"]) == (None, 5000)
    assert "the next start removes" in deleted["text"]
    commands = [step["command"] for step in steps]
    assert commands[0] == f"rm -r -- {data}/gone-0.{'0' * 32}-delete"
    assert commands[1] == f"rm -r -- {data}/gone-0.{'0' * 32}-stray"
    assert '"topic":"orders","partition":0,"offset":60' in commands[2]
    assert (steps[2]["loses_from"], steps[2]["loses_to"], steps[2]["loses_records"]) == (0, 59, 60)
    assert steps[2]["loses_to_ms"] == START_MS + 590


def test_plan_ends_at_the_wanted_size(data: Path) -> None:
    found = rows(data, now_ms=START_MS + DAY_MS, free=(FreeRequest(1),))
    assert len(of("plan-step", found)) == 1
    assert found[-1][1]["planned_bytes"] >= found[-1][1]["asked_bytes"] == 1


@each(
    ("topic", "configs"),
    [
        ("orders", (TopicConfig("cleanup.policy", "compact"),)),
        ("orders", (TopicConfig("cleanup.policy", "compact,delete"),)),
        ("orders", (TopicConfig("remote.storage.enable", "true"),)),
        ("__share_group_state", (TopicConfig("cleanup.policy", "delete"),)),
    ],
)
def test_segments_outside_of_a_plan(tmp_path: Path, topic: str, configs: Any) -> None:
    directory = write_partition(tmp_path, {0: batches(0, 30), 30: batches(30, 60)}, topic)
    found = rows(directory, now_ms=START_MS + DAY_MS, free=(FreeRequest(10**9),), configs=configs)
    assert of("plan-step", found) == []


def test_files_of_a_running_broker_are_not_removed(data: Path) -> None:
    with (data / ".lock").open("w") as lock:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            fcntl.lockf(lock, fcntl.LOCK_EX)
            os.write(writing, b"x")
            while True:
                signal.pause()
        os.read(reading, 1)
        try:
            steps = of("plan-step", rows(data, now_ms=START_MS + DAY_MS, free=(FreeRequest(1),)))
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    assert [step["command"] for step in steps] == [None, None]
    assert "the broker removes after file.delete.delay.ms" in steps[0]["text"]
    assert "removes this directory by itself" in steps[1]["text"]


def test_removing_a_sparse_file_frees_only_its_blocks(data: Path) -> None:
    with (data / f"gone-0.{'0' * 32}-stray" / f"{0:020}.index").open("wb") as index:
        index.truncate(10 << 20)
    steps = of("plan-step", rows(data, now_ms=START_MS + DAY_MS, free=(FreeRequest(1 << 40),)))
    (stray,) = [step for step in steps if str(step["command"]).endswith("-stray")]
    assert 0 < stray["frees_bytes"] < 1 << 20


def test_path_must_be_a_segment(data: Path) -> None:
    (data / "orders-0" / "leader-epoch-checkpoint").write_text("0\n0\n")
    for name in ("leader-epoch-checkpoint", f"{0:020}.log.deleted"):
        items = why([str(data / "orders-0" / name)], WhyOptions(NOW))
        (item,) = (item for item in items if isinstance(item, KdumpError))
        assert "is not a segment" in str(item)


def test_segments_may_be_named(data: Path) -> None:
    """Their rows are those of the whole partition."""
    orders = data / "orders-0"
    every = of("segment-fate", rows(orders))
    named = [orders / f"{0:020}.log", orders / f"{60:020}.index"]
    assert of("segment-fate", rows(*named)) == [every[0], every[2]]
    assert len(of("partition-space", rows(*named))) == 1


def test_preallocated_index_space_is_not_counted(tmp_path: Path) -> None:
    orders = write_partition(tmp_path, {0: batches(0, 30)})
    with (orders / f"{0:020}.timeindex").open("ab") as file:
        file.truncate(10 << 20)
    found = rows(orders, now_ms=START_MS)
    (fate,) = of("segment-fate", found)
    assert fate["reserved_index_bytes"] > 9 << 20
    used = fate["size_bytes"] - fate["reserved_index_bytes"]
    assert found[-1][1]["bytes_by_verdict"] == {"active": used}


def test_each_file_system_has_its_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one disk needs is not found on another."""
    free = {"d1": 100, "d2": 5000, "d3": 9000}
    for name, topic in (("d1", "a"), ("d2", "b"), ("d3", "c")):
        write_partition(tmp_path / name, {0: batches(0, 30), 30: batches(30, 60)}, topic)

    def volume_of(directory: str) -> Volume:
        name = Path(directory).name
        return Volume(directory, name, 10_000, 10_000 - free[name], free[name])

    monkeypatch.setattr("kdump.engine.why.run.volume_of", volume_of)
    d1, d2, d3 = directories = [tmp_path / name for name in free]

    def planned(*requests: FreeRequest) -> list[tuple[str, str]]:
        found = rows(*directories, now_ms=START_MS + DAY_MS, free=requests)
        assert [one["free_bytes"] for one in of("data-directory", found)] == list(free.values())
        steps = of("plan-step", found)
        for plan in found[-1][1]["plans"]:
            ours = [step for step in steps if step["order"] in plan["steps"]]
            assert {step["directory"] for step in ours} == set(plan["directories"])
            assert sum(step["frees_bytes"] for step in ours) == plan["planned_bytes"]
        return [(step["topic"], step["directory"]) for step in steps]

    assert planned(FreeRequest(600)) == [("a", str(d1))]
    assert planned(FreeRequest(6000)) == [("a", str(d1)), ("b", str(d2))]
    # No disk lacks so little: it is asked of each.
    assert len(planned(FreeRequest(50))) == 3
    assert planned(FreeRequest(1, "d3")) == [("c", str(d3))]
    assert planned(FreeRequest(1, str(d2)), FreeRequest(600)) == [("b", str(d2)), ("a", str(d1))]
    with pytest.raises(UsageError, match="'d4' is not one of the data directories"):
        planned(FreeRequest(1, "d4"))


def test_directories_of_one_file_system_share_a_plan(tmp_path: Path) -> None:
    for name in ("d1", "d2"):
        write_partition(tmp_path / name, {0: batches(0, 30), 30: batches(30, 60)}, name)
    found = rows(tmp_path / "d1", tmp_path / "d2", now_ms=START_MS + DAY_MS, free=(FreeRequest(1),))
    (plan,) = found[-1][1]["plans"]
    assert plan["directories"] == [str(tmp_path / "d1"), str(tmp_path / "d2")]
    assert len(plan["steps"]) == 1


def test_unknown_settings_are_reported_first(tmp_path: Path) -> None:
    """They are in the metadata log of the node's other data directory."""
    shutil.copytree(SAMPLE / "d2", tmp_path / "disk2/kafka")
    meta = tmp_path / "disk2/kafka/meta.properties"
    options = WhyOptions(NOW)

    def first(options: WhyOptions = options) -> Any:
        return next(iter(why([str(tmp_path / "disk2/kafka")], options)))

    assert (first().code, first().path) == ("topic-settings-unknown", str(meta))
    assert "no metadata log of cluster c0rpusSharedAAAAAAAAAA was found" in first().message
    assert isinstance(first(options._replace(topic_configs=False)), Row)
    shutil.copytree(SAMPLE / "d1/__cluster_metadata-0", tmp_path / "disk1/kafka" / METADATA)
    other = tmp_path / "disk1/kafka/meta.properties"
    other.write_text(meta.read_text().replace("node.id=1", "node.id=2"))
    assert isinstance(first(), Finding)
    shutil.copy(meta, other)
    assert isinstance(first(), Row)
    # The settings file names another data directory, wherever it is.
    shutil.move(tmp_path / "disk1/kafka", tmp_path / "elsewhere")
    assert isinstance(first(), Finding)
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={tmp_path}/disk2/kafka,{tmp_path}/elsewhere\n")
    assert isinstance(first(options._replace(server_properties=str(properties))), Row)
    meta.write_text("version=0\nbroker.id=1\ncluster.id=c\n")
    assert "ZooKeeper has them" in first().message


def test_rolls(tmp_path: Path) -> None:
    late = batch(60, base_timestamp=START_MS + 30 * DAY_MS, max_timestamp=START_MS + 30 * DAY_MS)
    directory = write_partition(tmp_path, {0: batches(0, 30), 30: batches(30, 60), 60: [late]})
    size = (directory / f"{0:020}.log").stat().st_size
    found = of("segment-fate", rows(directory, rolls=True))
    assert [one["rolled_by"] for one in found] == ["unexplained", "timestamp", "active"]
    os.utime(directory / f"{60:020}.log", (0, (START_MS + 31 * DAY_MS) // 1000))
    found = of("segment-fate", rows(directory, rolls=True))
    assert [one["rolled_by"] for one in found] == ["unexplained", "time", "active"]
    configs = (TopicConfig("segment.bytes", str(size)),)
    found = of("segment-fate", rows(directory, rolls=True, configs=configs))
    assert [one["rolled_by"] for one in found] == ["size", "size", "active"]
    assert [one["rolled_by"] for one in of("segment-fate", rows(directory))] == [
        None,
        None,
        "active",
    ]
