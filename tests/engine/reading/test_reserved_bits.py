"""Attribute bits without a meaning: a note, once for each segment, in verify and in dump."""

from pathlib import Path

import builders
import pytest
from each import each
from producing import codes
from segments import START_MS, batch, batches, check_logs, run_checks, write_partition

from kdump.engine.dump.run import dump
from kdump.engine.reading.options import DumpOptions
from kdump.findings.finding import Finding


def message(attributes: int, magic: int) -> bytes:
    return builders.message(6, magic=magic, attributes=attributes, timestamp=START_MS + 60)


@each(
    ("one", "attributes", "meant"),
    [
        (batch(6, attributes=0x80), 0x80, 0),
        (batch(6, attributes=0x8010, producer_id=1, producer_epoch=0), 0x8010, 0x10),
        (message(0x18, 1), 0x18, 0x08),
        (message(0x08, 0), 0x08, 0),
    ],
)
def test_first_reserved_bit_of_a_segment_is_a_note(
    tmp_path: Path, one: bytes, attributes: int, meant: int
) -> None:
    before = batches(0, 6)
    directory = write_partition(tmp_path, {0: [*before, one]})
    (found,) = check_logs(directory)
    assert (found.code, found.severity.value) == ("attributes-reserved", "note")
    assert (found.position, found.expected, found.actual) == (
        len(b"".join(before)),
        meant,
        attributes,
    )
    dumped = [item for item in dump([str(directory)], DumpOptions()) if isinstance(item, Finding)]
    assert dumped == [found]


def test_many_reserved_bits_have_one_note(tmp_path: Path) -> None:
    parts = [batch(base, attributes=0x100 if base > 3 else 0) for base in range(0, 30, 3)]
    directory = write_partition(tmp_path, {0: parts, 30: [batch(30, attributes=0x80)]})
    many, single = run_checks(directory)
    assert "the same in 8 batches" in many.message
    assert (many.segment, single.segment) == (0, 30)


@pytest.mark.parametrize("attributes", [0x08, 0x40, 0x10 | 0x08])
def test_known_bits_are_ignored(tmp_path: Path, attributes: int) -> None:
    members = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0} if attributes & 16 else {}
    assert "attributes-reserved" not in codes(
        write_partition(tmp_path, {0: [batch(0, attributes=attributes, **members)]})
    )
