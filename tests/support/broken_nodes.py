"""A table of nodes, broken and sound: each changes one thing about a broker that had stopped.

Names say what was changed; `TABLE` has those of each version where the change has a meaning.
"""

import json
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import builders
import metadata_log
from node_starts import Node

Change = Callable[[Node], None]
KRAFT, ZK = ("4.4.0", "4.1.1"), ("2.8.2", "0.10.2.2")
ALL = KRAFT + ZK
OTHER_CLUSTER = "XXXXXXXXXXXXXXXXXXXXXX"


class Broken(NamedTuple):
    name: str
    versions: tuple[str, ...]
    change: Change
    directories: int = 1
    needs_root: bool = False

    @property
    def file_name(self) -> str:
        """The name in that of a directory, which no comma may be in."""
        return re.sub(r"\W+", "_", self.name)


def text(name: str, content: str | bytes, where: str = "first") -> Change:
    def change(node: Node) -> None:
        path = getattr(node, where) / name
        data = content if isinstance(content, bytes) else content.encode("latin-1")
        path.write_bytes(data)

    return change


def meta(where: str = "first", **values: str | None) -> Change:
    changed = {name.replace("_", "."): value for name, value in values.items()}
    return lambda node: node.write_meta(changed, getattr(node, where))


def settings(**values: str | None) -> Change:
    def change(node: Node) -> None:
        for name, value in values.items():
            if value is None:
                node.settings.pop(name.replace("_", "."), None)
            else:
                node.settings[name.replace("_", ".")] = value
        node.write_settings()

    return change


def gone(name: str, where: str = "first") -> Change:
    def change(node: Node) -> None:
        path = getattr(node, where) / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()

    return change


def folder(name: str, where: str = "first") -> Change:
    def change(node: Node) -> None:
        path = getattr(node, where) / name
        path.unlink(missing_ok=True)
        path.mkdir()

    return change


def both(*changes: Change) -> Change:
    def change(node: Node) -> None:
        for each in changes:
            each(node)

    return change


_HOLD = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print(flush=True)
sys.stdin.read()
"""


def held(node: Node) -> None:
    """Another process holds the lock, as a broker that runs does."""
    command = [sys.executable, "-c", _HOLD, str(node.first / ".lock")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    node.held.append(process)


def second_gone(node: Node) -> None:
    shutil.rmtree(node.second)


def second_is_file(node: Node) -> None:
    shutil.rmtree(node.second)
    node.second.write_bytes(b"")


def second_emptied(node: Node) -> None:
    shutil.rmtree(node.second)
    node.second.mkdir()


def first_gone(node: Node) -> None:
    shutil.rmtree(node.first)


def first_emptied(node: Node) -> None:
    shutil.rmtree(node.first)
    node.first.mkdir()


def in_both(node: Node) -> None:
    here = min(node.first.glob("orders-*"))
    shutil.copytree(here, node.second / here.name)


def metadata_in_both(node: Node) -> None:
    shutil.copytree(node.metadata, node.second / node.metadata.name)


def same_directory_id(node: Node) -> None:
    node.write_meta({"directory.id": node.meta()["directory.id"]}, node.second)


def quorum(**values: object) -> Change:
    def change(node: Node) -> None:
        path = node.metadata / "quorum-state"
        said = json.loads(path.read_text()) | values
        said = {name: value for name, value in said.items() if value is not ...}
        path.write_text(json.dumps(said))

    return change


def newest_snapshot(node: Node) -> Path:
    return max(node.metadata.glob("*.checkpoint"))


def log(node: Node) -> Path:
    return max(node.metadata.glob("*.log"))


def cut(find: Callable[[Node], Path], size: int) -> Change:
    def change(node: Node) -> None:
        path = find(node)
        os.truncate(path, size if size >= 0 else path.stat().st_size + size)

    return change


def flipped(find: Callable[[Node], Path], at: int) -> Change:
    def change(node: Node) -> None:
        path = find(node)
        data = bytearray(path.read_bytes())
        data[at] ^= 0x40
        path.write_bytes(data)

    return change


def appended(data: bytes) -> Change:
    def change(node: Node) -> None:
        with log(node).open("ab") as file:
            file.write(data)

    return change


def log_end(node: Node) -> tuple[int, int]:
    data, at, last, epoch = log(node).read_bytes(), 0, -1, 0
    while at + 61 <= len(data):
        base, size, epoch = struct.unpack_from(">qii", data, at)
        last = base + struct.unpack_from(">i", data, at + 23)[0]
        at += 12 + size
    return last + 1, epoch


def records(*values: bytes) -> Change:
    """Append a batch of metadata records, as a controller of the node's epoch would."""

    def change(node: Node) -> None:
        end, epoch = log_end(node)
        body = [builders.record(n, 0, None, value) for n, value in enumerate(values)]
        batch = builders.batch(
            body, base_offset=end, leader_epoch=epoch, base_timestamp=metadata_log.NOW
        )
        appended(batch)(node)

    return change


