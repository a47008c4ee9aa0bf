import struct
from pathlib import Path

import crc32c
import pytest
from generated import given, st

from kdump.storage.problems import Problem
from kdump.storage.producer_snapshot import (
    ProducerSnapshot,
    ProducerState,
    check_snapshot,
    sound_snapshot,
)

ONE = ProducerState(21, 0, 48, 210, 1, 1700040361911, -1, -1)
TWO = ProducerState(1026, 3, 0, 500, 0, 1700040361000, 4, 490)


def snapshot(*states: ProducerState, version: int = 1, count: int | None = None) -> bytes:
    body = struct.pack(">i", len(states) if count is None else count)
    body += b"".join(struct.pack(">qhiqiqiq", *state) for state in states)
    return struct.pack(">hI", version, crc32c.crc32c(body)) + body


def codes(data: bytes) -> list[str]:
    return [problem.code for problem in ProducerSnapshot(data).problems()]


def test_entries_are_read() -> None:
    found = ProducerSnapshot(snapshot(ONE, TWO))
    assert list(found) == [ONE, TWO]
    assert (found.version, found.declared, len(found)) == (1, 2, 2)
    assert found.crc == found.computed_crc
    assert found.problems() == []


def test_snapshot_without_producers_has_known_bytes() -> None:
    # As brokers write it after a clean start: version 1, the sum of four zero bytes, count 0.
    data = bytes.fromhex("0001 48674bc7 00000000")
    assert codes(data) == []
    assert list(ProducerSnapshot(data)) == []


@pytest.mark.parametrize("size", [0, 1, 9])
def test_truncated_header_is_a_problem(size: int) -> None:
    found = ProducerSnapshot(snapshot(ONE)[:size])
    assert list(found) == []
    (problem,) = found.problems()
    assert problem.code == "snapshot-size"
    assert (problem.expected, problem.actual) == (10, size)


def test_problems_and_their_positions() -> None:
    def problem(data: bytes) -> Problem:
        (found,) = ProducerSnapshot(data).problems()
        return found

    sound = snapshot(ONE, TWO)
    assert problem(sound[:9]) == Problem("snapshot-size", 0, 9, 10, 9)
    assert problem(snapshot(version=3)) == Problem("snapshot-version", 0, 2, 1, 3)
    assert problem(snapshot(count=-2)) == Problem("snapshot-size", 6, 4, 0, -2)
    assert problem(sound[:100]) == Problem("snapshot-size", 100, 2, 102, 100)
    assert problem(sound + b"abc") == Problem("snapshot-size", 102, 3, 102, 105)
    crc = struct.unpack_from(">I", sound, 2)[0]
    broken = sound[:2] + struct.pack(">I", crc ^ 1) + sound[6:]
    assert problem(broken) == Problem("snapshot-crc", 2, 4, crc, crc ^ 1)


def test_sound_snapshot_has_no_problem(tmp_path: Path) -> None:
    path = tmp_path / f"{7:020}.snapshot"
    assert sound_snapshot(str(path)) is None
    path.write_bytes(snapshot(ONE))
    found = sound_snapshot(str(path))
    assert found is not None
    assert list(found) == [ONE]
    path.write_bytes(snapshot(ONE) + b"x")
    assert sound_snapshot(str(path)) is None


def test_truncated_snapshot_keeps_complete_entries() -> None:
    found = ProducerSnapshot(snapshot(ONE, TWO)[:-1])
    assert list(found) == [ONE]
    (problem,) = found.problems()
    assert problem[:3] == ("snapshot-size", 101, 1)
    assert (problem.expected, problem.actual) == (102, 101)


def test_changed_byte_is_a_problem() -> None:
    data = bytearray(snapshot(ONE, TWO))
    data[40] ^= 0xFF
    found = ProducerSnapshot(bytes(data))
    (problem,) = found.problems()
    assert problem[:3] == ("snapshot-crc", 2, 4)
    assert (problem.expected, problem.actual) == (found.computed_crc, found.crc)
    assert len(list(found)) == 2  # still shown


def test_unknown_version_is_a_problem() -> None:
    assert codes(snapshot(ONE, version=2)) == ["snapshot-version"]
    # The version lies outside the sum: where that is right, the entries are what they were.
    assert list(ProducerSnapshot(snapshot(ONE, version=2))) == [ONE]
    data = snapshot(ONE, version=2)[:-1] + b"\0"
    assert list(ProducerSnapshot(data)) == []
    assert codes(data) == ["snapshot-version"]


def test_count_beyond_the_file_is_a_problem() -> None:
    for count in (2, 2**31 - 1):
        found = ProducerSnapshot(snapshot(ONE, count=count))
        assert list(found) == [ONE]
        assert codes(found.data) == ["snapshot-size"]


def test_negative_count_is_a_problem() -> None:
    assert codes(snapshot(ONE, count=-1)) == ["snapshot-size"]
    assert list(ProducerSnapshot(snapshot(ONE, count=-1))) == []


def test_bytes_after_the_entries() -> None:
    assert codes(snapshot(ONE, TWO, count=1)) == ["snapshot-size"]


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_survived(data: bytes, headed: bool) -> None:
    found = ProducerSnapshot(b"\0\1" + data if headed else data)
    assert len(list(found)) == len(found)
    assert len(found.problems()) <= 1


def test_only_the_header_of_a_large_noise_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / f"{5:020}.snapshot"
    path.write_bytes(b"\x00\x02" + bytes(9 << 20))
    found = check_snapshot(str(path))
    assert len(found.data) == 10
    assert found.problems() == ProducerSnapshot(path.read_bytes()).problems()
    assert sound_snapshot(str(path)) is None


def test_large_plausible_snapshot_is_read(tmp_path: Path) -> None:
    path = tmp_path / f"{5:020}.snapshot"
    path.write_bytes(snapshot(*[ONE] * 200_000))
    assert path.stat().st_size > 8 << 20
    assert len(check_snapshot(str(path))) == 200_000
    with path.open("r+b") as file:
        file.seek(5 << 20)
        file.write(b"\xff" * 4)
    assert [problem.code for problem in check_snapshot(str(path)).problems()] == ["snapshot-crc"]
