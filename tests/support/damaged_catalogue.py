"""A damaged directory for each code that `verify` may report, made by hand in an empty folder.

`MAKERS` has them by code, `CAPTURES` files that Spark does not read, `OTHERS` the codes that need
more than files, or another command.
"""

import gzip
import os
import shutil
import struct
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import builders
import captures
import damage
import metadata_log
import producing
from directories import BATCH_BYTES, TIME, DataDirectory, write_checkpoint
from producing import (
    ABORT,
    COMMIT,
    aborted_index,
    data,
    epochs,
    index_of,
    marker,
    snapshot,
    snapshot_of,
)
from segments import (
    START_MS,
    batch,
    batches,
    entries,
    name,
    offset_index,
    read,
    time_index,
    write,
    write_partition,
)
from sound_partition import ACTIVE, SEALED, change, positions, sound_partition

SAMPLES = Path(__file__).parents[2] / "sample-data"
CAPTURE = Path(__file__).parents[1] / "captures/clients.pcap.gz"
HOUR_MS = 3_600_000


class DamagedInput(NamedTuple):
    """What is to be verified, and how."""

    paths: Sequence[Path]
    deep: bool = False
    server_properties: str | None = None
    decompress_limit: int = 64 << 20
    kind: str | None = None
    tier: str | None = None
    tier_key: str | None = None


Maker = Callable[[Path], DamagedInput]

_MORE = {
    "codec-missing": "a library that is not installed",
    "unreadable": "a device that fails",
    "internal-error": "a fault of kdump's own",
    "producers-not-checked": "more open transactions than are followed",
    **dict.fromkeys(
        ("file-shrank", "file-vanished", "partition-changing", "tail-being-written"),
        "a broker that writes meanwhile",
    ),
    "search-given-up": "a file of gigabytes",
}
_COMMANDS = {
    "dump": ("decoder-ended", "directory-name"),
    "dump --visible": (
        *("high-watermark-unknown", "log-start-unknown", "last-stable-offset"),
        *("read-committed-stops", "remote-not-given"),
    ),
    "find-offset --check": (
        *("offset-lookup-differs", "time-lookup-differs", "time-lookup-passes-over"),
    ),
    "find-time --format reset-csv": ("topic-name",),
    "predict": ("start-loses-records", "start-refused"),
    "salvage": ("file-not-held", "source-is-target", "produced-short"),
    "why": ("cleaned-key-twice", "topic-settings-unknown"),
    "groups, transactions, and cluster": (
        *("replay-incomplete", "replay-compacted", "replay-unexplained", "replica-not-replayed"),
        *("metadata-records-missing",),
    ),
    "timeline": ("file-times-lost",),
    "verify --tier": (
        *("remote-missing", "remote-object-size", "remote-object-differs", "remote-index-invalid"),
        *("remote-epochs-differ", "remote-gap", "remote-overlap", "remote-orphan"),
        *("remote-manifest-invalid", "remote-not-checked", "remote-metadata-damaged"),
    ),
}
#: Only a superuser gives files away.
NEEDS_ROOT = "file-access"
OTHERS = _MORE | {code: command for command, codes in _COMMANDS.items() for code in codes}


# Logs, and the indexes beside them.


def _spoil_partition(spoil: Callable[[Path], object], **how: object) -> Maker:
    """Spoil a sound partition of two segments."""

    def make(root: Path) -> DamagedInput:
        spoil(sound_partition(root / "data"))
        return DamagedInput([root / "data"], **how)  # type: ignore[arg-type]

    return make


def _at(position: int, new: bytes, *, row: int = 5, base: int = SEALED) -> Maker:
    """Write other bytes into the header of a batch."""
    return _spoil_partition(
        lambda path: change(path, base, positions(path, base)[row] + position, new)
    )


def _file(base: int, extension: str, spoil: Callable[[bytes], bytes], **how: object) -> Maker:
    """Spoil one file of a sound partition."""
    return _spoil_partition(
        lambda path: write(path, base, extension, spoil(read(path, base, extension))), **how
    )


