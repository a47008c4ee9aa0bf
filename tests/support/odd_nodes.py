"""More nodes with one thing changed: settings, spellings and files that nobody would expect.

They were put together after the model of a start was made, by somebody who did not look at it.
"""

import shutil
from pathlib import Path

import damage
import metadata_log
from broken_nodes import (
    ALL,
    KRAFT,
    META,
    ZK,
    Change,
    Fault,
    both,
    edit,
    feature,
    folder,
    log,
    log_end,
    meta,
    newest_snapshot,
    partition,
    quorum,
    records,
    remove_file,
    settings,
    text,
)
from node_starts import Node


def rewritten(how: str) -> Change:
    """Rewrite meta.properties by one of the replacements below."""

    def change(node: Node) -> None:
        path = node.first / META
        data = path.read_text("latin-1")
        for old, new in _REPLACED[how]:
            data = data.replace(old, new)
        path.write_text(data, "latin-1", newline="")

    return change


_REPLACED = {
    "crlf": [("\n", "\r\n")],
    "colon": [("=", " : ")],
    "upper": [(letter, letter.upper()) for letter in "abcdefghijklmnopqrstuvwxyz"],
    "continued": [("version=", "version=\\\n")],
    "blanks": [("node.id=", "node.id=   ")],
    "arabic": [("node.id=1", "node.id=\\u0661")],
}


def find_meta(node: Node) -> Path:
    return node.first / META


def directory(name: str) -> Change:
    return lambda node: (node.first / name).mkdir(parents=True)


def link_file(name: str, to: str) -> Change:
    """Put a symbolic link in the place of a file, which is kept under another name."""

    def change(node: Node) -> None:
        path = node.first / name
        path.rename(node.first / "kept")
        path.symlink_to(to)

    return change


def link_directory(node: Node) -> None:
    node.first.rename(node.directory / "real")
    node.first.symlink_to("real")


def break_directory_link(node: Node) -> None:
    shutil.rmtree(node.first)
    node.first.symlink_to("/nonexistent/d")


def dirs(form: str) -> Change:
    """Set log.dirs; {first} and {above} are the directory and what it lies in."""

    def change(node: Node) -> None:
        settings(log_dirs=form.format(first=node.first, above=node.directory))(node)

    return change


def dir_alone(node: Node) -> None:
    settings(log_dir=node.settings["log.dirs"], log_dirs=None)(node)


def only_first_listener(node: Node) -> None:
    settings(listeners=node.settings["listeners"].split(",")[0])(node)


def controller_names_more(node: Node) -> None:
    names = node.settings["controller.listener.names"]
    settings(controller_listener_names=f"{names},INNER")(node)


def protocol_of_its_own(node: Node) -> None:
    major, minor, patch = node.version.split(".")[:3]
    own = f"{major}.{minor}.{patch}" if major == "0" else f"{major}.{minor}"
    settings(inter_broker_protocol_version=own)(node)


def metadata_elsewhere(node: Node) -> None:
    settings(metadata_log_dir=str(node.directory / "m"))(node)


def replace_by_directory(name: str) -> Change:
    def change(node: Node) -> None:
        path = min(node.first.glob("orders-*")) / name
        path.unlink(missing_ok=True)
        path.mkdir()

    return change


def overlap_directories(node: Node) -> None:
    here = min(node.first.glob("orders-*"))
    shutil.copy(here / "00000000000000000000.log", here / "00000000000000000010.log")


def remove_identity(node: Node) -> None:
    (min(node.first.glob("orders-*")) / "partition.metadata").unlink(missing_ok=True)


def rename_metadata(node: Node) -> None:
    node.metadata.rename(node.first / "__cluster_metadata-1")


zero_metadata = edit(log, lambda data: damage.put(data, 200, bytes(60)))


def in_metadata(name: str, content: bytes = b"x") -> Change:
    return text(name, content, "metadata")


def snapshot_at_the_end(node: Node) -> None:
    end, epoch = log_end(node)
    shutil.copy(newest_snapshot(node), node.metadata / f"{end - 2:020}-{epoch:010}.checkpoint")


