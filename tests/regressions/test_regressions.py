"""Every file that once broke a reader, through every way of reading it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from each import each

from kdump.engine.dump.run import dump
from kdump.engine.reading.options import DumpOptions
from kdump.findings.finding import Finding
from kdump.findings.rows import RecordChunk

HERE = Path(__file__).parent
# What is found in each, and the offsets that come out.
EXPECTED = {
    "offset-flipped-up-then-damage-0": (
        ["offset-not-rising", "crc-mismatch"],
        [0, 1, 2, 3, 4, 5, *[6 + (1 << 22), 7 + (1 << 22)], *range(8, 12), *range(14, 40)],
    ),
    "broken-neighbours-0": (
        ["crc-mismatch", "crc-mismatch"],
        [*range(6), *range(10, 40)],
    ),
    "length-in-the-middle-0": (["batch-length"], [*range(6), *range(8, 40)]),
    "torn-relative-wrapper-0": (["records-undecodable"], None),
    "offset-flipped-up-before-damage-0": (
        ["crc-mismatch", "offset-not-rising"],
        [*range(6), 6 + (1 << 20), *range(9, 40)],
    ),
    "length-over-sound-batches-0": (["crc-mismatch"], [*range(5), *range(6, 40)]),
    "page-of-later-batches-0": (
        ["crc-mismatch", "batch-length", "offset-not-rising"],
        [*range(8), *range(25, 31), *range(15, 40)],
    ),
}


def test_every_directory_has_an_expectation() -> None:
    assert sorted(EXPECTED) == sorted(path.name for path in HERE.glob("*-0"))


@each("name", sorted(EXPECTED))
def test_findings_and_offsets_are_as_expected(name: str) -> None:
    items = list(_taken(dump([str(HERE / name)], DumpOptions())))
    codes, offsets = EXPECTED[name]
    assert [item.code for item in items if isinstance(item, Finding)] == codes
    seen = [item for item in items if isinstance(item, int)]
    if offsets is None:
        assert set(seen) <= {-1}  # nobody knows where relative offsets of a torn wrapper start
    else:
        assert seen == offsets


@each("mode", ["records", "batches", "hex"])
@each("name", sorted(EXPECTED))
def test_every_mode_terminates(name: str, mode: str) -> None:
    options = DumpOptions(mode=mode, deep=True, visible=mode == "records")
    assert list(_taken(dump([str(HERE / name)], options)))


def _taken(items: Iterable[object]) -> Iterator[object]:
    """Take records out of their chunks at once: the buffer behind them is used again."""
    for item in items:
        if isinstance(item, RecordChunk):
            yield from [record.offset for record in item.iter_records()]
        else:
            yield item
