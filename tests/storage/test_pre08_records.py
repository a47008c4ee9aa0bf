"""pre08_records: entries and gaps of a `.kafka` file are all of it, and the search is bounded."""

import random
import time
from pathlib import Path

import pytest
from builders import pre08_message, pre08_wrapper
from damage import flip_bit, put

from kdump import kernels
from kdump.storage import pre08_records
from kdump.storage.pre08_records import Pre08Entry, Pre08Gap, Pre08Records
from kdump.storage.source import Source

MIB = 1 << 20
ENTRIES = [pre08_message(b"number %d" % number, magic=number % 3 and 1) for number in range(20)] + [
    pre08_wrapper([pre08_message(), pre08_message(b"more")])
]
STARTS = [sum(map(len, ENTRIES[:number])) for number in range(len(ENTRIES) + 1)]
WHOLE = b"".join(ENTRIES)
Seen = list[tuple[int, int, str]]


def seen(path: Path, data: bytes, limit: int = MIB) -> Seen:
    """Give (position, size, why it is none or "") of all entries and gaps; they cover the file."""
    path.write_bytes(data)
    told: Seen = []
    end = 0
    with Source(path) as source:
        for item in Pre08Records(source, limit=limit).walk():
            assert item.position == end
            assert item.size_bytes > 0
            end += item.size_bytes
            if isinstance(item, Pre08Entry):
                if item.data is not None:
                    first = item.entry.position
                    held = item.data[first : first + item.size_bytes]
                    assert held == data[item.position : item.position + item.size_bytes]
                told.append((item.position, item.size_bytes, ""))
            else:
                assert item.to_end == (end == len(data))
                told.append((item.position, item.size_bytes, item.reason))
    assert end == len(data)
    return told


