"""Logs in images of file systems whose files are deleted: what lies whole there is found, alone.

Which batches lie whole is told from the bytes of the logs and of the image, which batches a log has
by the broker's own classes. KDUMP_FUZZ=long takes 20 topics and hundreds of damaged images, and a
GiB each of noise and text.
"""

import random
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import imaging
import pytest
from comparing import batches, replica, rewrite_record
from long_runs import LONG, SEED, how_many
from oracle import oracle
from salvaging import data_of, items_of, make_log

from kdump.engine.salvage.carved_joins import Joins
from kdump.engine.salvage.carving import ImageContents, carve
from kdump.findings.rows import Row
from kdump.storage.file_records import DEFAULT_LIMIT
from kdump.storage.raw_image import RawImage
from kdump.storage.source import Source

pytestmark = pytest.mark.fuzz

_TOPICS = 20 if LONG else 7
_DAMAGED = how_many(6, 300) if LONG else 6
MIB = 1 << 20


@dataclass
class Topics:
    """A data directory, its logs with where their batches lie, and how many records each has."""

    folder: Path
    logs: list[tuple[bytes, list[tuple[int, int]]]]
    names: list[str]  # of the partitions of the logs
    ends: dict[str, int]

    @cached_property
    def owners(self) -> dict[bytes, set[str]]:
        """Partitions by their batches, as far as checksums cover these."""
        found: dict[bytes, set[str]] = {}
        for name, (log, places) in zip(self.names, self.logs, strict=True):
            for at, size in places:
                found.setdefault(_covered(log[at : at + size]), set()).add(name)
        return found

    @property
    def batches(self) -> set[bytes]:
        return {log[at : at + size] for log, places in self.logs for at, size in places}


@pytest.fixture(scope="module")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Topics:
    """Let the broker's append code write topics."""
    folder = tmp_path_factory.mktemp("topics")
    found, ends = Topics(folder, [], [], {}), {}
    for seed in range(_TOPICS):
        path = folder / "d" / f"topic{seed}-{seed % 3}"
        path.parent.mkdir(exist_ok=True)
        entries = make_log(oracle(), 100 + seed, path)
        for log in path.glob("*.log"):
            places = [(one.position, one.size) for one in entries if one.file == log.name]
            found.logs.append((log.read_bytes(), places))
            found.names.append(path.name)
        ends[path.name] = entries[-1].last + 1
    lines = [f"{name.replace('-', ' ')} {end}" for name, end in ends.items()]
    text = "\n".join(["0", str(len(lines)), *lines]) + "\n"
    (folder / "d" / "recovery-point-offset-checkpoint").write_text(text)
    found.ends.update(ends)
    return found


class CarvedBatches(NamedTuple):
    """What is carved: the batches, and those among them that are not said to be doubtful."""

    carved: ImageContents
    joins: Joins
    batches: set[bytes]
    sure: set[bytes]
    of: dict[int, set[bytes]]  # by the extent


def carve_image(image: Path) -> CarvedBatches:
    """Carve an image."""
    found = carve(str(image), lambda _: None, DEFAULT_LIMIT)
    joins = Joins([found])
    data = image.read_bytes()
    of: dict[int, set[bytes]] = {}
    with Source(image) as source:
        for extent in joins.extents:
            here = of[id(extent)] = set()
            if len(extent.pieces) > 1:
                here.add(b"".join(data[one.position : one.end] for one in extent.pieces))
                continue
            for run in RawImage(source).walk(extent.position, extent.end):
                rows = run.batches  # type: ignore[union-attr]
                here.update(
                    data[rows.position(row) : rows.end_position(row)] for row in range(rows.count)
                )
    sure = [of[id(extent)] for extent in joins.extents if not extent.is_doubtful]
    return CarvedBatches(found, joins, set().union(*of.values()), set().union(*sure), of)


def covered_parts(batches: set[bytes]) -> set[bytes]:
    """What checksums, or the frame, say of batches: offset and epoch are not under them."""
    return set(map(_covered, batches))


def _covered(batch: bytes) -> bytes:
    return batch[8:12] + batch[16:]


def holds_all(image: Path, topics: Topics) -> None:
    """See that every batch that lies whole in the image is found, and no other."""
    found = carve_image(image)
    assert covered_parts(imaging.intact(image.read_bytes(), topics.logs)) <= covered_parts(
        found.batches
    )
    assert covered_parts(found.sure) <= covered_parts(topics.batches)
    for group in found.joins.groups():
        if group.is_doubtful:
            continue
        inside = [found.of[id(extent)] for extent in group.extents]
        owners = [topics.owners[each] for batches in inside for each in covered_parts(batches)]
        assert set.intersection(*owners), group.joined_by