def feature(name: str, level: int) -> bytes:
    body = metadata_log.text(name) + struct.pack(">h", level) + metadata_log.tagged()
    return metadata_log.framed(12, 0, body)


def no_log(node: Node) -> None:
    for path in node.metadata.glob("000*[xgt]"):
        if path.suffix in (".log", ".index", ".timeindex", ".snapshot"):
            path.unlink()


def no_snapshots(node: Node) -> None:
    for path in node.metadata.glob("*.checkpoint"):
        path.unlink()


def only_first_snapshot(node: Node) -> None:
    for path in sorted(node.metadata.glob("*.checkpoint"))[1:]:
        path.unlink()


def log_moved(node: Node) -> None:
    """The log begins where it has no snapshot for."""
    no_snapshots(node)
    end, epoch = log_end(node)
    no_log(node)
    data = builders.batch(
        [builders.record(0, 0, None, metadata_log.NO_OP)], base_offset=end + 50,
        leader_epoch=epoch, base_timestamp=metadata_log.NOW,
    )  # fmt: skip
    (node.metadata / f"{end + 50:020}.log").write_bytes(data)


def partition(name: str, content: bytes) -> Change:
    def change(node: Node) -> None:
        (min(node.first.glob("orders-*")) / name).write_bytes(content)

    return change


def run_by(*words: str) -> Change:
    def change(node: Node) -> None:
        node.run_before = list(words)

    return change


_NO_CAPS = ("capsh", "--drop=cap_dac_override,cap_dac_read_search,cap_fowner", "--", "-c",
            'exec "$0" "$@"')  # fmt: skip


def chown(path: str, mode: int, *, deep: bool = False) -> Change:
    """Give something to another user, with a mode; the broker is run without rights to all."""

    def change(node: Node) -> None:
        found = node.first / path
        for each in [found, *(found.rglob("*") if deep else ())]:
            os.chown(each, 65534, 65534)
            each.chmod(mode if each.is_dir() or not deep else mode & 0o666)
        node.run_before = list(_NO_CAPS)

    return change


