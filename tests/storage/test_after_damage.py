"""The search behind damage loses no sound entry, whatever the damage: held against brute force."""

import random
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import builders
import pytest
from long_runs import SEED, how_many

from kdump.kernels import columns as c
from kdump.record.frames import Gap
from kdump.storage.file_records import FileRecords
from kdump.storage.source import Source

COUNT = how_many(60, 1000)


class MadeLog(NamedTuple):
    """A log: its bytes, and where its entries lie."""

    data: bytes
    starts: list[int]

    def entries(self) -> Iterator[tuple[int, bytes]]:
        for start, end in zip(self.starts, [*self.starts[1:], len(self.data)], strict=True):
            yield start, self.data[start:end]


def name_of(base: int) -> str:
    return f"{base:020}.log"


# Logs --------------------------------------------------------------------------------------------


def stored(plain: bytes) -> bytes:
    """A gzip stream that holds its text as it is: messages in it look like entries."""
    packer = zlib.compressobj(0, zlib.DEFLATED, 31)
    return packer.compress(plain) + packer.flush()


def make(rng: random.Random) -> tuple[int, MadeLog]:
    """Make a log of one format or of several, with or without holes in its offsets."""
    kinds = rng.choice((("v2",), ("v2",), ("zip2",), ("v0",), ("v1",), ("wrap",), ("v1", "v2")))
    base = rng.choice((0, 0, 7, 10_000, 1 << 33))
    holes = rng.random() < 0.3
    single = rng.random() < 0.3
    size = rng.choice((0, 5, 40, 400))
    offset = base
    parts: list[bytes] = []
    for _ in range(rng.choice((3, 20, 60))):
        if holes:
            offset += rng.choice((0, 0, 1, 5, 300))
        count = 1 if single else rng.randint(1, 9)
        kind = rng.choice(kinds)
        values = [rng.randbytes(rng.randint(0, size)) for _ in range(count)]
        if kind == "v2" or kind == "zip2":
            records = [builders.record(n, value=value) for n, value in enumerate(values)]
            zipped = kind == "zip2"
            parts.append(
                builders.batch(
                    records,
                    base_offset=offset,
                    attributes=builders.GZIP if zipped else 0,
                    compress=builders.gzip_bytes if zipped else None,
                )
            )
        elif kind == "wrap":
            magic = rng.randrange(2)
            first = 0 if magic else offset
            inner = [
                builders.message(first + n, value=value, magic=magic)
                for n, value in enumerate(values)
            ]
            pack = rng.choice((builders.gzip_bytes, stored))
            parts.append(builders.wrapper(inner, offset + count - 1, magic=magic, compress=pack))
        else:
            magic = int(kind[1])
            for n, value in enumerate(values):
                parts.append(builders.message(offset + n, value=value, magic=magic))
        offset += count
    starts = [0]
    for part in parts[:-1]:
        starts.append(starts[-1] + len(part))
    return base, MadeLog(b"".join(parts), starts)


# Damage ------------------------------------------------------------------------------------------


def flips(rng: random.Random, made: MadeLog, every: int) -> bytes:
    data = bytearray(made.data)
    for number, (start, entry) in enumerate(made.entries()):
        if number % every == 0:
            data[start + rng.randrange(len(entry))] ^= 1 << rng.randrange(8)
    return bytes(data)


def lengths(rng: random.Random, made: MadeLog, every: int) -> bytes:
    data = bytearray(made.data)
    for number, start in enumerate(made.starts):
        if number % every == 0:
            data[start + 8 + rng.randrange(4)] ^= 1 << rng.randrange(8)
    return bytes(data)


def in_a_row(rng: random.Random, made: MadeLog) -> bytes:
    data = bytearray(made.data)
    first = rng.randrange(len(made.starts))
    entries = list(made.entries())[first : first + rng.randint(1, 40)]
    for start, entry in entries:
        data[start + rng.randrange(16, len(entry))] ^= 1 << rng.randrange(8)
    return bytes(data)


def over(rng: random.Random, made: MadeLog, what: Callable[[int], bytes]) -> bytes:
    data = made.data
    size = min(rng.choice((1, 8, 20, 61, 200, 512, 4096)), len(data))
    at = rng.randrange(len(data) - size + 1)
    if rng.random() < 0.5:
        at -= at % 512
    return data[:at] + what(size) + data[at + size :]