def _logs(*parts: Iterable[bytes], first: int = 0, topic: str = "orders", **how: object) -> Maker:
    """Write a partition with a segment for each list of batches."""

    def make(root: Path) -> DamagedInput:
        made, base = {}, first
        for one in map(list, parts):
            made[base] = one
            base = entries(b"".join(one))[-1].last + 1
        write_partition(root / "data", made, topic)
        settings = None
        if "settings" in how:
            settings = str(root / "server.properties")
            Path(settings).write_text(str(how["settings"]))
        rest = {word: value for word, value in how.items() if word != "settings"}
        return DamagedInput([root / "data"], server_properties=settings, **rest)  # type: ignore[arg-type]

    return make


def _inside(*records: bytes, **members: object) -> Maker:
    """Write a batch of these records behind sound ones; only --deep looks into it."""
    given: dict[str, object] = {"base_offset": 6, "base_timestamp": START_MS + 60, **members}
    odd = builders.batch(records, **given)  # type: ignore[arg-type]
    return _logs([*batches(0, 6), odd], deep=True)


def _message(*entry: bytes) -> Maker:
    """Write an entry of an old format behind sound batches."""
    return _logs([*batches(0, 6), *entry], deep=True)


def _inner(*offsets: int, **members: object) -> list[bytes]:
    given: dict[str, object] = {"timestamp": START_MS + 60, **members}
    return [builders.message(offset, **given) for offset in offsets]  # type: ignore[arg-type]


def _slot(row: int, of: Callable[[int, int], tuple[int, int]], extension: str = "index") -> Maker:
    """Change one entry of the index of the sealed segment."""
    form, size = (">ii", 8) if extension == "index" else (">qi", 12)

    def spoil(raw: bytes) -> bytes:
        at = row * size if row >= 0 else len(raw) + row * size
        changed = struct.pack(form, *of(*struct.unpack_from(form, raw, at)))
        return damage.put(raw, at, changed)

    return _file(SEALED, extension, spoil)


def _remove_file(base: int, extension: str) -> Maker:
    return _spoil_partition(lambda path: (path / name(base, extension)).unlink())


def _flip_bit(path: Path) -> None:
    log = read(path, SEALED, "log")
    write(path, SEALED, "log", damage.flip_bit(log, positions(path)[5] + 70, 2))


def _cut_between_batches(path: Path) -> None:
    log = read(path, SEALED, "log")
    write(path, SEALED, "log", log[: entries(log)[-9].position])


def _forgetful(root: Path) -> DamagedInput:
    """An early batch is the newest; an entry that forgets it starts a lookup behind it."""
    parts, newest = batches(0, 120), START_MS + 1_000_000
    parts[3] = batch(9, max_timestamp=newest + 20, base_timestamp=newest)
    path = write_partition(root / "data", {0: parts, 120: []})
    late = entries(read(path, 0, "log"))[30]
    write(
        path, 0, "timeindex", time_index([(late.max_timestamp_ms, late.last), (newest + 20, 119)])
    )
    return DamagedInput([root / "data"])


def _stale(extension: str, later: bytes) -> Maker:
    """Old entries behind the end of an index that is preallocated."""
    return _file(ACTIVE, extension, lambda raw: raw + later + bytes(40 * len(later)))


def _pre08(root: Path) -> DamagedInput:
    path = root / "data/events-0"
    path.mkdir(parents=True)
    for base in (0, 999):
        (path / f"{base:020}.kafka").write_bytes(builders.pre08_message(b"v" * 50) * 4)
    return DamagedInput([root / "data"])


def _overflow(root: Path) -> DamagedInput:
    far = 2**31
    path = write_partition(root / "data", {0: [batch(0)], far + 9: [batch(far + 9)]})
    write(path, 0, "log", batch(0) + batch(far - 2))
    return DamagedInput([root / "data"])


# Producers, transactions and leader epochs.


def _producers(spoil: Callable[[Path], object]) -> Maker:
    """Spoil a sound partition with transactions."""

    def make(root: Path) -> DamagedInput:
        (root / "data").mkdir()
        spoil(producing.write_sound(root / "data"))
        return DamagedInput([root / "data"])

    return make


