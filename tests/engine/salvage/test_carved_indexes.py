"""Pieces of logs that nothing but pages of their indexes tells apart, at places the test knows."""

import random
from functools import partial
from itertools import pairwise
from pathlib import Path
from struct import pack

import builders
import pytest
from long_runs import LONG, SEED, how_many

from kdump.engine.salvage.carved_joins import BYTES, INDEX, Joins
from kdump.engine.salvage.carving import SECTOR, Extent, NotingSource, Piece, carve
from kdump.storage.file_records import DEFAULT_LIMIT

_RUNS = how_many(5, 2000) if LONG else 5
BLOCK = 4096


HEADER = 61 + 16  # the header of a batch, whose checksum covers it from 17 on, and some of a record


def a_log(rng: random.Random, sizes: list[int]) -> list[bytes]:
    """Make batches of one record each, of so many bytes; all logs have the same offsets."""
    return [
        builders.batch([builders.record(0, 0, None, rng.randbytes(size))], base_offset=offset)
        for offset, size in enumerate(sizes)
    ]


def index_of(batches: list[bytes], appends: list[int], *, is_last: bool) -> bytes:
    """Write entries as a broker does for appends of so many batches (I9)."""
    found, position, since, offset = [], 0, 0, 0
    for count in appends:
        if since > 4096:
            found.append(pack(">ii", offset + count - 1 if is_last else offset, position))
            since = 0
        size = sum(map(len, batches[offset : offset + count]))
        position, since, offset = position + size, since + size, offset + count
    return b"".join(found)