def gaps(told: Seen) -> Seen:
    return [item for item in told if item[2]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "00000000000000000000.kafka"


def test_sound_file_yields_its_messages(path: Path) -> None:
    told = seen(path, WHOLE)
    assert [position for position, _, _ in told] == STARTS[:-1]
    assert not gaps(told)
    assert seen(path, b"") == []


def test_flipped_payload_loses_one_entry(path: Path) -> None:
    broken = flip_bit(WHOLE, STARTS[4] - 1, 2)
    assert gaps(seen(path, broken)) == [(STARTS[3], len(ENTRIES[3]), "crc-mismatch")]
    last = flip_bit(WHOLE, len(WHOLE) - 1, 2)
    assert gaps(seen(path, last)) == [(STARTS[-2], len(ENTRIES[-1]), "crc-mismatch")]


@pytest.mark.parametrize(
    ("length", "reason"),
    [
        (4, "length-too-small"),
        (-1, "length-too-small"),
        (1 << 30, "cut-short"),
        (30, "crc-mismatch"),
        (6, "crc-mismatch"),
    ],
)
def test_wrong_length_loses_one_entry(path: Path, length: int, reason: str) -> None:
    broken = put(WHOLE, STARTS[4], length.to_bytes(4, "big", signed=True))
    assert gaps(seen(path, broken)) == [(STARTS[4], len(ENTRIES[4]), reason)]


def test_unknown_magic_loses_one_entry(path: Path) -> None:
    assert ENTRIES[4][4] == 1
    broken = put(WHOLE, STARTS[4] + 4, b"\x07")
    assert gaps(seen(path, broken)) == [(STARTS[4], len(ENTRIES[4]), "magic-unknown")]


def test_tails(path: Path) -> None:
    end = len(WHOLE)
    assert gaps(seen(path, WHOLE + bytes(100))) == [(end, 100, "zeros")]
    assert gaps(seen(path, WHOLE + bytes(2))) == [(end, 2, "short-tail")]
    assert gaps(seen(path, WHOLE + b"\0\0\0\3abc")) == [(end, 7, "length-too-small")]
    torn = gaps(seen(path, WHOLE[:-3]))
    assert torn == [(STARTS[-2], len(ENTRIES[-1]) - 3, "cut-short")]


@pytest.mark.parametrize("behind", [b"", b"\0", ENTRIES[3]])
@pytest.mark.parametrize("size", [1, 3, 4, 5, 40, 60, 400])
def test_entry_after_garbage_is_found_at_the_end_of_the_file(
    path: Path, size: int, behind: bytes
) -> None:
    """A payload shorter than its checksum may be there by chance, unless the file ends with it."""
    entry = pre08_message(b"x" * size)
    told = seen(path, ENTRIES[0] + b"\xff" * 20 + entry + behind)
    start = len(ENTRIES[0]) + 20
    found = (start, len(entry), "") in told
    assert found == (size >= 4 or len(behind) != 1)


def test_lost_bytes_lose_their_entry(path: Path) -> None:
    broken = WHOLE[: STARTS[5] + 7] + WHOLE[STARTS[5] + 9 :]
    told = seen(path, broken)
    assert gaps(told) == [(STARTS[5], len(ENTRIES[5]) - 2, "crc-mismatch")]
    assert len(told) == len(ENTRIES)


def test_zeros_are_not_read_as_an_empty_message(path: Path) -> None:
    # Sound in itself: magic 0, no payload, whose sum is 0. What follows it is not.
    like_one = bytes(3) + b"\x05" + bytes(5)
    junk = b"\xff" * 5 + like_one + b"\xee" * 30
    assert gaps(seen(path, ENTRIES[0] + junk + WHOLE)) == [
        (len(ENTRIES[0]), len(junk), "length-too-small")
    ]
    empty = pre08_message(b"")
    assert gaps(seen(path, ENTRIES[0] + b"\xff" * 20 + empty * 3 + WHOLE)) == [
        (len(ENTRIES[0]), 20, "length-too-small")
    ]


def test_entry_above_the_limit_is_checksummed_in_pieces(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pre08_records, "BLOCK_BYTES", 1000)
    large = pre08_message(random.Random(1).randbytes(5000))
    data = ENTRIES[0] + large + WHOLE
    at = len(ENTRIES[0])
    path.write_bytes(data)
    with Source(path) as source:
        items = list(Pre08Records(source, limit=2000).walk())
    assert isinstance(items[1], Pre08Entry)
    assert (items[1].position, items[1].size_bytes, items[1].data) == (at, len(large), None)
    assert items[1].entry.crc_valid
    assert not any(isinstance(item, Pre08Gap) for item in items)
    broken = flip_bit(data, at + 3000, 1)
    assert gaps(seen(path, broken, 2000)) == [(at, len(large), "crc-mismatch")]
    assert not gaps(seen(path, data, 6000))


def test_windows_of_any_size_see_the_same(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = flip_bit(WHOLE, STARTS[7] + 1, 0)
    broken = broken[: STARTS[12]] + b"\xff" * 40 + broken[STARTS[12] :]
    expected = seen(path, broken)
    for size in (11, 64, 100):
        monkeypatch.setattr(pre08_records, "BLOCK_BYTES", size)
        monkeypatch.setattr(pre08_records, "_SEARCH_BYTES", size)
        monkeypatch.setattr(pre08_records, "_FIRST_LOOK_BYTES", size)
        monkeypatch.setattr(Pre08Records, "_allowance", lambda _: MIB)
        assert seen(path, broken, 1) == expected


def test_shrinking_file_ends_early(path: Path) -> None:
    path.write_bytes(WHOLE)
    with Source(path) as source:
        path.write_bytes(WHOLE[: STARTS[8]])
        items = list(Pre08Records(source, limit=MIB).walk())
        assert source.shrank
    assert [item.position for item in items] == STARTS[:8]


def test_file_may_shrink_to_the_end_of_an_entry(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing lies behind it, not even a gap."""
    monkeypatch.setattr(pre08_records, "BLOCK_BYTES", STARTS[3])
    path.write_bytes(WHOLE)
    positions = []
    with Source(path) as source:
        for item in Pre08Records(source, limit=1).walk():
            assert isinstance(item, Pre08Entry)
            positions.append(item.position)
            if len(positions) == 3:
                path.write_bytes(WHOLE[: STARTS[3]])
        assert source.shrank
    assert positions == STARTS[:3]


HOSTILE = {
    "random": random.Random(2).randbytes(MIB),
    "zeros but the last": bytes(MIB - 1) + b"x",
    "ones": b"\xff" * MIB,
    "lengths everywhere": b"\0\1" * (MIB // 2),
    "small lengths": b"\xff" + b"\0\0\0\x09\0" * (MIB // 5),
    "small lengths and a codec": b"\xff" + b"\0\0\0\x10\1\0" * (MIB // 6),
    "entries and zeros": (ENTRIES[1] + bytes(5)) * (MIB // 30),
    "entries and lengths": (ENTRIES[1] + b"\0\0\0\x09\0") * (MIB // 30),
    "entries and large lengths": (ENTRIES[1] + b"\0\1\0\0\0") * (MIB // 30),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bytes_take_bounded_time(
    path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """And they are checksummed a bounded number of times.

    Eight times for what is believed to lead on, four times for what is not, and a little.
    """
    summed = 0
    crc32, sum_of = kernels.crc32, pre08_records.sum_of

    def small(data: bytes, start: int, end: int, running: int = 0) -> int:
        nonlocal summed
        summed += end - start
        return crc32(data, start, end, running)

    def large(source: Source, crc: object, start: int, end: int) -> int:
        nonlocal summed
        summed += end - start
        return sum_of(source, crc32, start, end)

    monkeypatch.setattr(pre08_records.kernels, "crc32", small)
    monkeypatch.setattr(pre08_records, "sum_of", large)
    data = HOSTILE[name][: MIB // 4]
    start = time.process_time()
    assert seen(path, data)
    assert time.process_time() - start < 3  # half a second on an idle machine
    assert summed <= 13 * len(data) + MIB


@pytest.mark.parametrize(
    ("allowance", "told_of"), [(MIB, ["length-too-small", ""]), (1000, ["search-given-up"])]
)
def test_expensive_search_is_abandoned(
    path: Path, monkeypatch: pytest.MonkeyPatch, allowance: int, told_of: list[str]
) -> None:
    """And that is said of all that is left."""
    monkeypatch.setattr(Pre08Records, "_allowance", lambda _: allowance)
    claims = b"\0\0\0\x04" + b"\0\0\0\x20\0\xff\xff" * 100
    told = seen(path, ENTRIES[0] + claims + ENTRIES[1])
    assert [reason for _, _, reason in told] == ["", *told_of]
    assert told[1][0] == len(ENTRIES[0])


def test_gap_bytes_are_classified(path: Path) -> None:
    broken = flip_bit(WHOLE, STARTS[4] - 1, 2)
    path.write_bytes(broken)
    with Source(path) as source:
        items = [*Pre08Records(source, limit=MIB).walk()]
    gap = items[3]
    assert isinstance(gap, Pre08Gap)
    assert gap.entry is not None
    assert gap.data is not None
    assert not gap.entry.crc_valid
    start = gap.entry.position
    held = bytes(gap.data[start : start + gap.entry.size_bytes])
    assert held == broken[STARTS[3] : STARTS[4]]


def test_walk_may_start_at_any_entry(path: Path) -> None:
    path.write_bytes(WHOLE)
    with Source(path) as source:
        records = Pre08Records(source, limit=MIB)
        assert [item.position for item in records.walk(STARTS[5])] == STARTS[5:-1]
        assert [item.position for item in records.walk(STARTS[3])] == STARTS[3:-1]
        assert [*records.walk(STARTS[-1])] == []


def test_entries_after_many_gaps_are_found(path: Path) -> None:
    data = (ENTRIES[1] + b"\0\0\0\x09\0") * 3000
    told = seen(path, data)
    assert len(told) - len(gaps(told)) == 3000


@pytest.mark.fuzz
def test_random_damage_is_survived(path: Path) -> None:
    rng = random.Random(23)
    for _ in range(300):
        broken = bytearray(WHOLE)
        for _ in range(rng.randint(1, 6)):
            at = rng.randrange(len(broken))
            what = rng.randrange(5)
            if what == 0:
                broken[at] ^= 1 << rng.randrange(8)
            elif what == 1:
                broken[at : at + 4] = rng.randbytes(4)
            elif what == 2:
                del broken[at : at + rng.randint(1, 40)]
            elif what == 3:
                broken[at:at] = rng.randbytes(rng.randint(1, 40))
            else:
                broken[at : at + 20] = bytes(len(broken[at : at + 20]))
            broken = broken or bytearray(1)
        seen(path, bytes(broken))