def _of_producers(*parts: bytes) -> Maker:
    def make(root: Path) -> DamagedInput:
        (root / "data").mkdir()
        producing.write_log(root / "data", {0: parts})
        return DamagedInput([root / "data"])

    return make


def _entry(*entry: int) -> Maker:
    """Put another entry in the transaction index."""
    return _producers(lambda path: index_of(path, 0).write_bytes(aborted_index(entry)))  # type: ignore[arg-type]


def _snapshot(spoil: Callable[[bytes], bytes], offset: int = 6) -> Maker:
    return _producers(
        lambda path: snapshot_of(path, offset).write_bytes(spoil(snapshot_of(path, 6).read_bytes()))
    )


def _control(record: bytes, *more: bytes) -> Maker:
    odd = builders.batch(
        [record, *more], attributes=builders.TRANSACTIONAL | builders.CONTROL, producer_id=7,
        producer_epoch=0,
    )  # fmt: skip
    return _of_producers(odd)


def _no_snapshot(path: Path) -> None:
    for offset in (6, 10):
        snapshot_of(path, offset).unlink()


def _epochs(of_batches: Sequence[int], *known: tuple[int, int]) -> Maker:
    def make(root: Path) -> DamagedInput:
        (root / "data").mkdir()
        parts = [data(base, leader_epoch=epoch) for base, epoch in enumerate(of_batches)]
        path = producing.write_log(root / "data", {0: parts})
        (path / "leader-epoch-checkpoint").write_text(epochs(*known))
        return DamagedInput([root / "data"])

    return make


_MARKER = struct.pack(">hi", 0, 3)


# Data directories.


def _directory(
    spoil: Callable[[DataDirectory], object], settings: str = "", **how: object
) -> Maker:
    """Spoil a data directory that its broker left in order."""

    def make(root: Path) -> DamagedInput:
        made = DataDirectory(root / "data")
        for number in (0, 1):
            made.partition("orders", number)
        made.partition("users", 3, (0, 10, 20, 30), topic_id=8)
        made.stop()
        spoil(made)
        given = None
        if settings:
            given = str(root / "server.properties")
            Path(given).write_text(f"log.dirs={made.path}\n{settings}\n")
        return DamagedInput([made.path], server_properties=given, **how)  # type: ignore[arg-type]

    return make


def _put(at: str, content: bytes = b"x") -> Maker:
    return _directory(lambda made: (made.path / at).write_bytes(content))


def _make_file(at: str) -> Maker:
    return _directory(lambda made: (made.path / at).mkdir())


def _remove_path(at: str) -> Maker:
    return _directory(lambda made: (made.path / at).unlink())


def _rename_path(old: str, new: str) -> Maker:
    return _directory(lambda made: (made.path / old).rename(made.path / new))


def _write_checkpoint(which: str, **offsets: int) -> Maker:
    return _directory(lambda made: made.checkpoint(which, **offsets))


def _without_entry(made: DataDirectory) -> None:
    del made.offsets["users", 3]
    made.checkpoint("replication")


def _stale_entry(made: DataDirectory) -> None:
    made.offsets["gone", 1] = 0
    made.checkpoint("replication")


def _swap_files(made: DataDirectory) -> None:
    for extension in ("log", "index", "timeindex"):
        path = made.path / "users-3" / f"{10:020}.{extension}"
        path.rename(path.with_name(f"{path.name}.swap"))


def _without_segment(made: DataDirectory, *, proof: bool) -> None:
    path = made.path / "users-3"
    for extension in ("log", "index", "timeindex") if not proof else ("log",):
        (path / f"{10:020}.{extension}").unlink()


def _change_owner(made: DataDirectory) -> None:
    for path in [made.path, *made.path.rglob("*")]:
        os.chown(path, 500, 500)
    os.chown(made.path / "orders-0" / f"{10:020}.index", 0, 0)


def _set_file_time(made: DataDirectory, base: int, seconds: int) -> None:
    changed_ns = (TIME + 1000 * seconds) * 1_000_000
    os.utime(made.path / "orders-0" / f"{base:020}.log", ns=(changed_ns, changed_ns))


