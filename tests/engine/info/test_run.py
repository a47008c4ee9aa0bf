"""What `info` says of directories: whose they are, what is odd, and what to type next."""

import shutil
from pathlib import Path

import pytest

from kdump.engine.info.run import InfoOptions, info
from kdump.errors import InternalError, NothingToDo, PathError, UsageError
from kdump.rows.info import Directory, Hint, PartitionSummary, TopicSummary
from kdump.storage import source
from kdump.storage.targets import Selection

SAMPLES = Path(__file__).parents[3] / "sample-data"
NOW_MS = 1_800_000_000_000


def run_info(*paths: Path, **options: object) -> list[object]:
    return [*info(map(str, paths), InfoOptions(now_ms=NOW_MS)._replace(**options))]


def hints(*paths: Path) -> dict[str, str]:
    return {one.text: one.command for one in run_info(*paths) if isinstance(one, Hint)}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLES / "clean/4.1.1/d1", tmp_path / "d1"))


def test_topics_of_two_directories_are_summed() -> None:
    rows = run_info(SAMPLES / "clean/4.1.1", sort="name")
    assert [one.partitions for one in rows if isinstance(one, Directory)] == [9, 7]
    topics = {one.topic: one for one in rows if isinstance(one, TopicSummary)}
    assert [*topics] == sorted(topics)
    ledger = topics["ledger.compact"]
    assert (ledger.cleanup_policy, ledger.partitions, ledger.replicas_here) == ("compact", 1, 1)
    assert topics["ledger.txn"].partitions == 2
    logs = (SAMPLES / "clean/4.1.1").rglob("orders.lz4-0/*.log")
    assert topics["orders.lz4"].size_bytes == sum(log.stat().st_size for log in logs)


def test_partition_rows_include_checkpointed_offsets(copy: Path) -> None:
    shutil.copytree(copy / "orders.lz4-0", copy / f"orders.lz4-0.{'0' * 32}-delete")
    rows = [one for one in run_info(copy, partitions=True) if isinstance(one, PartitionSummary)]
    assert [one.size_bytes for one in rows] == sorted(
        (one.size_bytes for one in rows), reverse=True
    )
    assert not [one for one in run_info(copy) if isinstance(one, PartitionSummary)]
    live, gone = (one for one in rows if one.topic == "orders.lz4")
    assert live.path == str(copy / "orders.lz4-0")
    assert (live.first_segment, live.last_segment, live.segments) == (0, 643, 4)
    assert (live.high_watermark, live.retired) == (837, None)
    assert (gone.high_watermark, gone.recovery_point, gone.retired) == (None, None, "delete")
    assert gone.size_bytes == live.size_bytes
    (one,) = [
        row
        for row in run_info(copy, partitions=True, selection=Selection("orders.zstd", 0))
        if isinstance(row, PartitionSummary)
    ]
    assert (one.topic, one.partition) == ("orders.zstd", 0)


def test_sound_directory_has_no_hint(copy: Path) -> None:
    (copy / ".kafka_cleanshutdown").touch()
    assert hints(copy) == {}


def test_no_log_is_opened(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Path] = []
    plain = source.Source.__init__

    def record(self: source.Source, path: str, *args: object, **named: object) -> None:
        opened.append(Path(path))
        plain(self, path, *args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(source.Source, "__init__", record)
    run_info(copy)
    logs = {path.parent.name for path in opened if path.suffix == ".log"}
    assert logs == {"__cluster_metadata-0"}


def test_unknown_files_and_directories(copy: Path) -> None:
    (copy / "meta.properties").unlink()
    (copy / f"orders.lz4-0.{'a' * 32}-delete").mkdir()
    (copy / f"orders.lz4-1.{'a' * 32}-stray").mkdir()
    log = copy / "orders.zstd-0/00000000000000000293.log"
    log.with_suffix(".log.swap").touch()
    index = min((copy / "orders.snappy-0").glob("*.timeindex"))
    index.write_bytes((NOW_MS + 10**9).to_bytes(8, "big") + bytes(4))
    found = hints(copy)
    assert [command.split()[1] for command in found.values()] == [
        "predict", "why", "salvage", "verify", "verify",
    ]  # fmt: skip
    texts = " ".join(found)
    for words in ("meta.properties is missing", "1 -delete", "1 -stray", "1 .swap", "the future"):
        assert words in texts
    assert all(command.endswith(str(copy)) for command in found.values())


def test_one_hint_names_all_directories() -> None:
    found = hints(SAMPLES / "damaged/4.4.0-three-nodes")
    (command,) = (one for text, one in found.items() if "did not stop cleanly" in text)
    assert command.count("three-nodes/n") == 3


def test_missing_brokers_are_reported() -> None:
    found = hints(SAMPLES / "damaged/4.4.0-three-nodes/n1")
    assert "Other brokers of the cluster, whose directories are not here: 2, 3." in found


def test_exception_in_dating_stops_nothing_else(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(path: str, **asked: object) -> None:
        raise RuntimeError("injected")

    monkeypatch.delenv("KDUMP_TRACEBACK", raising=False)
    monkeypatch.setattr("kdump.replay.cluster.read_cluster", failing)
    rows = run_info(copy)
    assert [one.written_by for one in rows if isinstance(one, Directory)] == ["0.7 to 4.4"]
    assert any("injected" in str(one) for one in rows if isinstance(one, InternalError))


def test_two_clusters_are_reported(copy: Path) -> None:
    assert any("2 clusters" in text for text in hints(copy, SAMPLES / "clean/2.8.2"))


def test_other_directories_are_described(tmp_path: Path) -> None:
    (tmp_path / "zk/version-2").mkdir(parents=True)
    (tmp_path / "zk/version-2/log.1").touch()
    (tmp_path / "panda/redpanda/controller").mkdir(parents=True)
    log = SAMPLES / "clean/4.1.1/d1/orders.zstd-0/00000000000000000293.log"
    assert hints(tmp_path / "zk").popitem()[1] == "kdump info LOG_DIR"
    assert "Redpanda" in hints(tmp_path / "panda").popitem()[0]
    assert hints(log).popitem()[1] == f"kdump verify {log}"
    assert hints(log.parent).popitem()[1] == f"kdump verify {log.parent}"
    (tmp_path / "empty").mkdir()
    assert isinstance(run_info(tmp_path / "empty")[0], NothingToDo)
    assert isinstance(run_info(tmp_path / "absent")[0], PathError)


def test_running_broker_is_found_without_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kdump.engine.info.run.settings_of_running_broker", lambda: None)
    with pytest.raises(UsageError):
        run_info()
    settings = tmp_path / "server.properties"
    settings.write_text(f"log.dirs={SAMPLES}/clean/4.1.1/d1\n")
    monkeypatch.setattr("kdump.engine.info.run.settings_of_running_broker", lambda: str(settings))
    assert any(isinstance(one, Directory) for one in run_info())
