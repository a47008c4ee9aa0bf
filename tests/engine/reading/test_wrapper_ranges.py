"""Ranges over wrappers that are said to end, or to be written, before what is inside (F12)."""

from collections.abc import Sequence
from pathlib import Path

import builders
import pytest
from dumped import run_dump

from kdump.engine.reading.options import DumpOptions
from kdump.engine.salvage.options import SalvageOptions
from kdump.engine.salvage.run import salvage
from kdump.engine.work.splits import plan
from kdump.findings.rows import Row

TIME = 1_400_000_000_000


def wrap(outer: int, offsets: Sequence[int], magic: int = 0) -> bytes:
    """A wrapper with absolute offsets inside; the wrapper's time is that of its first message."""
    first = offsets[0] if magic else 0
    inner = [
        builders.message(at - first, value=b"v%d" % at, magic=magic, timestamp=TIME + at)
        for at in offsets
    ]
    return builders.wrapper(inner, outer, magic=magic, timestamp=TIME + offsets[0])


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Wrappers with the smallest offset inside, in two segments named by these."""
    directory = tmp_path / "t-0"
    directory.mkdir()
    first = wrap(0, [0, 1, 2]) + wrap(3, [3, 4, 5])
    (directory / "00000000000000000000.log").write_bytes(first)
    (directory / "00000000000000000000.index").write_bytes(
        (3).to_bytes(4, "big") + len(wrap(0, [0, 1, 2])).to_bytes(4, "big")
    )
    (directory / "00000000000000000004.log").write_bytes(
        wrap(6, [6, 7, 8]) + builders.message(9, magic=0)
    )
    return directory


def list_offsets(path: Path, **options: int | None) -> list[int]:
    return [row["offset"] for row in run_dump(path, **options)[0] if row["row"] == "record"]


@pytest.mark.parametrize(
    ("low", "high"), [(0, 3), (1, 2), (3, 6), (4, 6), (5, 7), (4, None), (None, 5), (9, None)]
)
def test_inner_records_are_selected_by_their_own_offsets(
    log: Path, low: int | None, high: int | None
) -> None:
    wanted = list(range(low or 0, 10 if high is None else high))
    assert list_offsets(log, from_offset=low, to_offset=high) == wanted


def test_wrapper_with_a_late_end_does_not_stop_a_range(tmp_path: Path) -> None:
    big = [wrap(900, [0, 1, 2]), *(wrap(901 + n, [3 + n]) for n in range(10_000))]
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"".join(big))
    assert list_offsets(path, from_offset=8_000, to_offset=8_002) == [8_000, 8_001]
    assert list_offsets(path, to_offset=9_000) == list(range(9_000))


def test_wrappers_with_records_in_the_range_are_selected(log: Path) -> None:
    rows = run_dump(log, mode="batches", from_offset=4, to_offset=6)[0]
    assert [row["last_offset"] for row in rows] == [3]
    assert [one.paths[0][-6:] for one in plan([str(log)], DumpOptions(from_offset=6))] == ["04.log"]


def test_inner_records_are_selected_by_their_own_timestamps(tmp_path: Path) -> None:
    path = tmp_path / "t-0" / "00000000000000000000.log"
    path.parent.mkdir()
    path.write_bytes(wrap(2, [0, 1, 2], 1) + wrap(5, [3, 4, 5], 1) + wrap(8, [6, 7, 8], 1))
    (path.parent / "00000000000000000009.log").write_bytes(b"")
    claim = (TIME + 3).to_bytes(8, "big") + (5).to_bytes(4, "big")
    path.with_suffix(".timeindex").write_bytes(claim)
    assert list_offsets(path.parent, from_time_ms=TIME + 5) == [5, 6, 7, 8]
    assert list_offsets(path.parent, from_time_ms=TIME + 2, to_time_ms=TIME + 4) == [2, 3]
    assert list_offsets(path.parent, from_time_ms=TIME + 9) == []


def test_salvage_keeps_wrappers_and_selects_by_inner_offsets(log: Path) -> None:
    def taken(low: int | None, high: int | None) -> tuple[object, ...]:
        options = SalvageOptions(from_offset=low, to_offset=high, topic_configs=False)
        (row,) = (one for one in salvage([str(log)], options) if isinstance(one, Row))
        names = ("first_offset", "last_offset", "records_count", "lost")
        return tuple(row.fields[name] for name in names)

    assert taken(None, None) == (0, 9, 10, [])
    assert taken(4, 6) == (3, 5, 3, [])
    assert taken(6, None) == (6, 9, 4, [])


def test_only_wrappers_are_opened_for_what_follows_them(tmp_path: Path) -> None:
    """The header of a record batch proves its last offset; what does not open is not asked."""
    for base in (0, 3):
        broken = builders.batch(
            [], base_offset=base, records_count=3, attributes=builders.ZSTD, payload=b"none"
        )
        (tmp_path / f"{base:020}.log").write_bytes(broken)
    assert [one.paths[0][-6:] for one in plan([str(tmp_path)], DumpOptions(from_offset=4))] == [
        "03.log"
    ]