def page(rng: random.Random, made: MadeLog) -> bytes:
    size = min(rng.choice((200, 512, 4096)), len(made.data) // 2)
    start = rng.randrange(len(made.data) - size + 1)
    return over(rng, made, lambda wanted: made.data[start : start + wanted].ljust(wanted, b"\0"))


def damage(rng: random.Random, made: MadeLog) -> tuple[bytes, list[int]]:
    """Break a log; return it and where each entry would start now, -1 for one that is gone."""
    how = rng.randrange(9)
    if how == 0:
        broken = flips(rng, made, 1)
    elif how == 1:
        broken = flips(rng, made, rng.choice((2, 3, 7)))
    elif how == 2:
        broken = lengths(rng, made, 2)
    elif how == 3:
        broken = lengths(rng, made, rng.choice((1, 3)))
    elif how == 4:
        broken = in_a_row(rng, made)
    elif how == 5:
        broken = over(rng, made, rng.randbytes)
    elif how == 6:
        broken = over(rng, made, bytes)
    elif how == 7:
        broken = page(rng, made)
    else:
        size = min(rng.choice((1, 9, 61, 300, 4096)), len(made.data) - 1)
        at = rng.randrange(len(made.data) - size)
        broken = made.data[:at] + made.data[at + size :]
        starts = [start if start < at else start - size for start in made.starts]
        return broken, [start if start >= 0 else -1 for start in starts]
    if rng.random() < 0.3:
        broken = over(rng, MadeLog(broken, made.starts), rng.randbytes)
    return broken, made.starts


# What is right ------------------------------------------------------------------------------------


def valid_at(data: bytes, at: int) -> int:
    """Return the size of the entry whose sum is right at a place, or 0: nothing else is asked."""
    if at + 26 > len(data):
        return 0
    size = 12 + struct.unpack_from(">i", data, at + 8)[0]
    if size < 26 or at + size > len(data):
        return 0
    if 2 <= data[at + 16] < 128:  # the magic byte is under no sum of a batch
        right = size >= 61 and struct.unpack_from(">I", data, at + 17)[0] == builders.crc32c(
            data[at + 21 : at + size]
        )
    else:
        right = struct.unpack_from(">I", data, at + 12)[0] == zlib.crc32(data[at + 16 : at + size])
    return size if right else 0


def walked(path: Path) -> tuple[dict[int, int], list[Gap]]:
    """Return the entries of a walk, their sizes by position, and the gaps."""
    found: dict[int, int] = {}
    gaps: list[Gap] = []
    with Source(path) as source:
        for item in FileRecords(source).walk():
            if isinstance(item, Gap):
                gaps.append(item)
                continue
            for row in item.batches.rows():
                found[row[c.B_POSITION]] = row[c.B_SIZE]
    return found, gaps


def check(path: Path, seed: int) -> int:
    """Break a log and hold the walk against every byte position; return how many are sound."""
    rng = random.Random(seed)
    base, made = make(rng)
    broken, starts = damage(rng, made)
    path = path / name_of(base)
    path.write_bytes(broken)
    everywhere = {at: size for at in range(len(broken)) if (size := valid_at(broken, at))}
    whole = {
        start: len(entry)
        for start, (_, entry) in zip(starts, made.entries(), strict=True)
        if start >= 0 and broken[start : start + len(entry)] == entry
    }
    found, _ = walked(path)
    # Of a page written twice the first copy counts: what repeats its offsets does not rise. And
    # where bytes are gone, the first of the next entry may stand for the last of the one before.
    read = {broken[at : at + size] for at, size in found.items()}
    lost = [
        start
        for start, size in whole.items()
        if broken[start : start + size] not in read
        and not any(at < start < at + found[at] for at in found)
    ]
    assert not lost
    assert found.items() <= everywhere.items(), sorted(found.keys() - everywhere.keys())
    for at in found:
        inside = [
            start for start, size in whole.items() if start < at < start + size and start in found
        ]
        assert not inside, (at, inside)
    path.unlink()
    return len(whole)


def entry(offset: int, value: bytes = b"value") -> bytes:
    return builders.batch([builders.record(value=value)], base_offset=offset)


def test_any_number_of_claims_hides_no_sound_entry(tmp_path: Path) -> None:
    """Headers that are believed and claim up to megabytes, none right, then sound entries.

    What they claim comes to many times what an earlier search would sum before it gave up.
    """
    rng = random.Random(1)
    size = 1 << 19
    bait = b"".join(
        struct.pack(">qiIbBii", 2 + n, rng.randrange(1 << 12, size), 1, 0, 0, -1, 0)
        for n in range(size // 30)
    )
    behind = [entry(50_000 + n, rng.randbytes(size // 4)) for n in range(5)]
    path = tmp_path / name_of(0)
    path.write_bytes(entry(0) + bait + b"".join(behind))
    found, gaps = walked(path)
    assert len(found) == 6
    assert [(gap.reason, gap.to_end) for gap in gaps] == [("crc-mismatch", False)]


def test_offsets_out_of_range_count_if_no_others_follow(
    tmp_path: Path,
) -> None:
    """Brokers before 1.1 wrote such segments, and a file may be named wrongly."""
    far = 1 << 33
    wild, path = entry(far), tmp_path / name_of(0)
    path.write_bytes(entry(0) + b"x" * 100 + wild + b"x" * 100 + entry(5))
    assert list(walked(path)[0]) == [0, len(entry(0)) + 200 + len(wild)]
    path.write_bytes(entry(0) + b"x" * 100 + wild + b"x" * 100 + entry(far + 1))
    assert len(walked(path)[0]) == 3
    named_wrongly = tmp_path / name_of(5000)
    named_wrongly.write_bytes(b"x" * 100 + entry(0) + b"x" * 100 + entry(1))
    assert len(walked(named_wrongly)[0]) == 2
    mirrored = tmp_path / "copy.bin"
    mirrored.write_bytes(b"x" * 100 + entry(far) + b"x" * 100 + entry(far + 1))
    assert len(walked(mirrored)[0]) == 2


def test_distrusted_entry_is_trusted_at_the_second_search(tmp_path: Path) -> None:
    """An offset out of all bounds stands where no other follows, as far as was known then.

    It casts doubt on those before it, so that what lies below them may follow: the next such one
    does not stand where that does.
    """
    far = 1 << 40
    path = tmp_path / name_of(0)
    sound = b"".join(entry(offset) for offset in (127, 128, 129))
    parts = [sound, b"x" * 70, entry(far), b"x" * 70, entry(far + 5), b"x" * 70, entry(115)]
    path.write_bytes(b"".join(parts))
    starts = [len(b"".join(parts[:number])) for number in (0, 2, 6)]
    size = len(entry(0))
    assert list(walked(path)[0]) == [0, size, 2 * size, *starts[1:]]


def test_last_offset_of_a_batch_counts_like_its_first(tmp_path: Path) -> None:
    record = builders.record()
    wild = builders.batch([record], base_offset=5, last_offset_delta=(1 << 31) - 1)
    path = tmp_path / name_of(0)
    path.write_bytes(entry(0) + b"x" * 100 + wild + b"x" * 100 + entry(7))
    assert list(walked(path)[0]) == [0, len(entry(0)) + 200 + len(wild)]


def test_many_wild_offsets_do_not_restart_the_search(tmp_path: Path) -> None:
    """Each of them is believed only where no other follows: that is found out once."""
    path = tmp_path / name_of(0)
    parts = [entry(0), *(b"x" * 70 + entry(1 << 40 | n) for n in range(3000))]
    path.write_bytes(b"".join(parts))
    assert len(walked(path)[0]) == 3001


def test_missing_sound_entries_are_detected_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that is left of the file is searched for the first wild offset, not for each."""
    path = tmp_path / name_of(0)
    wild = (b"x" * 70 + entry(1 << 40 | n) for n in range(12))
    path.write_bytes(entry(0) + b"".join(wild) + b"x" * (1 << 20))
    read = 0
    read_into = Source.read_into

    def reading(source: Source, buffer: bytearray | memoryview, position: int, size: int) -> int:
        nonlocal read
        got = read_into(source, buffer, position, size)
        read += got
        return got

    monkeypatch.setattr(Source, "read_into", reading)
    found, gaps = walked(path)
    assert (len(found), len(gaps)) == (13, 13)
    assert read < 8 << 20


def test_log_inside_a_value_after_a_broken_entry(tmp_path: Path) -> None:
    inner = b"".join(entry(n) for n in range(3, 6))
    outer = bytearray(
        builders.batch([builders.record(n, value=inner) for n in range(4)], base_offset=2)
    )
    outer[-1] ^= 1
    path = tmp_path / name_of(0)
    path.write_bytes(entry(0) + entry(1) + bytes(outer) + entry(6))
    found, gaps = walked(path)
    assert len(found) == 3
    assert [gap.size_bytes for gap in gaps] == [len(outer)]


def framed(size: int, offset: int) -> bytes:
    """Give the header of an entry of that size, with a wrong checksum."""
    header = builders.batch([], base_offset=offset, records_count=1, size=size - 12, crc=1)
    assert len(header) == 61
    return header


def relength(data: bytes, size: int) -> bytes:
    """Write another size into an entry: the checksum does not cover it."""
    return data[:8] + struct.pack(">i", size - 12) + data[12:]


def test_wrong_checksum_does_not_prove_the_entry_end(
    tmp_path: Path,
) -> None:
    """A broken length leads to it, inside the value of a sound entry; nothing follows it."""
    trap = framed(61 + 20, 2)
    sound = entry(2, b"v" * 50 + trap + b"w" * 200)
    one = entry(1)
    broken = relength(one, len(one) + sound.index(trap))
    path = tmp_path / name_of(0)
    path.write_bytes(entry(0) + broken + sound + entry(3))
    found, gaps = walked(path)
    starts = [0, len(entry(0)) + len(one), len(entry(0)) + len(one) + len(sound)]
    assert list(found) == starts
    assert [(gap.position, gap.size_bytes) for gap in gaps] == [(len(entry(0)), len(one))]


@pytest.mark.parametrize("behind", [b"", entry(9)])
def test_adjacent_broken_entries_are_separate_gaps(tmp_path: Path, behind: bytes) -> None:
    """Their headers lead from one to the next, to a sound entry or the end of the file."""
    parts = [entry(n, b"v" * n) for n in range(9)]
    broken = [part[:-1] + b"x" for part in parts[1:]]
    path = tmp_path / name_of(0)
    path.write_bytes(b"".join([parts[0], *broken, behind]))
    found, gaps = walked(path)
    assert len(found) == (2 if behind else 1)
    assert [gap.size_bytes for gap in gaps] == [len(part) for part in broken]
    assert [gap.to_end for gap in gaps] == [False] * 7 + [not behind]
    assert [gap.data for gap in gaps] == broken
    assert {gap.reason for gap in gaps} == {"crc-mismatch"}


def test_chain_of_headers_is_sufficient_proof(tmp_path: Path) -> None:
    """Even where the last of them leads astray."""
    parts = [entry(n) for n in range(80)]
    broken = [part[:-1] + b"x" for part in parts[1:]]
    broken[-1] = relength(broken[-1], 1 << 20)
    path = tmp_path / name_of(0)
    path.write_bytes(b"".join([parts[0], *broken]))
    found, gaps = walked(path)
    assert list(found) == [0]
    assert [gap.size_bytes for gap in gaps[:15]] == [len(parts[0])] * 15


@pytest.mark.parametrize("lower", [False, True])
def test_entry_covered_by_a_broken_length_is_found(tmp_path: Path, lower: bool) -> None:
    """The claimed end is that of a sound entry further on; offsets between have to fit."""
    one, two, three = entry(4), entry(3 if lower else 5), entry(6)
    broken = relength(one, len(one) + len(two))
    path = tmp_path / name_of(0)
    path.write_bytes(entry(3) + broken + two + three)
    found, gaps = walked(path)
    start = len(entry(3))
    covered = len(one) + (len(two) if lower else 0)
    assert [(gap.position, gap.size_bytes) for gap in gaps] == [(start, covered)]
    assert len(found) == (2 if lower else 3)


@pytest.mark.parametrize("behind", [b"", entry(0), entry(1 << 40)])
def test_entry_covered_by_a_broken_length(tmp_path: Path, behind: bytes) -> None:
    """The end of the file, or an entry that cannot be where it is."""
    one, two = entry(4), entry(5)
    path = tmp_path / name_of(0)
    before = entry(1) + entry(2) + entry(3)
    path.write_bytes(before + relength(one, len(one) + len(two)) + two + behind)
    found, gaps = walked(path)
    assert [(gap.position, gap.size_bytes) for gap in gaps] == [(len(before), len(one))]
    assert len(found) == (5 if behind else 4)


@pytest.mark.parametrize("broken", [entry(2)[:-1] + b"x", b"x" * 100])
def test_misplaced_block_is_accepted_after_damage(tmp_path: Path, broken: bytes) -> None:
    """Its offsets are those that the damage left out; others as low are not believed."""
    path = tmp_path / name_of(0)
    before = entry(0) + entry(1) + broken + entry(50) + entry(51) + entry(52)
    path.write_bytes(before + b"x" * 50 + entry(10) + b"x" * 50 + entry(60))
    found, _ = walked(path)
    assert list(found)[-2:] == [len(before) + 50, len(before) + 100 + len(entry(10))]
    path.write_bytes(before + b"x" * 50 + entry(1) + b"x" * 50 + entry(60))
    found, _ = walked(path)
    assert len(found) == 6


def test_impossibly_small_entries_are_skipped(tmp_path: Path) -> None:
    small = relength(entry(1), 30)[:30]
    path = tmp_path / name_of(0)
    path.write_bytes(entry(0) + small + entry(2))
    found, gaps = walked(path)
    assert list(found) == [0, len(entry(0)) + 30]
    assert [(gap.reason, gap.size_bytes, gap.data) for gap in gaps] == [
        ("batch-too-small", 30, small)
    ]


def test_gap_contains_the_header_read(tmp_path: Path) -> None:
    broken = entry(1)[:-1] + b"x"
    path = tmp_path / name_of(0)
    path.write_bytes(entry(0) + broken + b"\0\0" + entry(2) + bytes(100))
    found, gaps = walked(path)
    assert list(found) == [0, len(entry(0)) + len(broken) + 2]
    first, last = gaps
    assert first[:3] == (len(entry(0)), len(broken) + 2, "crc-mismatch")
    assert first.header is not None
    assert (first.header.known_offset(0), first.header.size_bytes(0)) == (1, len(broken))
    assert (first.data, first.to_end) == (broken, False)
    zeros = len(entry(0)) + len(broken) + 2 + len(entry(2))
    assert last == Gap(zeros, 100, "zeros", None, b"", True)


def test_broken_entries_in_memory_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / name_of(0)
    path.write_bytes(b"".join(entry(n)[:-1] + b"x" for n in range(1002)))
    _, gaps = walked(path)
    assert [bool(gap.data) for gap in gaps] == [True] * 1000 + [False] * 2


@pytest.mark.parametrize("between", [b"", entry(1)])
@pytest.mark.parametrize(
    "before",
    [
        entry(1)[:-1] + b"x",
        b"\0" * 8 + b"\xff" * 20,
        relength(entry(1), 1 << 26),
        relength(entry(1), 30)[:30],
    ],
)
def test_entries_after_damage_are_verified_before_buffering(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bytes, between: bytes
) -> None:
    """A file that is broken once may claim any size, many times over."""
    large = entry(2, bytes(2 << 20))
    path = tmp_path / name_of(0)
    path.write_bytes(entry(0) + before + between + large[:-1] + b"x" + entry(3))
    most = 0
    read_into = Source.read_into

    def reading(source: Source, buffer: bytearray | memoryview, position: int, size: int) -> int:
        nonlocal most
        most = max(most, len(buffer))
        return read_into(source, buffer, position, size)

    monkeypatch.setattr(Source, "read_into", reading)
    found, gaps = walked(path)
    assert len(found) == (3 if between else 2)
    assert sum(gap.size_bytes for gap in gaps) == len(before) + len(large)
    assert most <= 1 << 18


@pytest.mark.fuzz
def test_every_sound_entry_is_found(tmp_path: Path) -> None:
    sound = 0
    for seed in range(SEED, SEED + COUNT):
        try:
            sound += check(tmp_path, seed)
        except AssertionError as error:
            error.add_note(f"KDUMP_FUZZ_SEED={seed} KDUMP_FUZZ_COUNT=1")
            raise
    assert sound
