"""Nodes of seven releases with two data directories, damaged in one file each.

They were left by brokers with segments, producers and transactions; the metadata log lies in the
first directory. Most damage is inside a partition of the second.
"""

import os
from collections.abc import Callable
from pathlib import Path

import metadata_log
from broken_nodes import (
    META,
    Change,
    Fault,
    both,
    chown,
    cut,
    feature,
    flip_bit,
    folder,
    meta,
    newest_snapshot,
    quorum,
    records,
    remove_file,
    text,
)
from node_starts import Node

KRAFT = ("3.3.2", "3.7.2", "3.9.1", "4.1.1", "4.4.0")
#: Releases between, to which a node of 3.3.2 is upgraded.
BETWEEN = ("3.4.1", "3.5.2", "3.6.2", "3.8.1")
OLDER = ("2.5.1", "2.6.3", "2.7.2")  # to which one of 2.4.1 is upgraded
ZK = ("2.4.1", "2.8.2")
ALL = (*ZK, *KRAFT)
_ID = "topic_id: YSOz1jVZxxMsYtz3vOdPCA"


def inside(name: str, content: bytes | None, where: str = "second") -> Change:
    """Write a file of a partition; None: make a directory of it. `*` stands for the first."""

    def change(node: Node) -> None:
        here = min(getattr(node, where).glob("orders-*"))
        path = next(iter(sorted(here.glob(name)))) if "*" in name else here / name
        if content is None:
            path.unlink(missing_ok=True)
            path.mkdir()
        else:
            path.write_bytes(content)

    return change


def last(name: str) -> Callable[[Node], Path]:
    """Find the last file of a name in the first partition of the second directory."""
    return lambda node: max(min(node.second.glob("orders-*")).glob(name))


def deny_access(name: str) -> Change:
    return lambda node: chown(os.path.relpath(last(name)(node), node.first), 0o600)(node)


def unclean(node: Node) -> None:
    (node.second / ".kafka_cleanshutdown").unlink()