def _two(spoil: Callable[[DataDirectory, DataDirectory], object], *, stated: bool = False) -> Maker:
    """Spoil two data directories of one broker."""

    def make(root: Path) -> DamagedInput:
        made = [DataDirectory(root / f"d{number}", number=number) for number in (1, 2)]
        made[0].partition("orders", 0)
        made[0].partition("orders", 1)
        made[1].partition("logs", 0, topic_id=9)
        spoil(*made)
        for one in made:
            one.stop()
        given = None
        if stated:
            given = str(root / "server.properties")
            Path(given).write_text("log.dirs=" + ",".join(str(one.path) for one in made))
        return DamagedInput([one.path for one in made], server_properties=given)

    return make


def _cluster(
    *more: bytes,
    spoil: Callable[[DataDirectory, Path], object] = lambda made, path: None,
    records: Sequence[bytes] = (),
) -> Maker:
    """A data directory with a metadata log, in which more stands than is there."""

    def make(root: Path) -> DamagedInput:
        made = DataDirectory(root / "data")
        known = [metadata_log.register(1, [1001]), metadata_log.topic("orders", 7)]
        for number in (0, 1):
            made.partition("orders", number)
            known.append(metadata_log.partition(number, 7, (1,), (1001,)))
        path = made.path / "__cluster_metadata-0"
        metadata_log.write_log(path, [*known, *more])
        spoil(made, path)
        made.stop()
        return DamagedInput([made.path])

    return make


def _another_id(made: DataDirectory, path: Path) -> None:
    made.partition("users", 0, topic_id=8)


def _cluster_snapshot(content: bytes) -> Callable[[DataDirectory, Path], object]:
    return lambda made, path: (path / f"{2:020}-{0:010}.checkpoint").write_bytes(content)


def _behind_its_snapshots(made: DataDirectory, path: Path) -> None:
    for each in path.glob("0*"):
        each.unlink()
    (path / f"{9:020}.log").write_bytes(metadata_log.log_of([metadata_log.NO_OP], base_offset=9))
    (path / f"{9:020}.index").write_bytes(b"")
    (path / f"{9:020}.timeindex").write_bytes(struct.pack(">qi", metadata_log.LONG_AGO, 0))
    write_checkpoint(path / "leader-epoch-checkpoint", [(0, 9)])


def _without_batch(made: DataDirectory, path: Path) -> None:
    log = made.path / "orders-0" / f"{0:020}.log"
    whole = log.read_bytes()
    log.write_bytes(whole[:BATCH_BYTES] + whole[2 * BATCH_BYTES :])


def _foreign(root: Path) -> DamagedInput:
    shutil.copytree(SAMPLES / "clean/4.1.1", root / "node")
    meta = root / "node/d2/meta.properties"
    meta.write_text(meta.read_text().replace("node.id=1", "node.id=4"))
    return DamagedInput([root / "node/d1", root / "node/d2"])


def _bootstrap(made: DataDirectory) -> None:
    sound = (SAMPLES / "clean/4.1.1/d1/bootstrap.checkpoint").read_bytes()
    (made.path / "bootstrap.checkpoint").write_bytes(sound[:83])


_SNAPSHOT = [metadata_log.topic("orders", 7)]
_WHOLE = metadata_log.snapshot_of(_SNAPSHOT)


# Captures of what clients and brokers said: Spark reads none.

_REQUEST = bytes.fromhex("00120000000000010002") + b"ab"


def _frame_messages(*frames: bytes) -> bytes:
    return b"".join(len(one).to_bytes(4, "big") + one for one in frames)


def _bytes(content: Callable[[], bytes], kind: str = "frames") -> Maker:
    def make(root: Path) -> DamagedInput:
        (root / "said").write_bytes(content())
        return DamagedInput([root / "said"], kind=kind)

    return make


def _write_capture(*messages: captures.Message, lost: int | None = None, first: int = 0) -> Maker:
    made = captures.packets(messages, size=100)
    kept = [one for number, one in enumerate(made) if number != lost][first:]
    return _bytes(lambda: captures.capture(kept), "capture")


def _read_recorded() -> bytes:
    return gzip.decompress(CAPTURE.read_bytes())


