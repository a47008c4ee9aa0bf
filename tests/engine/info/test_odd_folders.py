"""Fifty paths that people give `info`, each with the hint that leads on from there."""

import gzip
import os
import shutil
import socket
import sqlite3
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner
from holding import hold_lock
from unprivileged import run_unprivileged

from kdump.cli import cli
from kdump.engine.info.run import InfoOptions, info
from kdump.rows.info import Hint
from kdump.storage import names
from kdump.storage.producer_snapshot import ProducerState, snapshot_of

SAMPLES = Path(__file__).parents[3] / "sample-data"
D1 = SAMPLES / "clean/4.1.1/d1"
SEGMENTS = D1 / "orders.zstd-0"
LOG = SEGMENTS / "00000000000000000293.log"
META = names.META_PROPERTIES
ID = "a" * 32
NOW_MS = 1_800_000_000_000

Make = Callable[[Path], Path | None]


def node(change: Callable[[Path], object], source: Path = D1) -> Make:
    """Copy a directory whose broker stopped cleanly, and change it."""

    def make(path: Path) -> None:
        shutil.copytree(source, path)
        (path / names.CLEAN_SHUTDOWN).write_text('{"version":0,"brokerEpoch":5}')
        change(path)

    return make


def files(*listed: str, content: bytes = b"") -> Make:
    """Make a folder with these files; their content is that of the first."""

    def make(path: Path) -> None:
        for name in listed:
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(content)

    return make


def write_file(name: str, content: bytes) -> Make:
    """Make one file, of a name of its own, or of the given one."""

    def make(path: Path) -> Path:
        path.mkdir()
        (path / name).write_bytes(content)
        return path / name

    return make


def make_link(target: str) -> Make:
    return lambda path: path.symlink_to(target)


def archive(path: Path) -> Path:
    with tarfile.open(path.with_suffix(".tar.gz"), "w:gz") as opened:
        opened.add(SEGMENTS, "data/orders.zstd-0")
        opened.add(D1 / META, f"data/{META}")
        opened.add(D1 / names.CLEAN_SHUTDOWN, f"data/{names.CLEAN_SHUTDOWN}")
    return path.with_suffix(".tar.gz")


def database(path: Path) -> None:
    with sqlite3.connect(path) as opened:
        opened.execute("create table t(a)")


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))


def installation(path: Path) -> None:
    files("bin/a.sh", "libs/kafka.jar", "config/server.properties")(path)
    (path / "config/server.properties").write_text(f"log.dirs={D1}\nnode.id=1\n")


def empty(path: Path) -> None:
    for log in path.rglob("*.log"):
        log.write_bytes(b"")