_EPOCHS = {
    "of version 7": b"7\n0\n",
    "text": b"x\ny\n",
    "bad number": b"0\n1\nx y\n",
    "negative": b"0\n1\n-1 0\n",
    "three words": b"0\n1\n0 0 0\n",
    "count": b"0\n3\n0 0\n",
    "count text": b"0\nx\n0 0\n",
    "empty": b"",
    "one line": b"0\n",
    "offset huge": b"0\n1\n0 99999999999999999999\n",
    "not utf-8": b"\xff\xfe\n\xff\n",
    "a directory": None,
}
_IDENTITIES = {
    "empty": b"",
    "one line": b"version: 0\n",
    "text": b"hello",
    "two lines of text": b"hello\nworld\n",
    "version text": b"version: x\n" + _ID.encode(),
    "version 7": b"version: 7\n" + _ID.encode(),
    "version -1": b"version: -1\n" + _ID.encode(),
    "id short": b"version: 0\ntopic_id: abc",
    "id long": b"version: 0\ntopic_id: " + b"A" * 40,
    "id signs": b"version: 0\ntopic_id: !!!!!!!!!!!!!!!!!!!!!!",
    "id zero": b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
    "id empty": b"version: 0\ntopic_id: \n",
    "other topic": b"version: 0\n" + _ID.encode(),
    "a directory": None,
}
_CHECKPOINTS = {
    "of version 7": "7\n0\n",
    "empty": "",
    "text": "x\ny\n",
    "short": "0\n5\norders 0 1\n",
    "bad number": "0\n1\norders 0 x\n",
    "two words": "0\n1\norders 0\n",
}
_FIRST = "00000000000000000000"
TABLE = [
    Fault("as it was", (*ALL, *BETWEEN), lambda node: None, 2),
    *(Fault(f"epochs {name}", (*ALL, *(OLDER if name in ("of version 7", "negative") else ())),
             inside("leader-epoch-checkpoint", content), 2)
      for name, content in _EPOCHS.items()),
    *(Fault(f"identity {name}", (*ALL[1:], *(BETWEEN if name == "version 7" else ())),
             inside("partition.metadata", content), 2)
      for name, content in _IDENTITIES.items()),
    *(Fault(f"identity {name} unclean", ("2.8.2", "4.1.1"),
             both(inside("partition.metadata", _IDENTITIES[name]), unclean), 2)
      for name in ("empty", "text")),
    # the same beside the metadata log: the directory going offline ends the node
    *(Fault(f"first epochs {name}", (*ALL, *BETWEEN[:3]),
             inside("leader-epoch-checkpoint", _EPOCHS[name], "first"), 2)
      for name in ("of version 7", "bad number")),
    *(Fault(f"first identity {name}", ("2.8.2", "3.7.2", "4.4.0"),
             inside("partition.metadata", _IDENTITIES[name], "first"), 2)
      for name in ("text", "one line")),
    Fault("first log a directory", ALL, inside(f"{_FIRST}.log", None, "first"), 2),
    Fault("both epochs of version 7", ALL, both(
        inside("leader-epoch-checkpoint", b"7\n0\n", "first"),
        inside("leader-epoch-checkpoint", b"7\n0\n")), 2),
    # other files of a partition
    Fault("snapshot torn", ALL, cut(last("*.snapshot"), 5), 2),
    Fault("snapshot empty", ALL, cut(last("*.snapshot"), 0), 2),
    Fault("snapshot flipped", ALL, flip_bit(last("*.snapshot"), 8), 2),
    Fault("snapshot too new", ALL, flip_bit(last("*.snapshot"), 0), 2),
    Fault("snapshot a directory", ALL, inside("*.snapshot", None), 2),
    Fault("another snapshot a directory", ALL, inside(f"{77:020}.snapshot", None), 2),
    Fault("snapshot of no number", ALL, inside("abc.snapshot", b""), 2),
    Fault("txnindex torn", ALL, inside(f"{_FIRST}.txnindex", b"x"), 2),
    Fault("txnindex zeros", ALL, inside(f"{_FIRST}.txnindex", bytes(34)), 2),
    Fault("txnindex garbage", ALL, inside(f"{_FIRST}.txnindex", b"\7" * 68), 2),
    Fault("txnindex a directory", ALL, inside(f"{_FIRST}.txnindex", None), 2),
    Fault("txnindex alone", ALL, inside(f"{777:020}.txnindex", b"x"), 2),
    Fault("txnindex of no number", ALL, inside("abc.txnindex", b""), 2),
    Fault("index a directory", ALL, inside(f"{_FIRST}.index", None), 2),
    Fault("index torn", ALL, inside(f"{_FIRST}.index", b"xyz"), 2),
    Fault("index of no number", ALL, inside("abc.index", b""), 2),
    Fault("timeindex a directory", ALL, inside(f"{_FIRST}.timeindex", None), 2),
    Fault("timeindex torn", ALL, inside(f"{_FIRST}.timeindex", b"xyz"), 2),
    Fault("timeindex of no number", ALL, inside("abc.timeindex", b""), 2),
    Fault("log a directory", ALL, inside(f"{_FIRST}.log", None), 2),
    Fault("log of no number", ALL, inside("abc.log", b""), 2),
    Fault("log of a negative number", ALL, inside("-1.log", b""), 2),
    Fault("log torn", ALL, cut(last("*.log"), -10), 2),
    Fault("log torn unclean", ALL, both(cut(last("*.log"), -10), unclean), 2),
    Fault("index torn unclean", ALL, both(inside(f"{_FIRST}.index", b"xyz"), unclean), 2),
    Fault("txnindex torn unclean", ALL,
           both(inside(f"{_FIRST}.txnindex", b"x"), unclean), 2),
    Fault("swap a directory", ALL, inside(f"{_FIRST}.log.swap", None), 2),
    Fault("swap of no number", ALL, inside("abc.log.swap", b""), 2),
    Fault("swap of an index", ALL, inside(f"{_FIRST}.index.swap", b""), 2),
    Fault("swap of another file", ALL, inside(f"{_FIRST}.snapshot.swap", b""), 2),
    Fault("cleaned a directory", ALL, inside(f"{_FIRST}.log.cleaned", None), 2),
    Fault("cleaned of no number", ALL, inside("abc.log.cleaned", b""), 2),
    Fault("deleted a directory", ALL, inside(f"{_FIRST}.log.deleted", None), 2),
    Fault("deleted of no number", ALL, inside("abc.log.deleted", b""), 2),
    Fault("a folder inside", ALL, inside("notes", None), 2),
    # small files of the second directory
    *(Fault(f"{file} {name}", ("2.4.1", "3.3.2", "3.9.1"), text(file, content, "second"), 2)
      for file in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint")
      for name, content in _CHECKPOINTS.items()),
    # Before, the first of the two is read when the broker is told to lead, which none is here.
    *(Fault(f"{file} {name}", ("3.3.2", "3.9.1"), text(file, _CHECKPOINTS[name], "second"), 2)
      for file in ("replication-offset-checkpoint", "cleaner-offset-checkpoint")
      for name in ("of version 7", "bad number")),
    *(Fault(f"{file} a directory", ALL, folder(file, "second"), 2)
      for file in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint",
                   "replication-offset-checkpoint", "cleaner-offset-checkpoint")),
    Fault("second meta missing", KRAFT[:3], remove_file(META, "second"), 2),
    Fault("second meta empty", ALL, text(META, "", "second"), 2),
    Fault("second meta version 2", ALL, meta("second", version="2"), 2),
    Fault("second meta text", ALL, text(META, "hello", "second"), 2),
    Fault("second meta bad escape", ALL, text(META, "version=1\nnode.id=\\u12\n", "second"), 2),
    Fault("second meta a directory", ALL, folder(META, "second"), 2),
    Fault("second meta no node", KRAFT[:3], meta("second", node_id=None), 2),
    Fault("second meta no cluster", KRAFT[:3], meta("second", cluster_id=None), 2),
    Fault("second meta other node", KRAFT[:3], meta("second", node_id="4"), 2),
    Fault("second meta of two nodes", ("2.4.1", "3.3.2", "4.1.1"),
           both(meta(node_id="1"), meta("second", node_id="4", broker_id="4")), 2),
    Fault("meta no node in either", (*KRAFT[:3], *BETWEEN), both(
        meta(node_id=None), meta("second", node_id=None)), 2),
    Fault("meta no cluster in either", (*KRAFT[:3], *BETWEEN), both(
        meta(cluster_id=None), meta("second", cluster_id=None)), 2),
    Fault("meta no version in either", KRAFT[:3], both(
        meta(version=None), meta("second", version=None)), 2),
    Fault("meta empty in either", KRAFT[:3], both(text(META, ""), text(META, "", "second")), 2),
    Fault("mark a directory", ALL, folder(".kafka_cleanshutdown", "second"), 2),
    Fault("mark garbage", ALL, text(".kafka_cleanshutdown", "x", "second"), 2),
    Fault("lost+found", ("2.4.1", *KRAFT[:3]), folder("lost+found", "second"), 2),
    Fault("lock a directory", ("2.4.1", *KRAFT[:3]), folder(".lock", "second"), 2),
    # the metadata log
    *(Fault(f"quorum-state {name}", (*KRAFT[:3], *BETWEEN),
             text("quorum-state", content, "metadata"), 2)
      for name, content in (("empty", ""), ("garbage", "leader=1"))),
    *(Fault(f"quorum-state {name}", (*KRAFT[:3], *BETWEEN), change, 2)
      for name, change in (
          ("cut", cut(lambda node: node.metadata / "quorum-state", -20)),
          ("a list", text("quorum-state", "[]", "metadata")),
          ("null", text("quorum-state", "null", "metadata")),
          ("no version", quorum(data_version=...)),
          ("version 1", quorum(data_version=1)),
          ("version 2", quorum(data_version=2)),
          ("version 1 whole", quorum(data_version=1, votedDirectoryId="A" * 22)),
          ("version 1 alone", quorum(data_version=1, votedDirectoryId="A" * 22, clusterId=...,
                                     appliedOffset=..., currentVoters=...)),
          ("no epoch", quorum(leaderEpoch=...)),
          ("epoch text", quorum(leaderEpoch="x")),
          ("voters null", quorum(currentVoters=None)),
          ("a directory", folder("quorum-state", "metadata")),
      )),
    *(Fault(f"metadata {name}", (*KRAFT[:3], *BETWEEN), change, 2)
      for name, change in (
          ("snapshot flipped", flip_bit(newest_snapshot, 170)),
          ("snapshot header flipped", flip_bit(newest_snapshot, 70)),
          ("snapshot of another magic", flip_bit(newest_snapshot, 16)),
          ("snapshot empty", cut(newest_snapshot, 0)),
          ("feature 99", records(feature("metadata.version", 99))),
          ("record unknown", records(metadata_log.frame_record(200, 0, b"\0"))),
          ("record version 99", records(metadata_log.frame_record(2, 99, b"\0"))),
          ("record empty", records(b"")),
          ("topic twice", records(metadata_log.topic("t", 5), metadata_log.topic("t", 5))),
          ("topic removed", records(metadata_log.remove_topic(77))),
      )),
    *(Fault(f"metadata {name}", KRAFT[:3], change, 2)
      for name, change in (
          ("snapshot torn", cut(newest_snapshot, -30)),
          ("snapshot in half", cut(newest_snapshot, 200)),
          ("feature unknown", records(feature("colour.version", 1))),
          ("epochs of version 7", text("leader-epoch-checkpoint", "7\n0\n", "metadata")),
          ("epochs bad number", text("leader-epoch-checkpoint", "0\n1\nx y\n", "metadata")),
          ("identity empty", text("partition.metadata", "", "metadata")),
          ("identity text", text("partition.metadata", "hello", "metadata")),
          ("identity one line", text("partition.metadata", "version: 0\n", "metadata")),
          ("other topic", text("partition.metadata", f"version: 0\n{_ID}", "metadata")),
          ("log gone", remove_file("__cluster_metadata-0")),
          ("bootstrap empty", text("bootstrap.checkpoint", "")),
          ("bootstrap garbage", text("bootstrap.checkpoint", "x" * 300)),
      )),
    # rights
    *(Fault(f"{name} unreadable", ("2.4.1", "3.3.2", "3.9.1", "4.4.0"), deny_access(name), 2, True)
      for name in ("partition.metadata", "leader-epoch-checkpoint", "*.snapshot", "*.txnindex",
                   "*.timeindex", "*.index", "*.log")),
]  # fmt: skip