META = "meta.properties"
_BAD = "7\n0\n"
TABLE = [
    Broken("as it was", ALL, lambda node: None),
    Broken("two as they were", ALL, lambda node: None, 2),
    # meta.properties
    Broken("meta missing", ALL, gone(META)),
    Broken("meta empty", ALL, text(META, "")),
    Broken("meta garbage", ALL, text(META, bytes(range(256)))),
    Broken("meta zeros", ALL, text(META, bytes(100))),
    Broken("meta comment only", ALL, text(META, "#\n#Mon Nov 23 10:25:40 UTC 2026\n")),
    Broken("meta cut", ALL, cut(lambda node: node.first / META, -30)),
    Broken("meta is a directory", ALL, folder(META)),
    Broken("meta bad escape", ALL, text(META, "version=1\nnode.id=\\u12\n")),
    Broken("meta version 2", ALL, meta(version="2")),
    Broken("meta version 9999", ALL, meta(version="9999")),
    Broken("meta version text", ALL, meta(version="abc")),
    Broken("meta version empty", ALL, meta(version="")),
    Broken("meta version blank", ALL, meta(version="1 ")),
    Broken("meta version negative", ALL, meta(version="-1")),
    Broken("meta no version", ALL, meta(version=None)),
    Broken("meta version 0", KRAFT, meta(version="0")),
    Broken("meta of zookeeper", KRAFT, meta(version="0", node_id=None, broker_id="1")),
    Broken("meta of zookeeper and other id", KRAFT, meta(version="0", node_id=None, broker_id="7")),
    Broken("meta of zookeeper without cluster", KRAFT,
           meta(version="0", node_id=None, broker_id="1", cluster_id=None)),
    Broken("meta of kraft", ZK, meta(version="1", broker_id=None, node_id="1")),
    Broken("meta of kraft with both ids", ZK, meta(version="1", node_id="1")),
    Broken("meta other node", KRAFT, meta(node_id="99")),
    Broken("meta other broker", ZK, meta(broker_id="99")),
    Broken("meta node text", KRAFT, meta(node_id="one")),
    Broken("meta broker text", ZK, meta(broker_id="one")),
    Broken("meta node overflow", KRAFT, meta(node_id="99999999999")),
    Broken("meta broker overflow", ZK, meta(broker_id="99999999999")),
    Broken("meta node negative", KRAFT, meta(node_id="-1")),
    Broken("meta broker negative", ZK, meta(broker_id="-1")),
    Broken("meta node plus", KRAFT, meta(node_id="+1")),
    Broken("meta node blank", KRAFT, meta(node_id="1 ")),
    Broken("meta node empty", KRAFT, meta(node_id="")),
    Broken("meta no node", KRAFT, meta(node_id=None)),
    Broken("meta no broker", ZK, meta(broker_id=None)),
    Broken("meta broker in place of node", KRAFT, meta(node_id=None, broker_id="1")),
    Broken("meta other cluster", ALL, meta(cluster_id=OTHER_CLUSTER)),
    Broken("meta no cluster", ALL, meta(cluster_id=None)),
    Broken("meta cluster empty", ALL, meta(cluster_id="")),
    Broken("meta no directory id", KRAFT, meta(directory_id=None)),
    Broken("meta other directory id", KRAFT, meta(directory_id="YSOz1jVZxxMsYtz3vOdPCA")),
    Broken("meta directory id short", KRAFT, meta(directory_id="abc")),
    Broken("meta directory id long", KRAFT, meta(directory_id="A" * 40)),
    Broken("meta directory id signs", KRAFT, meta(directory_id="!" * 22)),
    Broken("meta directory id empty", KRAFT, meta(directory_id="")),
    Broken("meta directory id 0", KRAFT, meta(directory_id="A" * 22)),
    Broken("meta directory id 1", KRAFT, meta(directory_id="A" * 21 + "Q")),
    Broken("meta directory id 2", KRAFT, meta(directory_id="A" * 21 + "g")),
    Broken("meta directory id 50", KRAFT, meta(directory_id="A" * 20 + "Mg")),
    Broken("meta unknown name", ALL, meta(colour="red")),
    Broken("settings other node", KRAFT, settings(node_id="99")),
    Broken("settings other broker", ZK, settings(broker_id="99")),
    # several directories
    Broken("second without meta", ALL, gone(META, "second"), 2),
    Broken("second meta empty", ALL, text(META, "", "second"), 2),
    Broken("second meta version 2", ALL, meta("second", version="2"), 2),
    Broken("second other node", KRAFT, meta("second", node_id="99"), 2),
    Broken("second other broker", ZK, meta("second", broker_id="99"), 2),
    Broken("second other cluster", ALL, meta("second", cluster_id=OTHER_CLUSTER), 2),
    Broken("second no cluster", ALL, meta("second", cluster_id=None), 2),
    Broken("second gone", ALL, second_gone, 2),
    Broken("second a file", ALL, second_is_file, 2),
    Broken("second emptied", ALL, second_emptied, 2),
    Broken("second of zookeeper", KRAFT,
           meta("second", version="0", node_id=None, broker_id="1"), 2),
    Broken("same directory id", KRAFT, same_directory_id, 2),
    Broken("first without meta", ALL, gone(META), 2),
    Broken("first meta empty", ALL, text(META, ""), 2),
    Broken("first gone", ALL, first_gone, 2),
    Broken("first emptied", ALL, first_emptied, 2),
    Broken("both without meta", ALL, both(gone(META), gone(META, "second")), 2),
    Broken("a partition in both", ALL, in_both, 2),
    Broken("metadata in both", KRAFT, metadata_in_both, 2),
    Broken("metadata is the second", KRAFT,
           lambda node: settings(metadata_log_dir=str(node.second))(node), 2),
    # quorum-state
    Broken("quorum-state missing", KRAFT, gone("quorum-state", "metadata")),
    Broken("quorum-state empty", KRAFT, text("quorum-state", "", "metadata")),
    Broken("quorum-state garbage", KRAFT, text("quorum-state", "leader=1", "metadata")),
    Broken("quorum-state cut", KRAFT, cut(lambda node: node.metadata / "quorum-state", -20)),
    Broken("quorum-state a list", KRAFT, text("quorum-state", "[]", "metadata")),
    Broken("quorum-state blank line", KRAFT, text("quorum-state", "\n{}", "metadata")),
    Broken("quorum-state no version", KRAFT, quorum(data_version=...)),
    Broken("quorum-state version 2", KRAFT, quorum(data_version=2)),
    Broken("quorum-state version -1", KRAFT, quorum(data_version=-1)),
    Broken("quorum-state version text", KRAFT, quorum(data_version="x")),
    Broken("quorum-state version 1", KRAFT, quorum(data_version=1)),
    Broken("quorum-state no epoch", KRAFT, quorum(leaderEpoch=...)),
    Broken("quorum-state no leader", KRAFT, quorum(leaderId=...)),
    Broken("quorum-state more", KRAFT, quorum(colour="red")),
    Broken("quorum-state other leader", KRAFT, quorum(leaderId=99)),
    Broken("quorum-state other vote", KRAFT, quorum(leaderId=-1, votedId=99)),
    Broken("quorum-state leader and vote", KRAFT, quorum(votedId=1)),
    Broken("quorum-state high epoch", KRAFT, quorum(leaderEpoch=500)),
    Broken("quorum-state epoch 0", KRAFT, quorum(leaderEpoch=0)),
    Broken("quorum-state epoch negative", KRAFT, quorum(leaderEpoch=-1)),
    Broken("quorum-state epoch text", KRAFT, quorum(leaderEpoch="x")),
    Broken("quorum-state other voters", KRAFT, quorum(currentVoters=[{"voterId": 7}])),
    Broken("quorum-state a directory", KRAFT, folder("quorum-state", "metadata")),
    # voters and other settings
    Broken("voters without it", KRAFT, settings(controller_quorum_voters="2@127.0.0.1:9")),
    Broken("voters malformed", KRAFT, settings(controller_quorum_voters="1@localhost")),
    Broken("voters no port", KRAFT, settings(controller_quorum_voters="one@localhost:9093")),
    Broken("voters none", KRAFT, settings(controller_quorum_voters=None)),
    Broken("no roles", KRAFT, settings(process_roles=None)),
    Broken("roles of the dead", KRAFT, settings(process_roles="zombie")),
    Broken("roles twice", KRAFT, settings(process_roles="broker,broker")),
    Broken("no node id", KRAFT, settings(node_id=None)),
    Broken("node id negative", KRAFT, settings(node_id="-2")),
    Broken("node and broker id", KRAFT, settings(broker_id="5")),
    Broken("node id text", KRAFT, settings(node_id="one")),
    Broken("no controller names", KRAFT, settings(controller_listener_names=None)),
    Broken("no log dirs", KRAFT, settings(log_dirs="")),
    Broken("broker protocol kept", KRAFT, settings(inter_broker_protocol_version="2.8")),
    Broken("broker protocol unknown", ALL, settings(inter_broker_protocol_version="99.9")),
    Broken("message format unknown", ZK, settings(log_message_format_version="99.9")),
    Broken("message format above", ZK, settings(
        inter_broker_protocol_version="0.9.0.0", log_message_format_version="0.10.0")),
    Broken("message format below", ZK, settings(log_message_format_version="0.9.0")),
    Broken("broker protocol low", ZK, settings(
        inter_broker_protocol_version="0.9.0.0", log_message_format_version="0.9.0.0")),
    Broken("zookeeper in settings", KRAFT, settings(zookeeper_connect="localhost:2181")),
    Broken("segment too small", ALL, settings(log_segment_bytes="3")),
    Broken("number that is none", ALL, settings(num_network_threads="many")),
    # locks
    Broken("lock held", ALL, held),
    Broken("lock left", ALL, text(".lock", "")),
    Broken("lock a directory", ALL, folder(".lock")),
    # the metadata log and its snapshots
    Broken("metadata gone", KRAFT, gone("__cluster_metadata-0")),
    Broken("metadata log gone", KRAFT, no_log),
    Broken("metadata snapshots gone", KRAFT, no_snapshots),
    Broken("metadata log and snapshots gone", KRAFT, both(no_log, no_snapshots)),
    Broken("metadata log empty", KRAFT, both(no_snapshots, cut(log, 0))),
    Broken("metadata first snapshot only", KRAFT, only_first_snapshot),
    Broken("metadata log torn", KRAFT, cut(log, -10)),
    Broken("metadata log garbage behind", KRAFT, appended(b"\7" * 200)),
    Broken("metadata log zeros behind", KRAFT, appended(bytes(4096))),
    Broken("metadata log flipped", KRAFT, flipped(log, 120)),
    Broken("metadata log begins late", KRAFT, log_moved),
    Broken("metadata log without epochs", KRAFT, gone("leader-epoch-checkpoint", "metadata")),
    Broken("metadata epochs of version 7", KRAFT,
           text("leader-epoch-checkpoint", _BAD, "metadata")),
    Broken("metadata no partition.metadata", KRAFT, gone("partition.metadata", "metadata")),
    Broken("metadata other topic id", KRAFT, text(
        "partition.metadata", "version: 0\ntopic_id: YSOz1jVZxxMsYtz3vOdPCA", "metadata")),
    Broken("metadata partition.metadata empty", KRAFT,
           text("partition.metadata", "", "metadata")),
    Broken("snapshot empty", KRAFT, cut(newest_snapshot, 0)),
    Broken("snapshot torn", KRAFT, cut(newest_snapshot, -30)),
    Broken("snapshot without footer", KRAFT, cut(newest_snapshot, -75)),
    Broken("snapshot in half", KRAFT, cut(newest_snapshot, 200)),
    Broken("snapshot flipped", KRAFT, flipped(newest_snapshot, 170)),
    Broken("snapshot header flipped", KRAFT, flipped(newest_snapshot, 70)),
    Broken("snapshot part", KRAFT, text(
        "00000000000000000099-0000000001.checkpoint.part", "x", "metadata")),
    Broken("snapshot ahead", KRAFT, lambda node: shutil.copy(
        newest_snapshot(node), node.metadata / "00000000000000009000-0000000001.checkpoint")),
    Broken("record unknown", KRAFT, records(metadata_log.framed(200, 0, b"\0"))),
    Broken("record version 99", KRAFT, records(metadata_log.framed(2, 99, b"\0"))),
    Broken("record cut", KRAFT, records(metadata_log.topic("t", 5)[:-6])),
    Broken("record frame 2", KRAFT, records(b"\2" + metadata_log.NO_OP[1:])),
    Broken("record empty", KRAFT, records(b"")),
    Broken("record too long", KRAFT, records(metadata_log.NO_OP + b"\0\0\0")),
    Broken("feature metadata 99", KRAFT, records(feature("metadata.version", 99))),
    Broken("feature metadata 1", KRAFT, records(feature("metadata.version", 1))),
    Broken("feature metadata 8", KRAFT, records(feature("metadata.version", 8))),
    Broken("feature metadata one above", ("4.1.1",), records(feature("metadata.version", 28))),
    Broken("feature unknown", KRAFT, records(feature("colour.version", 1))),
    Broken("feature unknown at level 0", KRAFT, records(feature("colour.version", 0))),
    Broken("feature groups 9", KRAFT, records(feature("group.version", 9))),
    Broken("feature transactions 9", KRAFT, records(feature("transaction.version", 9))),
    Broken("feature kraft 9", KRAFT, records(feature("kraft.version", 9))),
    Broken("bootstrap gone", ("4.1.1",), gone("bootstrap.checkpoint")),
    Broken("bootstrap empty", KRAFT, text("bootstrap.checkpoint", "")),
    Broken("bootstrap garbage", KRAFT, text("bootstrap.checkpoint", "x" * 300)),
    Broken("bootstrap torn", ("4.1.1",), cut(lambda node: node.first / "bootstrap.checkpoint", -9)),
    Broken("bootstrap and metadata gone", ("4.1.1",),
           both(gone("bootstrap.checkpoint"), gone("__cluster_metadata-0"))),
    # checkpoints, marks and names
    *(Broken(f"{name} {how}", ALL, text(name, content))
      for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint",
                   "log-start-offset-checkpoint", "cleaner-offset-checkpoint")
      for how, content in (("of version 7", _BAD), ("empty", ""), ("of text", "x\ny\n"),
                           ("short", "0\n5\norders 0 1\n"))),
    Broken("checkpoint a directory", ALL, folder("replication-offset-checkpoint")),
    Broken("mark gone", ALL, gone(".kafka_cleanshutdown")),
    Broken("mark garbage", ALL, text(".kafka_cleanshutdown", "x")),
    Broken("epochs of version 7", ALL, partition("leader-epoch-checkpoint", _BAD.encode())),
    Broken("partition.metadata empty", (*KRAFT, "2.8.2"), partition("partition.metadata", b"")),
    Broken("partition.metadata of version 7", (*KRAFT, "2.8.2"),
           partition("partition.metadata", b"version: 7\ntopic_id: YSOz1jVZxxMsYtz3vOdPCA")),
    Broken("lost+found", ALL, folder("lost+found")),
    Broken("a folder", ALL, folder("backup")),
    Broken("a folder with a dash", ALL, folder("backup-old")),
    Broken("a stray file", ALL, text("notes.txt", "x")),
    Broken("tiered cache", ALL, folder("remote-log-index-cache")),
    Broken("segment name of no number", ALL, partition("backup.log", b"")),
    # rights
    *(Broken(name, versions, chown(path, mode), needs_root=True)
      for name, versions, path, mode in (
          ("directory of another", ALL, ".", 0o700),
          ("directory read only", ALL, ".", 0o755),
          ("meta unreadable", ALL, META, 0o600),
          ("partition unreadable", ALL, "orders-0", 0o700),
          ("partition read only", ALL, "orders-0", 0o755),
          ("log unreadable", ALL, "orders-0/00000000000000000000.log", 0o600),
          ("log read only", ALL, "orders-0/00000000000000000000.log", 0o644),
          ("index read only", ALL, "orders-0/00000000000000000000.index", 0o644),
          ("checkpoint unreadable", ALL, "replication-offset-checkpoint", 0o600),
          ("recovery point unreadable", ALL, "recovery-point-offset-checkpoint", 0o600),
          ("metadata unreadable", KRAFT, "__cluster_metadata-0", 0o700),
          ("quorum-state unreadable", KRAFT, "__cluster_metadata-0/quorum-state", 0o600),
      )),
    Broken("lock of another", ALL, both(text(".lock", ""), chown(".lock", 0o600)),
           needs_root=True),
    Broken("everything of another", ALL, chown(".", 0o700, deep=True), needs_root=True),
]  # fmt: skip