def names_hold(image: Path, topics: Topics, least: int) -> None:
    """See that what is named is the whole of that partition, and that no other batch is taken."""
    rows = [row.fields for row in items_of(image, carve=True) if isinstance(row, Row)][1:]
    named = [row for row in rows if row["carved"][0]["named_by"] == "checkpoint"]
    assert len(named) >= least
    for row in named:
        assert row["last_offset"] + 1 == topics.ends[f"{row['topic']}-{row['partition']}"]
    unnamed = {row["topic"] for row in rows} - {row["topic"] for row in named}
    assert all(topic.startswith("carved-") for topic in unnamed)


@pytest.mark.oracle
def test_removed_files_are_found(topics: Topics, tmp_path: Path) -> None:
    image = tmp_path / "disk.img"
    imaging.ext4(image, topics.folder, 64)
    imaging.delete_below(image, topics.folder)
    assert imaging.intact(image.read_bytes(), topics.logs) == topics.batches
    holds_all(image, topics)
    names_hold(image, topics, _TOPICS // 2)
    imaging.ext4_again(image)
    assert imaging.intact(image.read_bytes(), topics.logs)
    holds_all(image, topics)


@pytest.mark.oracle
def test_files_on_xfs_are_found(topics: Topics, tmp_path: Path) -> None:
    image = tmp_path / "disk.img"
    imaging.xfs(image, topics.folder, 320)
    names_hold(image, topics, _TOPICS // 2)
    imaging.xfs_again(image)
    assert imaging.intact(image.read_bytes(), topics.logs)
    holds_all(image, topics)


@pytest.mark.oracle
def test_fragmented_batches_are_found(topics: Topics, tmp_path: Path) -> None:
    """In a file system that is full but for single blocks."""
    image, filler = tmp_path / "disk.img", tmp_path / "filler" / "f"
    filler.mkdir(parents=True)
    for number in range(1500):
        (filler / f"{number:04}").write_bytes(b"full" * 1024)
    imaging.ext4(image, filler.parent, 16)
    imaging.delete_files(image, [f"f/{number:04}" for number in range(0, 1500, 2)])
    logs = sorted(topics.folder.rglob("*.log"), key=lambda path: path.stat().st_size)[:12]
    imaging.write_files(image, ((path, f"{path.parent.name}.{path.name}") for path in logs))
    holds_all(image, topics)
    found, joins, batches, *_ = carve_image(image)
    assert joins.in_two_pieces > 5
    rows = [row.fields for row in items_of(image, carve=True) if isinstance(row, Row)]
    assert rows[0]["in_two_pieces"] == joins.in_two_pieces
    assert joins.in_more_pieces > 0
    assert rows[0]["in_more_pieces"] == joins.in_more_pieces
    in_pieces = joins.in_two_pieces + joins.in_more_pieces
    assert rows[0]["torn"] == len(joins.torn[str(image)]) >= len(found.torn) - in_pieces
    assert sum(row["batches"] for row in rows[1:]) == len(batches)


@pytest.mark.oracle
@pytest.mark.parametrize("seed", range(SEED, SEED + _DAMAGED))
def test_undamaged_batches_are_found(topics: Topics, tmp_path: Path, seed: int) -> None:
    """Sectors that are lost, or in use again, some by other logs."""
    rng = random.Random(f"damage {seed}")
    image = tmp_path / "disk.img"
    imaging.ext4(image, topics.folder, 32)
    data = bytearray(image.read_bytes())
    start = min(data.find(log[:512]) for log, _ in topics.logs if log)
    end = start + 2 * sum(len(log) for log, _ in topics.logs)
    for _ in range(rng.randrange(1, 60)):
        at = rng.randrange(start, min(end, len(data)))
        size = rng.choice((1, 2, 8, 8, 16, 64))
        if rng.random() < 0.7:
            at, size = at // 512 * 512, size * 512
            data[at : at + size] = rng.choice((bytes(size), rng.randbytes(size)))
        else:  # a file has whole blocks
            at, size = at // 4096 * 4096, size * 4096
            donor = rng.choice(topics.logs)[0][:size]
            size = -(-len(donor) // 4096) * 4096
            data[at : at + size] = donor.ljust(size, b"\0")
    for _ in range(rng.randrange(10)):
        at = rng.randrange(start, min(end, len(data)))
        data[at] ^= 1 << rng.randrange(8)
    image.write_bytes(data)
    holds_all(image, topics)
    for row in items_of(image, carve=True):
        assert isinstance(row, Row), row


@pytest.mark.parametrize("kind", ["noise", "text"])
def test_empty_image_has_no_batches(kind: str, tmp_path: Path) -> None:
    rng = random.Random(kind)
    words = [f"{rng.choice('abcdefg') * rng.randrange(1, 9)}{n}" for n in range(999)]
    path = tmp_path / kind
    with path.open("wb") as file:
        for _ in range(1024 if LONG else 24):
            if kind == "noise":
                file.write(rng.randbytes(MIB))
            else:
                text = " ".join(rng.choices(words, k=5000)).encode()
                file.write((text * (MIB // len(text) + 1))[:MIB])
    (row,) = items_of(path, carve=True)
    assert isinstance(row, Row)
    assert (row.fields["batches"], row.fields["torn"]) == (0, 0)


def test_identical_topics_are_not_mixed(tmp_path: Path) -> None:
    """Two logs that meet at the same offsets, with nothing that tells them apart."""
    log = batches(0, 30)
    logs = [log, [rewrite_record(batch, batch.base, b"other") for batch in log]]
    image = tmp_path / "disk.img"
    parts = [data_of(part) for log in logs for part in (log[:3], log[3:])]
    image.write_bytes(b"".join(part + bytes(4096 - len(part) % 4096) for part in parts))
    rows = [row.fields for row in items_of(image, carve=True) if isinstance(row, Row)][1:]
    assert [(row["batches"], row["topic"]) for row in rows] == [
        (3, "carved-1"),
        (len(logs[0]) - 3, "carved-2"),
        (3, "carved-3"),
        (len(logs[1]) - 3, "carved-4"),
    ]


def test_existing_copy_or_user_gives_the_name(tmp_path: Path) -> None:
    log = batches(0, 100)
    cut = replica(tmp_path, "one", log[:4])
    image = tmp_path / "disk.img"
    image.write_bytes(bytes(4096) + data_of(log))
    for options in ({}, {"names": {"carved-1": "orders-0"}}):
        paths = [image, cut] if not options else [image]
        _, row = (each.fields for each in items_of(*paths, carve=True, **options))  # type: ignore[union-attr]
        assert (row["topic"], row["partition"], row["records_count"]) == ("orders", 0, 100)
        named_by = "topic-map" if options else "copy"
        (group,) = row["carved"]
        assert (group["group"], group["named_by"], group["doubtful"]) == (
            "carved-1",
            named_by,
            False,
        )
        assert row["lost"] == []


def test_evidence_for_a_name_is_shown(tmp_path: Path) -> None:
    """A checkpoint that ends where the log does, and ids of topics, each with its bytes."""
    image, log = tmp_path / "disk.img", data_of(batches(0, 100))
    checkpoint, topic_id = b"0\n1\norders 3 100\n", "AbCdEfGhIjKlMnOpQrStUw"
    metadata = f"version: 0\ntopic_id: {topic_id}\n".encode()
    texts = (b"", checkpoint, log, metadata, metadata.replace(b"A", b"!"), metadata[:20])
    image.write_bytes(b"".join(text + bytes(4096 - len(text) % 4096) for text in texts))
    seen, row = (each.fields for each in items_of(image, carve=True))  # type: ignore[union-attr]
    assert (row["topic"], row["partition"]) == ("orders", 3)
    (group,) = row["carved"]
    assert group["named_at"] == {"path": str(image), "bytes": [4096, 4095 + len(checkpoint)]}
    start = 12288 + len(log) // 4096 * 4096
    assert seen["topic_ids"] == [
        {"topic_id": topic_id, "topic": None, "bytes": [start, start + len(metadata) - 1]}
    ]


def test_cluster_metadata_names_topic_ids(tmp_path: Path) -> None:
    image = tmp_path / "disk.img"
    data = Path(__file__).parents[3] / "sample-data/clean/4.1.1"
    paths = [data / f"d2/orders.{codec}-0/partition.metadata" for codec in ("plain", "gzip")]
    paths += sorted(data.glob("d1/__cluster_metadata-0/*.log"))
    texts = [path.read_bytes() for path in paths]
    image.write_bytes(b"".join(text + bytes(4096 - len(text) % 4096) for text in texts))
    seen = items_of(image, carve=True)[0]
    assert isinstance(seen, Row)
    assert [one["topic"] for one in seen.fields["topic_ids"]] == ["orders.plain", "orders.gzip"]


@pytest.mark.oracle
def test_carved_log_equals_the_original(topics: Topics, tmp_path: Path) -> None:
    image, out = tmp_path / "disk.img", tmp_path / "out"
    imaging.ext4(image, topics.folder, 32)
    imaging.delete_below(image, topics.folder)
    items = items_of(image, carve=True, out=str(out))
    for row in items[1:]:
        assert isinstance(row, Row), row
        if row.fields["carved"][0]["named_by"] is None:
            continue
        name = f"{row.fields['topic']}-{row.fields['partition']}"
        there = b"".join(
            path.read_bytes() for path in sorted((topics.folder / "d" / name).glob("*.log"))
        )
        here = b"".join(path.read_bytes() for path in sorted((out / name).glob("*.log")))
        assert there.endswith(here)
        assert row.fields["first_offset"] or there == here