def pieces_of(rng: random.Random, log: bytes) -> list[bytes]:
    """Cut a log where blocks begin."""
    blocks = -(-len(log) // BLOCK)
    cuts = sorted({0, blocks, *(rng.randrange(0, blocks, 25) for _ in range(rng.randrange(6)))})
    return [log[one * BLOCK : other * BLOCK] for one, other in pairwise(cuts)]


def write(image: Path, parts: list[bytes]) -> None:
    image.write_bytes(b"".join(part.ljust(-(-len(part) // BLOCK) * BLOCK, b"\0") for part in parts))


def carve_groups(image: Path, logs: list[list[bytes]]) -> tuple[Joins, list[set[int]]]:
    """Carve an image; give also of which logs, by number, the extents of each group are."""
    joins = Joins([carve(str(image), lambda _: None, DEFAULT_LIMIT)])
    data = image.read_bytes()
    log_of = {batch[17:HEADER]: number for number, log in enumerate(logs) for batch in log}

    def of(extent: Extent) -> int:
        return log_of[b"".join(data[one.position : one.end] for one in extent.pieces)[17:HEADER]]

    return joins, [{of(extent) for extent in group.extents} for group in joins.groups()]


@pytest.mark.parametrize("seed", [*range(SEED, SEED + _RUNS), 123])
def test_index_pages_join_pieces(seed: int, tmp_path: Path) -> None:
    """Of sizes that differ all are joined whose index lies there, over what is lost, too."""
    rng = random.Random(f"pages {seed}")
    image = tmp_path / "disk.img"
    least, most = rng.choice(((100, 3000), (2000, 6000), (700, 720), (1000, 1000)))
    kinds = [[rng.randint(least, most) for _ in range(400)] for _ in range(rng.randrange(2, 5))]
    has_twins = rng.random() < 0.2
    if has_twins:
        kinds[1] = kinds[0]
    logs = [a_log(rng, sizes[: rng.choice((300, 400))]) for sizes in kinds]
    has_index = [rng.random() < 0.8 for _ in logs]
    parts = [piece for log in logs for piece in pieces_of(rng, b"".join(log))]
    can_tell = most - least >= 1000 and not has_twins
    kept = [part for part in parts if rng.random() < 0.9 or not can_tell]
    for log, is_there in zip(logs, has_index, strict=True):
        appends = [1] * len(log)
        while rng.random() < 0.7:
            at = rng.randrange(len(appends) // 2)
            appends[at : at + 2] = [sum(appends[at : at + 2])]
        entries = index_of(log, appends, is_last=rng.random() < 0.5)
        kept += [entries + bytes(rng.choice((0, 9000)))] if is_there else []
    rng.shuffle(kept)
    write(image, kept)
    joins, groups = carve_groups(image, logs)
    assert all(len(group) == 1 for group in groups)
    assert all(group.bases <= {0} for group in joins.groups())
    if not can_tell:
        return
    large = [
        (group, of)
        for group, (of,) in zip(joins.groups(), groups, strict=True)
        if any(one.size_bytes > 20 * BLOCK for one in group.extents)
    ]
    for number, is_there in enumerate(has_index):
        of_log = [group for group, of in large if of == number]
        assert len(of_log) <= 1 or not is_there
        assert all(group.pages for group in of_log if INDEX in group.joined_by)


def alike(seed: int, size: int, count: int = 60) -> list[bytes]:
    """Make batches of `size` bytes each."""
    rng = random.Random(seed)
    batches = a_log(rng, [size - 70] * count)
    return a_log(rng, [2 * size - 70 - len(batches[0])] * count)


def test_index_page_joins_the_end_of_an_extent(tmp_path: Path) -> None:
    """The first page of the index is lost; the second begins far behind the extent's start."""
    rng = random.Random(1)
    log = a_log(rng, [rng.randint(2000, 6000) for _ in range(300)])
    data, index = b"".join(log), index_of(log, [1] * 300, is_last=True)
    image, cut = tmp_path / "disk.img", 150 * BLOCK
    write(image, [data[:cut], rng.randbytes(BLOCK), data[cut + 40 * BLOCK :], index[512:]])
    joins, _ = carve_groups(image, [log])
    (group,) = joins.groups()
    assert group.joined_by == [INDEX]
    assert group.bases == {0}
    start = -(-cut // BLOCK) * BLOCK + BLOCK + len(data) - cut - 40 * BLOCK
    start = -(-start // BLOCK) * BLOCK
    assert group.pages == [(str(image), Piece(start, start + len(index) - 512))]


@pytest.mark.parametrize("is_last", [False, True])
def test_index_page_locates_a_lost_segment_start(tmp_path: Path, *, is_last: bool) -> None:
    rng = random.Random(2)
    ends, log = [0], []
    for _ in range(60):
        records = [
            builders.record(number, 0, None, rng.randbytes(rng.randint(4100, 5000)))
            for number in range(rng.randint(1, 5))
        ]
        log.append(builders.batch(records, base_offset=700 + ends[-1]))
        ends.append(ends[-1] + len(records))
    starts = [sum(map(len, log[:number])) for number in range(60)]
    offsets = [end - 1 for end in ends[1:]] if is_last else ends[:-1]
    index = b"".join(map(partial(pack, ">ii"), offsets[1:], starts[1:]))
    image = tmp_path / "disk.img"
    write(image, [b"".join(log)[12 * BLOCK :], index])
    (group,) = Joins([carve(str(image), lambda _: None, DEFAULT_LIMIT)]).groups()
    assert group.bases == {700}
    assert group.extents[0].first > 700


def test_assembled_batches_are_not_damage(tmp_path: Path) -> None:
    """Right behind one log, where its batch is cut, lies the rest of another's of the same size."""
    one, other = (b"".join(alike(seed, 1070)) for seed in (1, 2))
    image, logs = tmp_path / "disk.img", [alike(1, 1070), alike(2, 1070)]
    rest = [other[5 * BLOCK :], bytes(BLOCK), other[: 5 * BLOCK], bytes(BLOCK)]
    write(image, [one[: 5 * BLOCK], *rest])
    joins, groups = carve_groups(image, logs)
    assert sorted(map(sorted, groups)) == [[0], [1]]
    assert [group.joined_by for group in joins.groups()] == [[], [BYTES]]


def test_continued_extent_is_joined_once(tmp_path: Path) -> None:
    """Of the other log only the end is there; a batch begins with a sector by chance."""
    logs = [alike(1, 1280), alike(2, 1280)]
    one, other = map(b"".join, logs)
    image = tmp_path / "disk.img"
    write(image, [one[:BLOCK], bytes(BLOCK), one[BLOCK:], bytes(BLOCK), other[BLOCK:]])
    joins, groups = carve_groups(image, logs)
    assert sorted(map(sorted, groups)) == [[0], [1]]
    assert [group.joined_by for group in joins.groups()] == [[BYTES], []]


def test_offset_in_another_block_than_its_checksum_is_doubtful(tmp_path: Path) -> None:
    log = alike(1, BLOCK - 9)
    image = tmp_path / "disk.img"
    for before, doubtful in ((bytes(BLOCK), [0]), (b"".join(log)[:BLOCK], [])):
        write(image, [before, b"".join(log)[BLOCK:]])
        joins, _ = carve_groups(image, [log])
        assert [group.extents[0].first for group in joins.groups() if group.is_doubtful] == doubtful
        (sure,) = (group for group in joins.groups() if not group.is_doubtful)
        assert (sure.extents[0].first, sure.end) == (2 if doubtful else 0, len(log))


def test_sector_at_the_end_of_a_read_is_searched(tmp_path: Path) -> None:
    log = alike(1, 5000, 300)
    index, checkpoint = index_of(log, [1] * 300, is_last=True), b"0\n1\norders 3 100\n"
    image = tmp_path / "disk.img"
    image.write_bytes(bytes(SECTOR) + checkpoint.ljust(SECTOR, b"\0") + index)
    for cut in (SECTOR + 3, 2 * SECTOR + 40):
        with NotingSource(str(image), lambda _: None) as source:
            for start, end in ((0, cut), (cut, image.stat().st_size)):
                source.read_into(bytearray(end - start), start, end - start)
            whole = 2 * SECTOR + len(index) // SECTOR * SECTOR
            assert source.index_pages == [Piece(2 * SECTOR, whole)]
            assert list(source.read_checkpoints()) == [("orders", 3)]