MAKERS: dict[str, Maker] = {
    "crc-mismatch": _spoil_partition(_flip_bit),
    "batch-length": _at(8, struct.pack(">i", 5)),
    "batch-cut-short": _at(8, struct.pack(">i", 1 << 30)),
    "batch-too-small": _at(8, struct.pack(">i", 20)),
    "torn-tail": _file(ACTIVE, "log", lambda raw: raw[:-5]),
    "preallocated-tail": _file(ACTIVE, "log", lambda raw: raw + bytes(5000)),
    "magic-unknown": _at(16, b"\x07"),
    "codec-unknown": _logs([*batches(0, 6), batch(6, attributes=7), *batches(9, 12)]),
    "attributes-reserved": _logs([*batches(0, 6), batch(6, attributes=0x100), *batches(9, 12)]),
    "offset-not-rising": _logs([*batches(0, 15), batch(12), *batches(15, 30)]),
    "offset-below-base": _logs(batches(6, 30), first=9),
    "offset-past-next": _at(0, struct.pack(">q", 1 << 40)),
    "offset-past-range": _at(0, struct.pack(">q", 1 << 40), base=ACTIVE, row=3),
    "log-end-astray": _at(0, struct.pack(">q", 1 << 40), base=ACTIVE, row=-1),
    "zero-tail": _file(SEALED, "log", lambda raw: raw + bytes(300)),
    "batch-count": _logs([*batches(0, 6), batch(6, records_count=9, last_offset_delta=2)]),
    "records-undecodable": _inside(builders.record(0), builders.record(1, length=900)),
    "record-offset": _inside(builders.record(0), builders.record(9), last_offset_delta=2),
    "wrapper-offset": _message(builders.wrapper(_inner(6, 7, magic=0), 9, magic=0)),
    "batch-max-timestamp": _inside(builders.record(0), max_timestamp=START_MS + 1060),
    "null-key": _logs(
        [*batches(0, 6), builders.batch([builders.record(key=None)], base_offset=6)],
        deep=True, settings="log.cleanup.policy=compact",
    ),
    "slack-bytes": _message(builders.message(6, timestamp=START_MS + 60, slack=b"abc")),
    "inner-crc-mismatch": _message(
        builders.wrapper([*_inner(0), *_inner(1, crc=7), *_inner(2)], 8, timestamp=START_MS + 60)
    ),
    "inner-cut-short": _message(
        builders.wrapper([*_inner(0, 1), b"half a message"], 7, timestamp=START_MS + 60)
    ),
    "over-decompress-limit": _logs(
        [*batches(0, 6), batch(6, 1, payload=builders.gzip_bytes(bytes(100_000)), attributes=1)],
        deep=True, decompress_limit=50_000,
    ),
    "control-record": _control(builders.control_record(COMMIT, _MARKER[:5])),
    "control-type-unknown": _control(builders.control_record(9, _MARKER)),
    "control-count": _control(
        builders.control_record(ABORT, _MARKER),
        builders.control_record(COMMIT, _MARKER, offset_delta=1),
    ),
    "pre08-gap": _pre08,
    "offset-index-size": _file(SEALED, "index", lambda raw: raw + b"abc"),
    "offset-index-order": _slot(2, lambda offset, position: (offset, 1)),
    "log-too-short": _spoil_partition(_cut_between_batches),
    "offset-index-missing": _remove_file(SEALED, "index"),
    "offset-index-empty": _file(SEALED, "index", lambda raw: b""),
    "offset-index-position": _slot(2, lambda offset, position: (offset, position + 1)),
    "offset-index-offset": _slot(2, lambda offset, position: (offset - 3, position)),
    "offset-index-zeros": _file(SEALED, "index", lambda raw: raw + bytes(80)),
    "offset-index-stale": _stale("index", offset_index([(900, 9000)])),
    "time-index-size": _file(SEALED, "timeindex", lambda raw: raw + b"abc"),
    "time-index-order": _slot(2, lambda time_ms, offset: (time_ms, 0), "timeindex"),
    "time-index-missing": _remove_file(SEALED, "timeindex"),
    "time-index-offset": _forgetful,
    "time-index-entry": _slot(2, lambda time_ms, offset: (time_ms + 1, offset), "timeindex"),
    "time-index-last": _slot(-1, lambda time_ms, offset: (5, offset), "timeindex"),
    "time-index-zeros": _file(SEALED, "timeindex", lambda raw: raw + bytes(60)),
    "time-index-stale": _stale("timeindex", time_index([(START_MS + 10**9, 900)])),
    "transaction-index-size": _producers(
        lambda path: index_of(path, 0).write_bytes(aborted_index((7, 0, 3, 2)) + b"abc")
    ),
    "transaction-index-version": _producers(
        lambda path: index_of(path, 0).write_bytes(b"\1" + aborted_index((7, 0, 3, 2))[1:])
    ),
    "transaction-index-order": _producers(
        lambda path: index_of(path, 0).write_bytes(aborted_index((7, 0, 3, 2)) * 2)
    ),
    "transaction-index-marker": _entry(8, 0, 3, 2),
    "transaction-index-first-offset": _entry(7, 1, 3, 2),
    "transaction-index-stable-offset": _entry(7, 0, 3, 4),
    "transaction-index-missing": _producers(lambda path: index_of(path, 6).unlink()),
    "transaction-open": _of_producers(data(0), data(1, 7, 0, transactional=True), data(2)),
    "transaction-hanging": _of_producers(
        data(0, 7, 0, transactional=True, timestamp=TIME),
        marker(1, 8, COMMIT, timestamp=TIME),
        marker(2, 8, COMMIT, timestamp=TIME + HOUR_MS),
    ),
    "transaction-mixed": _of_producers(
        data(0), data(1, 7, 0, transactional=True), data(2), data(3, 7, 1)
    ),
    "sequence-duplicate": _of_producers(data(0), data(1, 7, 4, count=3), data(4, 7, 4, count=3)),
    "sequence-gap": _of_producers(data(0, 7, 0, count=3), data(3), data(4, 7, 5)),
    "snapshot-size": _snapshot(lambda raw: raw[:60]),
    "snapshot-version": _snapshot(lambda raw: b"\0\2" + raw[2:]),
    "snapshot-crc": _snapshot(lambda raw: damage.flip(raw, 30)),
    "snapshot-differs": _snapshot(lambda raw: raw, offset=10),
    "snapshot-stray": _snapshot(lambda raw: snapshot(*producing.AT_TEN), offset=11),
    "snapshot-missing": _producers(_no_snapshot),
    "leader-epoch-odd": _epochs((5, 5, 9, 5, 5), (5, 0)),
    "leader-epoch-falls": _epochs((5, 5, 3, 3), (5, 0)),
    "leader-epochs-order": _epochs((0, 0, 1), (1, 2), (0, 0)),
    "leader-epochs-start": _epochs((0, 0, 1, 1, 1, 4, 4), (0, 0), (1, 1), (4, 5)),
    "leader-epochs-missing": _epochs((0, 0, 1, 1, 1, 4, 4), (0, 0), (4, 5)),
    "checkpoint-malformed": _put("cleaner-offset-checkpoint", b"0\nx\n"),
    "properties-malformed": _put("users-3/partition.metadata", b"version: 0\n"),
    "log-name": _rename_path(f"users-3/{10:020}.log", "users-3/10.log"),
    "file-name": _rename_path(f"users-3/{10:020}.timeindex", "users-3/00010.timeindex"),
    "file-stops-start": _put("orders-0/backup.log"),
    "file-unknown": _put("orders-0/a.txt"),
    "file-access": _directory(_change_owner),
    "index-without-log": _put(f"orders-0/{999999:020}.index", b""),
    "leftover": _put(f"orders-0/{10:020}.log.deleted"),
    "reindex-unfinished": _put(f"orders-0/{10:020}.index.kdump-tmp"),
    "swap-left": _directory(_swap_files),
    "segments-apart": _directory(lambda made: _without_segment(made, proof=False)),
    "offsets-apart": _cluster(spoil=_without_batch),
    "segment-missing": _directory(lambda made: _without_segment(made, proof=True)),
    "partition-empty": _make_file("new-0"),
    "directory-retired": _rename_path("orders-0", f"orders-0.{7:032x}-delete"),
    "directory-stops-start": _make_file("lost+found"),
    "partition-twice": _two(lambda first, second: second.partition("orders", 0)),
    "partition-missing": _cluster(metadata_log.partition(2, 7, (1,), (1001,))),
    "partition-metadata-missing": _remove_path("orders-1/partition.metadata"),
    "topic-id-differs": _cluster(
        metadata_log.topic("users", 88), metadata_log.partition(0, 88, (1,), (1001,)),
        spoil=_another_id,
    ),
    "topic-unknown": _cluster(metadata_log.remove_topic(7)),
    "replica-not-assigned": _cluster(
        metadata_log.change(
            1, 7, (2, metadata_log.ids(4)), (8, metadata_log.array([metadata_log.uuid(2)]))
        )
    ),
    "meta-properties-differ": _two(
        lambda first, second: second.meta.write_text(
            second.meta.read_text().replace("node.id=1", "node.id=2")
        ),
        stated=True,
    ),
    "meta-properties-missing": _remove_path("meta.properties"),
    "meta-properties-malformed": _put("meta.properties", b"version=2\n"),
    "meta-properties-foreign": _foreign,
    "bootstrap-checkpoint-malformed": _directory(_bootstrap),
    "metadata-snapshot-missing": _cluster(spoil=_behind_its_snapshots),
    "metadata-snapshot-incomplete": _cluster(
        spoil=_cluster_snapshot(metadata_log.snapshot_of(_SNAPSHOT, footer=False))
    ),
    "metadata-snapshot-damaged": _cluster(
        spoil=_cluster_snapshot(damage.flip(_WHOLE, _WHOLE.index(b"orders")))
    ),
    "checkpoint-missing": _remove_path("recovery-point-offset-checkpoint"),
    "checkpoint-stale-entry": _directory(_stale_entry),
    "checkpoint-lacks-partition": _directory(_without_entry),
    "checkpoint-beyond-end": _write_checkpoint("recovery-point", orders=25),
    "log-end-lost": _write_checkpoint("replication", orders=25),
    "cleaner-offset": _write_checkpoint("cleaner", orders=25),
    "roll-unexplained": _directory(lambda made: None, "log.segment.bytes=1000000"),
    "over-message-limit": _directory(lambda made: None, f"message.max.bytes={BATCH_BYTES - 1}"),
    "compression-type-differs": _directory(lambda made: None, "compression.type=zstd"),
    "timestamp-type-differs": _directory(
        lambda made: None, "log.message.timestamp.type=LogAppendTime"
    ),
    "segment-over-limit": _directory(lambda made: None, f"log.segment.bytes={2 * BATCH_BYTES}"),
    "offset-overflow": _overflow,
    "index-over-limit": _logs(
        batches(0, 60), batches(60, 90), settings="log.index.size.max.bytes=16"
    ),
    "record-time-limit": _directory(
        lambda made: _set_file_time(made, 10, -5),
        "log.message.timestamp.after.max.ms=5015", deep=True
    ),
}  # fmt: skip

CAPTURES: dict[str, Maker] = {
    "frame-length": _bytes(lambda: _frame_messages(_REQUEST) + b"\xff\xff\xff\xfb" * 3),
    "frame-cut-short": _bytes(lambda: _frame_messages(_REQUEST, _REQUEST)[:-3]),
    "frame-malformed": _bytes(
        lambda: _frame_messages(_REQUEST, bytes.fromhex("0001000400000004000161") + bytes(2))),
    "frame-unknown": _bytes(
        lambda: _frame_messages(_REQUEST, bytes.fromhex("03e70000000000020001") + b"a")),
    "capture-gap": _write_capture((0, 0, _frame_messages(*[_REQUEST] * 40)), lost=4),
    "capture-cut-short": _bytes(lambda: _read_recorded()[:-30], "capture"),
    "capture-skipped": _write_capture(
        (0, 0, b"GET / HTTP/1.1\r\n\r\n"), (1, 0, _frame_messages(_REQUEST))),
    "capture-encrypted": _write_capture((0, 0, b"\x16\x03\x01\x02\0\1\0\1\xfc\3\3" + bytes(300))),
}  # fmt: skip