_CHECKPOINTS = {
    "recovery-point-offset-checkpoint": ALL,
    # 2.8 reads it when it is told to lead or to follow, which may be after it has started.
    "replication-offset-checkpoint": (*KRAFT, "0.10.2.2"),
    "log-start-offset-checkpoint": ALL,
}
_CONTENTS = {
    "line twice": "0\n1\norders 0 5\norders 0 5\n",
    "count too high": "0\n99\norders 0 5\n",
    "crlf": "0\r\n1\r\norders 0 5\r\n",
    "offset huge": "0\n1\norders 0 99999999999999999999\n",
    "offset negative": "0\n1\norders 0 -5\n",
    "four words": "0\n1\norders 0 5 6\n",
    "version blank": " 0\n0\n",
    "no newline": "0\n1\norders 0 5",
}
_HEX = "0123456789abcdef" * 2

TABLE = [
    # meta.properties
    Fault("meta crlf", ALL, rewritten("crlf")),
    Fault("meta bom", ALL, edit(find_meta, lambda data: b"\xef\xbb\xbf" + data)),
    Fault("meta ids twice", ALL,
           edit(find_meta, lambda data: data + b"\nnode.id=7\nbroker.id=7\n")),
    Fault("meta colon", ALL, rewritten("colon")),
    Fault("meta upper case", ALL, rewritten("upper")),
    Fault("meta version 01", ALL, meta(version="01")),
    Fault("meta version 1.0", ALL, meta(version="1.0")),
    Fault("meta version plus", ALL, meta(version="+1")),
    Fault("meta version big", ALL, meta(version="99999999999")),
    Fault("meta continued", ALL, rewritten("continued")),
    Fault("meta link broken", ALL, link_file(META, "/nonexistent/x")),
    Fault("meta link", ALL, link_file(META, "kept")),
    Fault("meta tmp left", ALL, text("meta.properties.tmp", "x")),
    Fault("meta tmp directory", ALL, directory("meta.properties.tmp")),
    Fault("meta node blanks", KRAFT, rewritten("blanks")),
    Fault("meta both ids differ", KRAFT, meta(broker_id="7")),
    Fault("meta node arabic digits", KRAFT, rewritten("arabic")),
    # log.dirs
    Fault("dirs twice", ALL, dirs("{first},{first}")),
    Fault("dirs comma behind", ALL, dirs("{first},")),
    Fault("dirs with blanks", ALL, dirs(" {first} , ")),
    Fault("dirs new one", ALL, dirs("{first},{above}/d9")),
    Fault("dirs new deep one", ALL, dirs("{first},{above}/x/y/d9")),
    Fault("dirs nested", ALL, both(directory("sub"), dirs("{first},{first}/sub"))),
    Fault("dirs under a file", ALL, dirs("{first},{first}/meta.properties/d9")),
    Fault("dirs slash behind", ALL, dirs("{first}/")),
    Fault("dir alone", ALL, dir_alone),
    Fault("directory linked", ALL, link_directory),
    Fault("directory link broken", ALL, break_directory_link),
    # roles, listeners and other settings
    Fault("controller only", KRAFT, settings(process_roles="controller")),
    Fault("broker only", KRAFT, settings(process_roles="broker")),
    Fault("roles the other way", KRAFT, settings(process_roles="controller,broker")),
    Fault("listeners without controller", KRAFT, only_first_listener),
    Fault("controller names more", KRAFT, controller_names_more),
    Fault("listeners malformed", ALL, settings(listeners="PLAINTEXT//localhost:1")),
    Fault("listeners unknown name", ALL,
           settings(listeners="FOO://127.0.0.1:0", advertised_listeners=None)),
    Fault("listeners same port", ALL,
           settings(listeners="PLAINTEXT://127.0.0.1:24998,SSL://127.0.0.1:24998")),
    Fault("advertised any", ALL, settings(advertised_listeners="PLAINTEXT://0.0.0.0:9092")),
    Fault("inter broker listener unknown", ALL, settings(inter_broker_listener_name="INNER")),
    Fault("security protocol unknown", ALL, settings(security_inter_broker_protocol="FOO")),
    Fault("metadata elsewhere", KRAFT, metadata_elsewhere),
    *(Fault(f"{name} {value}", versions, settings(**{name: value}))
      for versions, name, value in (
          (ALL, "log_retention_bytes", "much"),
          (ALL, "log_retention_bytes", "99999999999999999999"),
          (ALL, "log_cleanup_policy", "shred"),
          (ALL, "compression_type", "brotli"),
          (ALL, "log_message_timestamp_type", "Now"),
          (ALL, "num_partitions", "0"),
          (ALL, "background_threads", "0"),
          (ALL, "num_recovery_threads_per_data_dir", "0"),
          (ALL, "log_index_size_max_bytes", "2"),
          (ALL, "log_index_interval_bytes", "-1"),
          (ALL, "min_insync_replicas", "0"),
          (ALL, "log_segment_bytes", "3000000000"),
          (ALL, "log_segment_bytes", "1000"),
          (ALL, "log_roll_hours", "0"),
          (ALL, "log_cleaner_dedupe_buffer_size", "1000"),
          (ALL, "log_cleaner_threads", "-1"),
          (ALL, "unclean_leader_election_enable", "maybe"),
          (ALL, "offsets_topic_num_partitions", "0"),
          (ALL, "replica_fetch_wait_max_ms", "60000"),
          (ALL, "colour", "red"),
          (ZK, "broker_id", "5000"),
          (ZK, "broker_id", "-1"),
          (ZK, "inter_broker_protocol_version", "0.8.2.0"),
      )),
    Fault("broker id generated off", ZK,
           settings(broker_id="-1", broker_id_generation_enable="false")),
    Fault("protocol of its own", ALL, protocol_of_its_own),
    # names in the data directory
    Fault("deleted left", ALL, directory(f"orders-7.{_HEX}-delete")),
    Fault("deleted without id", ALL, directory("orders-7-delete")),
    Fault("future left", ALL, directory(f"orders-0.{_HEX}-future")),
    Fault("stray left", ALL, directory(f"orders-0.{_HEX}-stray")),
    Fault("no number", ALL, directory("orders-x")),
    Fault("no topic", ALL, directory("-0")),
    Fault("number big", ALL, directory("orders-99999999999")),
    Fault("number negative", ALL, directory("orders--1")),
    Fault("odd letters", ALL, directory("or ders-0")),
    Fault("hidden directory", ALL, directory(".snapshot")),
    Fault("directory with dot", ALL, directory("a.b")),
    Fault("empty partition", ALL, directory("other-0")),
    Fault("mark a directory", ALL, folder(".kafka_cleanshutdown")),
    Fault("checkpoint tmp directory", ALL, directory("recovery-point-offset-checkpoint.tmp")),
    # files of a partition
    Fault("log a directory", ALL, replace_by_directory("00000000000000000000.log")),
    Fault("index a directory", ALL, replace_by_directory("00000000000000000000.index")),
    Fault("snapshot of no number", ALL, partition("abc.snapshot", b"")),
    Fault("snapshot torn in partition", ALL, partition("00000000000000000007.snapshot", b"x")),
    Fault("swap of no number", ALL, partition("abc.swap", b"")),
    Fault("swap empty", ALL, partition("00000000000000000000.log.swap", b"")),
    Fault("index alone", ALL, partition("00000000000000000777.index", b"")),
    Fault("log number short", ALL, partition("7.log", b"")),
    Fault("log number big", ALL, partition("99999999999999999999.log", b"")),
    Fault("logs overlap", ALL, overlap_directories),
    Fault("epochs empty", ALL, partition("leader-epoch-checkpoint", b"")),
    Fault("epochs text", ALL, partition("leader-epoch-checkpoint", b"0\n1\nx y\n")),
    Fault("epochs count", ALL, partition("leader-epoch-checkpoint", b"0\n3\n0 0\n")),
    *(Fault(f"partition.metadata {name}", (*KRAFT, "2.8.2"),
             partition("partition.metadata", content))
      for name, content in (
          ("other topic", b"version: 0\ntopic_id: YSOz1jVZxxMsYtz3vOdPCA"),
          ("text", b"hello"),
          ("id short", b"version: 0\ntopic_id: abc"),
          ("id zero", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA"),
      )),
    Fault("partition.metadata gone", (*KRAFT, "2.8.2"), remove_identity),
    *(Fault(f"{name} {how}", versions, text(name, content))
      for name, versions in _CHECKPOINTS.items() for how, content in _CONTENTS.items()),
    # the metadata log
    Fault("metadata renamed", KRAFT, rename_metadata),
    Fault("metadata zeros inside", KRAFT, zero_metadata),
    Fault("quorum-state tmp", KRAFT, in_metadata("quorum-state.tmp")),
    Fault("quorum-state of nobody", KRAFT, quorum(leaderId=-1, leaderEpoch=3)),
    Fault("quorum-state cluster id", KRAFT, quorum(clusterId="XXXXXXXXXXXXXXXXXXXXXX")),
    Fault("quorum-state voted directory", KRAFT, quorum(votedDirectoryId="abc")),
    Fault("quorum-state null", KRAFT, text("quorum-state", "null", "metadata")),
    Fault("quorum-state epoch fraction", KRAFT, quorum(leaderEpoch=1.5)),
    Fault("quorum-state epoch big", KRAFT, quorum(leaderEpoch=99999999999)),
    Fault("quorum-state voters null", KRAFT, quorum(currentVoters=None)),
    Fault("snapshot bad name", KRAFT, in_metadata("abc.checkpoint")),
    Fault("snapshot short name", KRAFT, in_metadata("7-1.checkpoint")),
    Fault("snapshot letters", KRAFT, in_metadata("0000000000000000000x-0000000001.checkpoint")),
    Fault("snapshot deleted", KRAFT,
           in_metadata("00000000000000000005-0000000001.checkpoint.deleted")),
    Fault("snapshot newer garbage", KRAFT,
           in_metadata("00000000000000090000-0000000009.checkpoint", b"x" * 300)),
    Fault("snapshot at the end", KRAFT, snapshot_at_the_end),
    Fault("bootstrap a directory", KRAFT, folder("bootstrap.checkpoint")),
    *(Fault(f"feature {name} {level}", KRAFT, records(feature(f"{name}.version", level)))
      for name, level in (("share", 9), ("eligible.leader.replicas", 9), ("streams", 9),
                          ("metadata", 7), ("metadata", 20), ("group", -1))),
    Fault("topic again", KRAFT, records(metadata_log.topic("orders", 5))),
    Fault("topic odd name", KRAFT, records(metadata_log.topic("or ders", 6))),
    Fault("topic twice", KRAFT, records(metadata_log.topic("t", 5), metadata_log.topic("t", 5))),
    Fault("topic removed and again", KRAFT, records(
        metadata_log.topic("t", 5), metadata_log.remove_topic(5), metadata_log.topic("t", 6))),
    Fault("topic of an aborted transaction", KRAFT, records(
        metadata_log.frame_record(23, 0, metadata_log.tag_fields()), metadata_log.topic("t", 5),
        metadata_log.frame_record(25, 0, metadata_log.tag_fields()), metadata_log.topic("t", 6))),
    Fault("topic removed twice", KRAFT, records(
        metadata_log.topic("t", 5), metadata_log.remove_topic(5), metadata_log.remove_topic(5))),
    Fault("partition of no topic", KRAFT, records(metadata_log.partition(0, 77, (1,)))),
    Fault("no topic removed", KRAFT, records(metadata_log.remove_topic(77))),
    Fault("record frame 0", KRAFT, records(b"\0")),
    Fault("record frame cut", KRAFT, records(b"\x81")),
    Fault("record without type", KRAFT, records(b"\1")),
    Fault("record without version", KRAFT, records(b"\1\2")),
    # several at once: what a start comes to first is what it says
    Fault("two bad settings", ALL, settings(log_roll_hours="0", num_partitions="none")),
    Fault("meta gone and bad settings", ALL,
           both(remove_file(META), settings(num_partitions="none"))),
    Fault("meta gone and log a directory", ALL,
           both(remove_file(META), replace_by_directory("00000000000000000000.log"))),
]  # fmt: skip