def without(*patterns: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        for pattern in patterns:
            for one in path.glob(pattern):
                shutil.rmtree(one) if one.is_dir() else one.unlink()

    return change


def retire(path: Path) -> None:
    for suffix in ("delete", "stray", "future"):
        shutil.copytree(SEGMENTS, path / f"orders.zstd-1.{ID}-{suffix}")


def in_transaction(path: Path) -> None:
    """A transaction was open for a day when the broker stopped, and one for a second."""
    end = path / "orders.zstd-0/00000000000000009000.snapshot"
    now = NOW_MS // 1000
    end.write_bytes(
        snapshot_of(
            [
                ProducerState(7, 0, 5, 800, 0, (now - 86_400) * 1000, 0, 795),
                ProducerState(8, 0, 5, 820, 0, (now - 1) * 1000, 0, 815),
                ProducerState(9, 0, 5, 830, 0, (now - 172_800) * 1000, 0, -1),
            ]
        )
    )
    os.utime(end, (now, now))


def in_the_future(path: Path) -> None:
    index = min((path / "orders.snappy-0").glob("*.timeindex"))
    index.write_bytes((4_000_000_000_000).to_bytes(8, "big") + bytes(4))


def rename_folder(path: Path) -> None:
    shutil.copytree(SEGMENTS, path / "orders-backup")


def nothing(path: Path) -> None:
    pass


class Odd(NamedTuple):
    """A path, the words of its hint or of what is said instead, and the command to type."""

    name: str
    make: Make
    words: str
    command: str = ""  # {0} is the path


VERIFY, PREDICT, INFO = "kdump verify {0}", "kdump predict {0}", "kdump info LOG_DIR"
NOTHING = "no Kafka files"
_AMONG = "among the partitions: a broker start fails"
TABLE = [
    Odd("empty", lambda path: path.mkdir(), NOTHING),
    Odd("absent", nothing, "No such file"),
    Odd("lost+found alone", lambda path: (path / "lost+found").mkdir(parents=True), NOTHING),
    Odd("folders like partitions", files("dbus-1/x", "polkit-1/x", "passwd"), NOTHING),
    Odd("folder of partition's name", lambda path: (path / "orders-0").mkdir(parents=True),
        NOTHING),
    Odd("one segment", write_file(LOG.name, LOG.read_bytes()), "one file: log", VERIFY),
    Odd("compressed", write_file(f"{LOG.name}.gz", gzip.compress(LOG.read_bytes())),
        "one file: log", VERIFY),
    Odd("snapshot", write_file("00000000000000000169.snapshot", snapshot_of([])),
        "one file: producer snapshot", VERIFY),
    Odd("checkpoint", write_file(names.REPLICATION_CHECKPOINT, b"0\n0\n"),
        "one file: offset checkpoint", "kdump dump {0}"),
    Odd("settings", write_file("server.properties", f"log.dirs={D1}\nnode.id=1\n".encode()),
        "These are settings", "kdump info --server-properties {0}"),
    Odd("capture", write_file("a.pcap", bytes.fromhex("d4c3b2a1020004000000000000000000") +
                           bytes.fromhex("0000040001000000")), "one file: capture",
        "kdump dump {0}"),
    Odd("image", write_file("sdb1.img", bytes(4096) + LOG.read_bytes()), "a disk image",
        "kdump carve {0}"),
    Odd("sqlite", database, "SQLite wrote this", INFO),
    Odd("pipe", os.mkfifo, "is a pipe"),  # type: ignore[arg-type]
    Odd("socket", make_socket, "is a socket"),
    Odd("device", lambda path: Path("/dev/null"), "is a character device"),
    Odd("link to nowhere", make_link("/nonexistent/x"), "link to /nonexistent/x, which does not"),
    Odd("link", make_link(str(D1)), ""),
    Odd("archive", archive, ""),
    Odd("partition", lambda path: Path(shutil.copytree(SEGMENTS, path / "orders.zstd-0")),
        "one partition, orders.zstd-0", VERIFY),
    Odd("partitions", lambda path: shutil.copytree(SEGMENTS, path / "orders.zstd-0") and None,
        "without the broker's other files", VERIFY),
    Odd("renamed topic", rename_folder, "its name is not TOPIC-PARTITION",
        "kdump verify {0}/orders-backup"),
    Odd("indexes", files("00000000000000000000.index", "00000000000000000000.timeindex"),
        "indexes without their logs", VERIFY),
    Odd("partition of indexes", node(without("orders.zstd-0/*.log")),
        "orders.zstd-0: indexes without their logs", VERIFY),
    Odd("zookeeper", files("version-2/log.1", "version-2/snapshot.0", "myid"), "ZooKeeper server",
        INFO),
    Odd("redpanda", files("data/kafka/orders/0_17/0-1-v1.log", "data/redpanda/controller/x"),
        "Redpanda wrote this", INFO),
    Odd("topic of redpanda", files("0_17/0-1-v1.log"), "Redpanda wrote this", INFO),
    Odd("rocksdb", files("CURRENT", "MANIFEST-000004", "000008.log", "000007.sst", "LOCK",
                         "OPTIONS-000005"), "LevelDB or RocksDB wrote this", INFO),
    Odd("rocksdb below", files("store/CURRENT", "store/MANIFEST-000004", "store/000007.sst"),
        "LevelDB or RocksDB wrote this", INFO),
    Odd("postgresql", files("PG_VERSION", "base/1/112", "global/pg_control"),
        "PostgreSQL wrote this", INFO),
    Odd("mysql", files("ibdata1", "ib_logfile0"), "MySQL or MariaDB wrote this", INFO),
    Odd("mongodb", files("WiredTiger", "collection-0.wt"), "MongoDB wrote this", INFO),
    Odd("bookkeeper", files("current/VERSION", "current/0.log", "current/lastId"),
        "BookKeeper wrote this", INFO),
    Odd("streams", files("app/0_0/.checkpoint", "app/kafka-streams-process-metadata"),
        "Kafka Streams wrote this", INFO),
    Odd("installation", installation, "an installation of Kafka",
        "kdump info --server-properties {0}/config/server.properties"),
    Odd("text logs", files("server.log", "controller.log", "state-change.log"), "text logs", INFO),
    Odd("remote storage", files(f"kafka-tiered-storage/orders-0-{'A' * 22}/{0:020}-{'B' * 22}.log",
                                content=LOG.read_bytes()), "remote storage of tiered topics",
        "kdump salvage --tier {0}/kafka-tiered-storage"),
    Odd("sound", node(nothing), ""),
    Odd("of 0.7", lambda path: shutil.copytree(SAMPLES / "clean/0.7.2", path) and None, ""),
    Odd("killed", node(without(names.CLEAN_SHUTDOWN)), "did not stop cleanly", PREDICT),
    Odd("formatted", node(without("*-[0-9]", "*-checkpoint", "x")), "It was formatted", PREDICT),
    Odd("controller", node(without("[!_]*-[0-9]", "__[!c]*", "__co*")),
        "the metadata log but no topic", "kdump cluster {0}"),
    Odd("mounted", node(lambda path: (path / "lost+found").mkdir()), f"lost+found {_AMONG}",
        PREDICT),
    Odd("partition renamed", node(lambda path: (path / "orders.zstd-0").rename(path / "old")),
        f"old {_AMONG}", PREDICT),
    Odd("one in the other", node(lambda path: shutil.copytree(D1, path / "backup")),
        f"backup {_AMONG}", PREDICT),
    Odd("delete", node(retire), "1 -delete directory: removed by a running", "kdump salvage {0}"),
    Odd("stray", node(retire), "1 -stray directory: renamed by a broker start", VERIFY),
    Odd("future", node(retire), "1 -future directory: being moved", VERIFY),
    Odd("swap", node(lambda path: (path / f"orders.zstd-0/{LOG.name}.swap").touch()),
        "1 .swap file left over", VERIFY),
    Odd("no meta", node(without(META)), "meta.properties is missing", PREDICT),
    Odd("meta of text", node(lambda path: (path / META).write_text("hello\0")),
        "or does not name a broker", PREDICT),
    Odd("meta a folder", node(lambda path: [(path / META).unlink(), (path / META).mkdir()]),
        f"meta.properties {_AMONG}", PREDICT),
    Odd("far time", node(in_the_future), "timestamp in the future", "kdump why {0}"),
    Odd("transaction", node(in_transaction),
        "orders.zstd-0 has an open transaction at offset 795 since 2027-01-14T08:00:00.000Z",
        "kdump transactions {0}"),
    Odd("logs emptied", node(empty), "6 more: the log ends before its high watermark", VERIFY),
    Odd("copied twice", lambda path: [shutil.copytree(D1, path / one) for one in "ab"] and None,
        "2 directories have the directory.id", "kdump compare {0}/a {0}/b"),
    Odd("two clusters", lambda path: [shutil.copytree(one, path / one.name)
                                      for one in (D1, SAMPLES / "clean/2.8.2")] and None,
        "belong to 2 clusters", "kdump cluster {0}/2.8.2 {0}/d1"),
]  # fmt: skip


@pytest.mark.parametrize("odd", TABLE, ids=lambda odd: odd.name)
def test_each_folder_gets_a_hint(odd: Odd, tmp_path: Path) -> None:
    path = odd.make(tmp_path / "given") or tmp_path / "given"
    result = CliRunner(env={"COLUMNS": "80"}).invoke(cli, ["info", "--format", "table", str(path)])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    said = " ".join((result.stdout + result.stderr).split())
    assert odd.words in said
    assert result.exit_code == int(bool(odd.words) and not odd.command)
    if odd.command:
        assert f"→ {odd.command.format(path)}" in said
    elif not odd.words:
        assert "→" not in said


def hints(path: Path) -> str:
    return " ".join(one.text for one in info([str(path)], InfoOptions()) if isinstance(one, Hint))


def test_full_disk_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    free = os.statvfs("/")
    values = [*free[:3], free.f_blocks // 50, free.f_blocks // 50, *free[5:]]
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(values))
    assert "The file system is 98% full." in hints(D1)


def test_running_broker_is_not_reported_as_killed(tmp_path: Path) -> None:
    node(empty)(tmp_path / "data")
    (tmp_path / "data" / names.CLEAN_SHUTDOWN).unlink()
    with hold_lock(tmp_path / "data"):
        found = hints(tmp_path / "data")
    assert found.startswith("A broker is running on it")
    assert "high watermark" not in found


def test_folder_without_list_permission(tmp_path: Path) -> None:
    node(lambda path: (path / "orders.zstd-0").chmod(0))(tmp_path / "data")
    done = run_unprivileged("info", "--format", "table", tmp_path / "data")
    (tmp_path / "data/orders.zstd-0").chmod(0o755)
    assert "1 partition cannot be listed: use the broker's user." in done.stdout
    (tmp_path / "data").chmod(0)
    done = run_unprivileged("info", tmp_path / "data")
    (tmp_path / "data").chmod(0o755)
    assert "Permission denied" in done.stderr
    assert done.returncode == 1
