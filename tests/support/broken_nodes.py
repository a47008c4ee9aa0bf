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
import damage
import metadata_log
from node_starts import Node

Change = Callable[[Node], None]
KRAFT, ZK = ("4.4.0", "4.1.1"), ("2.8.2", "0.10.2.2")
ALL = KRAFT + ZK
OTHER_CLUSTER = "XXXXXXXXXXXXXXXXXXXXXX"


class Fault(NamedTuple):
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


def remove_file(name: str, where: str = "first") -> Change:
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


def hold_lock(node: Node) -> None:
    """Another process holds the lock, as a broker that runs does."""
    command = [sys.executable, "-c", _HOLD, str(node.first / ".lock")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    node.held.append(process)


def remove_second(node: Node) -> None:
    shutil.rmtree(node.second)


def second_is_file(node: Node) -> None:
    shutil.rmtree(node.second)
    node.second.write_bytes(b"")


def empty_second(node: Node) -> None:
    shutil.rmtree(node.second)
    node.second.mkdir()


def remove_first(node: Node) -> None:
    shutil.rmtree(node.first)


def empty_first(node: Node) -> None:
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


def edit(find: Callable[[Node], Path], new: Callable[[bytes], bytes]) -> Change:
    """Replace the bytes of a file by what is made of them."""

    def change(node: Node) -> None:
        path = find(node)
        path.write_bytes(new(path.read_bytes()))

    return change


def flip_bit(find: Callable[[Node], Path], at: int) -> Change:
    return edit(find, lambda data: damage.flip_bit(data, at, 6))


def append_bytes(more: bytes) -> Change:
    return edit(log, lambda data: data + more)


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
        append_bytes(batch)(node)

    return change


def feature(name: str, level: int) -> bytes:
    body = metadata_log.text(name) + struct.pack(">h", level) + metadata_log.tag_fields()
    return metadata_log.frame_record(12, 0, body)


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


def move_log_start(node: Node) -> None:
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
    Fault("as it was", ALL, lambda node: None),
    Fault("two as they were", ALL, lambda node: None, 2),
    # meta.properties
    Fault("meta missing", ALL, remove_file(META)),
    Fault("meta empty", ALL, text(META, "")),
    Fault("meta garbage", ALL, text(META, bytes(range(256)))),
    Fault("meta zeros", ALL, text(META, bytes(100))),
    Fault("meta comment only", ALL, text(META, "#\n#Mon Nov 23 10:25:40 UTC 2026\n")),
    Fault("meta cut", ALL, cut(lambda node: node.first / META, -30)),
    Fault("meta is a directory", ALL, folder(META)),
    Fault("meta bad escape", ALL, text(META, "version=1\nnode.id=\\u12\n")),
    Fault("meta version 2", ALL, meta(version="2")),
    Fault("meta version 9999", ALL, meta(version="9999")),
    Fault("meta version text", ALL, meta(version="abc")),
    Fault("meta version empty", ALL, meta(version="")),
    Fault("meta version blank", ALL, meta(version="1 ")),
    Fault("meta version negative", ALL, meta(version="-1")),
    Fault("meta no version", ALL, meta(version=None)),
    Fault("meta version 0", KRAFT, meta(version="0")),
    Fault("meta of zookeeper", KRAFT, meta(version="0", node_id=None, broker_id="1")),
    Fault("meta of zookeeper and other id", KRAFT, meta(version="0", node_id=None, broker_id="7")),
    Fault("meta of zookeeper without cluster", KRAFT,
           meta(version="0", node_id=None, broker_id="1", cluster_id=None)),
    Fault("meta of kraft", ZK, meta(version="1", broker_id=None, node_id="1")),
    Fault("meta of kraft with both ids", ZK, meta(version="1", node_id="1")),
    Fault("meta other node", KRAFT, meta(node_id="99")),
    Fault("meta other broker", ZK, meta(broker_id="99")),
    Fault("meta node text", KRAFT, meta(node_id="one")),
    Fault("meta broker text", ZK, meta(broker_id="one")),
    Fault("meta node overflow", KRAFT, meta(node_id="99999999999")),
    Fault("meta broker overflow", ZK, meta(broker_id="99999999999")),
    Fault("meta node negative", KRAFT, meta(node_id="-1")),
    Fault("meta broker negative", ZK, meta(broker_id="-1")),
    Fault("meta node plus", KRAFT, meta(node_id="+1")),
    Fault("meta node blank", KRAFT, meta(node_id="1 ")),
    Fault("meta node empty", KRAFT, meta(node_id="")),
    Fault("meta no node", KRAFT, meta(node_id=None)),
    Fault("meta no broker", ZK, meta(broker_id=None)),
    Fault("meta broker in place of node", KRAFT, meta(node_id=None, broker_id="1")),
    Fault("meta other cluster", ALL, meta(cluster_id=OTHER_CLUSTER)),
    Fault("meta no cluster", ALL, meta(cluster_id=None)),
    Fault("meta cluster empty", ALL, meta(cluster_id="")),
    Fault("meta no directory id", KRAFT, meta(directory_id=None)),
    Fault("meta other directory id", KRAFT, meta(directory_id="YSOz1jVZxxMsYtz3vOdPCA")),
    Fault("meta directory id short", KRAFT, meta(directory_id="abc")),
    Fault("meta directory id long", KRAFT, meta(directory_id="A" * 40)),
    Fault("meta directory id signs", KRAFT, meta(directory_id="!" * 22)),
    Fault("meta directory id empty", KRAFT, meta(directory_id="")),
    Fault("meta directory id 0", KRAFT, meta(directory_id="A" * 22)),
    Fault("meta directory id 1", KRAFT, meta(directory_id="A" * 21 + "Q")),
    Fault("meta directory id 2", KRAFT, meta(directory_id="A" * 21 + "g")),
    Fault("meta directory id 50", KRAFT, meta(directory_id="A" * 20 + "Mg")),
    Fault("meta unknown name", ALL, meta(colour="red")),
    Fault("settings other node", KRAFT, settings(node_id="99")),
    Fault("settings other broker", ZK, settings(broker_id="99")),
    # several directories
    Fault("second without meta", ALL, remove_file(META, "second"), 2),
    Fault("second meta empty", ALL, text(META, "", "second"), 2),
    Fault("second meta version 2", ALL, meta("second", version="2"), 2),
    Fault("second other node", KRAFT, meta("second", node_id="99"), 2),
    Fault("second other broker", ZK, meta("second", broker_id="99"), 2),
    Fault("second other cluster", ALL, meta("second", cluster_id=OTHER_CLUSTER), 2),
    Fault("second no cluster", ALL, meta("second", cluster_id=None), 2),
    Fault("second gone", ALL, remove_second, 2),
    Fault("second a file", ALL, second_is_file, 2),
    Fault("second emptied", ALL, empty_second, 2),
    Fault("second of zookeeper", KRAFT,
           meta("second", version="0", node_id=None, broker_id="1"), 2),
    Fault("same directory id", KRAFT, same_directory_id, 2),
    Fault("first without meta", ALL, remove_file(META), 2),
    Fault("first meta empty", ALL, text(META, ""), 2),
    Fault("first gone", ALL, remove_first, 2),
    Fault("first emptied", ALL, empty_first, 2),
    Fault("both without meta", ALL, both(remove_file(META), remove_file(META, "second")), 2),
    Fault("a partition in both", ALL, in_both, 2),
    Fault("metadata in both", KRAFT, metadata_in_both, 2),
    Fault("metadata is the second", KRAFT,
           lambda node: settings(metadata_log_dir=str(node.second))(node), 2),
    # quorum-state
    Fault("quorum-state missing", KRAFT, remove_file("quorum-state", "metadata")),
    Fault("quorum-state empty", KRAFT, text("quorum-state", "", "metadata")),
    Fault("quorum-state garbage", KRAFT, text("quorum-state", "leader=1", "metadata")),
    Fault("quorum-state cut", KRAFT, cut(lambda node: node.metadata / "quorum-state", -20)),
    Fault("quorum-state a list", KRAFT, text("quorum-state", "[]", "metadata")),
    Fault("quorum-state blank line", KRAFT, text("quorum-state", "\n{}", "metadata")),
    Fault("quorum-state no version", KRAFT, quorum(data_version=...)),
    Fault("quorum-state version 2", KRAFT, quorum(data_version=2)),
    Fault("quorum-state version -1", KRAFT, quorum(data_version=-1)),
    Fault("quorum-state version text", KRAFT, quorum(data_version="x")),
    Fault("quorum-state version 1", KRAFT, quorum(data_version=1)),
    Fault("quorum-state no epoch", KRAFT, quorum(leaderEpoch=...)),
    Fault("quorum-state no leader", KRAFT, quorum(leaderId=...)),
    Fault("quorum-state more", KRAFT, quorum(colour="red")),
    Fault("quorum-state other leader", KRAFT, quorum(leaderId=99)),
    Fault("quorum-state other vote", KRAFT, quorum(leaderId=-1, votedId=99)),
    Fault("quorum-state leader and vote", KRAFT, quorum(votedId=1)),
    Fault("quorum-state high epoch", KRAFT, quorum(leaderEpoch=500)),
    Fault("quorum-state epoch 0", KRAFT, quorum(leaderEpoch=0)),
    Fault("quorum-state epoch negative", KRAFT, quorum(leaderEpoch=-1)),
    Fault("quorum-state epoch text", KRAFT, quorum(leaderEpoch="x")),
    Fault("quorum-state other voters", KRAFT, quorum(currentVoters=[{"voterId": 7}])),
    Fault("quorum-state a directory", KRAFT, folder("quorum-state", "metadata")),
    # voters and other settings
    Fault("voters without it", KRAFT, settings(controller_quorum_voters="2@127.0.0.1:9")),
    Fault("voters malformed", KRAFT, settings(controller_quorum_voters="1@localhost")),
    Fault("voters no port", KRAFT, settings(controller_quorum_voters="one@localhost:9093")),
    Fault("voters none", KRAFT, settings(controller_quorum_voters=None)),
    Fault("no roles", KRAFT, settings(process_roles=None)),
    Fault("roles of the dead", KRAFT, settings(process_roles="zombie")),
    Fault("roles twice", KRAFT, settings(process_roles="broker,broker")),
    Fault("no node id", KRAFT, settings(node_id=None)),
    Fault("node id negative", KRAFT, settings(node_id="-2")),
    Fault("node and broker id", KRAFT, settings(broker_id="5")),
    Fault("node id text", KRAFT, settings(node_id="one")),
    Fault("no controller names", KRAFT, settings(controller_listener_names=None)),
    Fault("no log dirs", KRAFT, settings(log_dirs="")),
    Fault("broker protocol kept", KRAFT, settings(inter_broker_protocol_version="2.8")),
    Fault("broker protocol unknown", ALL, settings(inter_broker_protocol_version="99.9")),
    Fault("message format unknown", ZK, settings(log_message_format_version="99.9")),
    Fault("message format above", ZK, settings(
        inter_broker_protocol_version="0.9.0.0", log_message_format_version="0.10.0")),
    Fault("message format below", ZK, settings(log_message_format_version="0.9.0")),
    Fault("broker protocol low", ZK, settings(
        inter_broker_protocol_version="0.9.0.0", log_message_format_version="0.9.0.0")),
    Fault("zookeeper in settings", KRAFT, settings(zookeeper_connect="localhost:2181")),
    Fault("segment too small", ALL, settings(log_segment_bytes="3")),
    Fault("number that is none", ALL, settings(num_network_threads="many")),
    # locks
    Fault("lock held", ALL, hold_lock),
    Fault("lock left", ALL, text(".lock", "")),
    Fault("lock a directory", ALL, folder(".lock")),
    # the metadata log and its snapshots
    Fault("metadata gone", KRAFT, remove_file("__cluster_metadata-0")),
    Fault("metadata log gone", KRAFT, no_log),
    Fault("metadata snapshots gone", KRAFT, no_snapshots),
    Fault("metadata log and snapshots gone", KRAFT, both(no_log, no_snapshots)),
    Fault("metadata log empty", KRAFT, both(no_snapshots, cut(log, 0))),
    Fault("metadata first snapshot only", KRAFT, only_first_snapshot),
    Fault("metadata log torn", KRAFT, cut(log, -10)),
    Fault("metadata log garbage behind", KRAFT, append_bytes(b"\7" * 200)),
    Fault("metadata log zeros behind", KRAFT, append_bytes(bytes(4096))),
    Fault("metadata log flipped", KRAFT, flip_bit(log, 120)),
    Fault("metadata log begins late", KRAFT, move_log_start),
    Fault("metadata log without epochs", KRAFT, remove_file("leader-epoch-checkpoint", "metadata")),
    Fault("metadata epochs of version 7", KRAFT,
           text("leader-epoch-checkpoint", _BAD, "metadata")),
    Fault("metadata no partition.metadata", KRAFT, remove_file("partition.metadata", "metadata")),
    Fault("metadata other topic id", KRAFT, text(
        "partition.metadata", "version: 0\ntopic_id: YSOz1jVZxxMsYtz3vOdPCA", "metadata")),
    Fault("metadata partition.metadata empty", KRAFT,
           text("partition.metadata", "", "metadata")),
    Fault("snapshot empty", KRAFT, cut(newest_snapshot, 0)),
    Fault("snapshot torn", KRAFT, cut(newest_snapshot, -30)),
    Fault("snapshot without footer", KRAFT, cut(newest_snapshot, -75)),
    Fault("snapshot in half", KRAFT, cut(newest_snapshot, 200)),
    Fault("snapshot flipped", KRAFT, flip_bit(newest_snapshot, 170)),
    Fault("snapshot header flipped", KRAFT, flip_bit(newest_snapshot, 70)),
    Fault("snapshot part", KRAFT, text(
        "00000000000000000099-0000000001.checkpoint.part", "x", "metadata")),
    Fault("snapshot ahead", KRAFT, lambda node: shutil.copy(
        newest_snapshot(node), node.metadata / "00000000000000009000-0000000001.checkpoint")),
    Fault("record unknown", KRAFT, records(metadata_log.frame_record(200, 0, b"\0"))),
    Fault("record version 99", KRAFT, records(metadata_log.frame_record(2, 99, b"\0"))),
    Fault("record cut", KRAFT, records(metadata_log.topic("t", 5)[:-6])),
    Fault("record frame 2", KRAFT, records(b"\2" + metadata_log.NO_OP[1:])),
    Fault("record empty", KRAFT, records(b"")),
    Fault("record too long", KRAFT, records(metadata_log.NO_OP + b"\0\0\0")),
    Fault("feature metadata 99", KRAFT, records(feature("metadata.version", 99))),
    Fault("feature metadata 1", KRAFT, records(feature("metadata.version", 1))),
    Fault("feature metadata 8", KRAFT, records(feature("metadata.version", 8))),
    Fault("feature metadata one above", ("4.1.1",), records(feature("metadata.version", 28))),
    Fault("feature unknown", KRAFT, records(feature("colour.version", 1))),
    Fault("feature unknown at level 0", KRAFT, records(feature("colour.version", 0))),
    Fault("feature groups 9", KRAFT, records(feature("group.version", 9))),
    Fault("feature transactions 9", KRAFT, records(feature("transaction.version", 9))),
    Fault("feature kraft 9", KRAFT, records(feature("kraft.version", 9))),
    Fault("bootstrap gone", ("4.1.1",), remove_file("bootstrap.checkpoint")),
    Fault("bootstrap empty", KRAFT, text("bootstrap.checkpoint", "")),
    Fault("bootstrap garbage", KRAFT, text("bootstrap.checkpoint", "x" * 300)),
    Fault("bootstrap torn", ("4.1.1",), cut(lambda node: node.first / "bootstrap.checkpoint", -9)),
    Fault("bootstrap and metadata gone", ("4.1.1",),
           both(remove_file("bootstrap.checkpoint"), remove_file("__cluster_metadata-0"))),
    # checkpoints, marks and names
    *(Fault(f"{name} {how}", ALL, text(name, content))
      for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint",
                   "log-start-offset-checkpoint", "cleaner-offset-checkpoint")
      for how, content in (("of version 7", _BAD), ("empty", ""), ("of text", "x\ny\n"),
                           ("short", "0\n5\norders 0 1\n"))),
    Fault("checkpoint a directory", ALL, folder("replication-offset-checkpoint")),
    Fault("mark gone", ALL, remove_file(".kafka_cleanshutdown")),
    Fault("mark garbage", ALL, text(".kafka_cleanshutdown", "x")),
    Fault("epochs of version 7", ALL, partition("leader-epoch-checkpoint", _BAD.encode())),
    Fault("partition.metadata empty", (*KRAFT, "2.8.2"), partition("partition.metadata", b"")),
    Fault("partition.metadata of version 7", (*KRAFT, "2.8.2"),
           partition("partition.metadata", b"version: 7\ntopic_id: YSOz1jVZxxMsYtz3vOdPCA")),
    Fault("lost+found", ALL, folder("lost+found")),
    Fault("a folder", ALL, folder("backup")),
    Fault("a folder with a dash", ALL, folder("backup-old")),
    Fault("a stray file", ALL, text("notes.txt", "x")),
    Fault("tiered cache", ALL, folder("remote-log-index-cache")),
    Fault("segment name of no number", ALL, partition("backup.log", b"")),
    # rights
    *(Fault(name, versions, chown(path, mode), needs_root=True)
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
    Fault("lock of another", ALL, both(text(".lock", ""), chown(".lock", 0o600)),
           needs_root=True),
    Fault("everything of another", ALL, chown(".", 0o700, deep=True), needs_root=True),
]  # fmt: skip
