"""Batches that lie in an image in several pieces, at places that the test knows."""

import random
from pathlib import Path
from typing import NamedTuple

import builders
import pytest
from long_runs import LONG, SEED, how_many

from kdump.engine.salvage.carved_joins import Joins
from kdump.engine.salvage.carving import ImageContents, carve
from kdump.storage.file_records import DEFAULT_LIMIT

_RUNS = how_many(12, 2000) if LONG else 12
BLOCK = 4096
HEADER = 66  # the largest there is, and the size of the first record behind it


class LaidLog(NamedTuple):
    """A log in an image: its batches, in how many pieces each is, whether its header is cut.

    Cut, too, is a header that begins with another piece than what is before it ends with.
    """

    batches: list[bytes]
    pieces: list[int]
    is_cut: list[bool]


def a_log(rng: random.Random, sizes: list[int]) -> list[bytes]:
    """Make batches of about so many bytes, or messages."""
    found, offset, kind = [], 0, rng.choice(("plain", "gzip", "legacy"))
    for size in sizes:
        if kind == "legacy":
            found.append(builders.message(offset, None, rng.randbytes(size)))
            offset += 1
            continue
        count = rng.randrange(1, 9)
        records = [
            builders.record(at, 0, None, rng.randbytes(size // count)) for at in range(count)
        ]
        packed = {"attributes": 1, "compress": builders.gzip_bytes} if kind == "gzip" else {}
        found.append(builders.batch(records, base_offset=offset, **packed))  # type: ignore[arg-type]
        offset += count
    return found


def lay_out(rng: random.Random, image: Path, batches: list[bytes], cuts: set[int]) -> LaidLog:
    """Write a log into an image, cut before some of its blocks by others that hold no log."""
    log = b"".join(batches)
    parts = [rng.randbytes(BLOCK * 3)]
    places = []
    for number in range(-(-len(log) // BLOCK)):
        if number in cuts:
            parts.append(rng.randbytes(BLOCK * rng.randrange(1, 40)))
        places.append(sum(map(len, parts)))
        parts.append(log[number * BLOCK : (number + 1) * BLOCK].ljust(BLOCK, b"\0"))
    parts.append(rng.randbytes(BLOCK * 3))
    image.write_bytes(b"".join(parts))
    found, at = LaidLog(batches, [], []), 0
    for batch in batches:
        found.pieces.append(1 + cuts_in(cuts, at, len(batch)))
        found.is_cut.append(cuts_in(cuts, max(at - 1, 0), HEADER + 1) > 0)
        at += len(batch)
    return found


def cuts_in(cuts: set[int], start: int, size: int) -> int:
    return len(cuts.intersection(range(start // BLOCK + 1, (start + size - 1) // BLOCK + 1)))


def carve_image(image: Path) -> tuple[ImageContents, Joins, dict[bytes, int]]:
    """Carve an image; give the batches that lie in pieces, each with how many."""
    found = carve(str(image), lambda _: None, DEFAULT_LIMIT)
    joins, data = Joins([found]), image.read_bytes()
    apart = {
        b"".join(data[one.position : one.end] for one in extent.pieces): len(extent.pieces)
        for extent in joins.extents
        if len(extent.pieces) > 1
    }
    return found, joins, apart


@pytest.mark.parametrize("seed", range(SEED, SEED + _RUNS))
def test_pieces_are_joined(seed: int, tmp_path: Path) -> None:
    """In three pieces, and in four where the batch is small; but for the last one of the log."""
    rng = random.Random(f"pieces {seed}")
    image = tmp_path / "disk.img"
    batches = a_log(rng, [rng.choice((300, 9000, 20_000, 60_000)) for _ in range(12)])
    blocks = sum(map(len, batches)) // BLOCK
    cuts = set(rng.sample(range(1, blocks), rng.randrange(1, blocks // 2)))
    log = lay_out(rng, image, batches, cuts)
    _, joins, apart = carve_image(image)
    assert (joins.in_two_pieces, joins.in_more_pieces) == (
        sum(count == 2 for count in apart.values()),
        sum(count > 2 for count in apart.values()),
    )
    told = dict(zip(log.batches, log.pieces, strict=True))
    assert all(told[batch] == count for batch, count in apart.items())
    missing = [
        (len(batch), count)
        for number, (batch, count) in enumerate(zip(log.batches[:-1], log.pieces, strict=False))
        if 1 < count <= 3 + (len(batch) < 5 * BLOCK)
        and not any(log.is_cut[number : number + 2])
        and batch not in apart
    ]
    assert not missing


def test_block_may_end_before_the_checksummed_bytes(tmp_path: Path) -> None:
    """It ends in the header, which lies whole, and the batch is cut behind it."""
    rng = random.Random(1)
    sizes = (4016, 20_000, 300)
    values = [builders.record(0, 0, None, rng.randbytes(size)) for size in sizes]
    batches = [builders.batch([value], base_offset=at) for at, value in enumerate(values)]
    assert len(batches[0]) == BLOCK - 10
    lay_out(rng, tmp_path / "disk.img", batches, {3, 4})
    assert carve_image(tmp_path / "disk.img")[2] == {batches[1]: 3}


@pytest.mark.parametrize("left", [40, 21, 20])
def test_header_may_be_cut_after_the_checksum(left: int, tmp_path: Path) -> None:
    """The batch begins right behind another, and ends right before what follows."""
    rng = random.Random(1)
    sizes = (BLOCK - left - 70, 9000, 300, 300)
    values = [builders.record(0, 0, None, rng.randbytes(size)) for size in sizes]
    batches = [builders.batch([value], base_offset=at) for at, value in enumerate(values)]
    assert len(batches[0]) == BLOCK - left
    lay_out(rng, tmp_path / "disk.img", batches, {1})
    _, joins, apart = carve_image(tmp_path / "disk.img")
    assert apart == ({batches[1]: 2} if left > 20 else {})
    assert len(joins.groups()) == (1 if apart else 2)


def test_batch_with_unreadable_records_is_not_assembled(tmp_path: Path) -> None:
    """In so many places bytes have the checksum by chance: each record has to be there, too."""
    rng = random.Random(1)
    for sound in (True, False):
        packed = builders.gzip_bytes(builders.record(0, 0, None, rng.randbytes(20_000)))
        payload = packed if sound else rng.randbytes(20_000)
        batch = builders.batch(payload=payload, attributes=1)
        after = builders.batch(base_offset=1)
        lay_out(rng, tmp_path / "disk.img", [batch, after], {2, 4})
        assert carve_image(tmp_path / "disk.img")[2] == ({batch: 3} if sound else {})
