"""Damage and open transactions that a lookup meets."""

from pathlib import Path

import builders
import pytest
from lookup_rows import SIZE, TIME, at_offset, batches, split, write_segment

from kdump.engine.find.options import FindOptions
from kdump.engine.find.run import find_offset, find_time
from kdump.findings.finding import Finding
from kdump.findings.rows import Row


def damage_partition(partition: Path, position: int, value: int) -> Path:
    path = partition / f"{0:020}.log"
    log = bytearray(path.read_bytes())
    log[position] = value
    path.write_bytes(log)
    return partition


@pytest.mark.parametrize("target", [2, 3])
def test_batch_that_stops_consumers_is_damage(partition: Path, target: int) -> None:
    """Brokers serve it, so the row stands."""
    path = damage_partition(partition, 2 * SIZE - 2, ord("w"))  # in the last value
    for asked in (0, 1, 4, 5, 10):
        assert split(find_offset([str(path)], asked, FindOptions()))[1] == []
    items = list(find_offset([str(path)], target, FindOptions()))
    (found,) = (item for item in items if isinstance(item, Finding) and item.position is not None)
    assert (found.code, found.severity.value) == ("crc-mismatch", "damage")
    assert (found.segment, found.position, found.next_offset) == (0, SIZE, 4)
    assert isinstance(items[-1], Row)
    assert items[-1].fields["offset"] == target


@pytest.mark.parametrize(
    ("magic", "code"), [(3, "magic-unknown"), (7, "magic-unknown"), (0x80, "crc-mismatch")]
)
def test_batch_of_an_impossible_magic_is_damage(partition: Path, magic: int, code: str) -> None:
    path = damage_partition(partition, SIZE + 16, magic)
    # From 4.1 on a lookup opens what looks like a wrapper, and fails itself.
    options = FindOptions(broker_version=(4, 0))
    assert split(find_offset([str(path)], 2, options))[1] == [code]
    assert split(find_offset([str(path)], 4, options))[1] == []


def test_lookup_of_4_1_fails_at_an_apparent_wrapper(partition: Path) -> None:
    path = damage_partition(partition, SIZE + 16, 0x80)
    assert "cannot be opened" in str(at_offset(path, 2)["error"])


def test_damage_before_the_record_is_reported(partition: Path) -> None:
    """Control batches and what was aborted are handed to a consumer as well."""
    log = builders.marker(1, base_offset=0, producer_id=7) + batches(1)
    write_segment(partition, 0, log[:70] + bytes([log[70] ^ 1]) + log[71:])
    assert split(find_offset([str(partition)], 0, FindOptions()))[1] == ["crc-mismatch"]
    assert split(find_offset([str(partition)], 1, FindOptions()))[1] == []


def test_lookups_report_a_blocking_open_transaction(partition: Path) -> None:
    opened = builders.batch(
        [builders.record(0), builders.record(1)],
        base_offset=16,
        base_timestamp=TIME + 16,
        max_timestamp=TIME + 16,
        producer_id=7,
        producer_epoch=2,
        base_sequence=0,
        attributes=builders.TRANSACTIONAL,
    )
    write_segment(partition, 14, batches(14) + opened)
    committed = FindOptions(isolation="read_committed")
    for find, target, told in (
        (find_offset, 14, False),
        (find_offset, 16, True),
        (find_time, TIME + 14, False),
        (find_time, TIME + 16, True),
        (find_time, -1, True),
    ):
        items = list(find([str(partition)], target, committed))
        notes = [item for item in items if isinstance(item, Finding) and item.offset == 16]
        assert [note.code for note in notes] == ["read-committed-stops"] * told, (find, target)
        assert isinstance(items[-1], Row)
        for note in notes:
            assert "Producer 7, epoch 2, has a transaction open since offset 16 (" in note.message
        everything = find([str(partition)], target, FindOptions())
        assert "read-committed-stops" not in split(everything)[1]


@pytest.mark.parametrize("digits", [19, 21])
@pytest.mark.parametrize("as_is", [False, True])
def test_log_that_brokers_cannot_open_is_not_served(
    partition: Path, digits: int, as_is: bool
) -> None:
    """A broker makes an empty log of the name that it would have given (as seen on 4.1.1)."""
    log = partition / f"{0:020}.log"
    log.rename(partition / f"{0:0{digits}}.log")
    rows, codes = split(find_offset([str(partition)], 2, FindOptions(as_is=as_is)))
    assert (rows[0]["segment"], rows[0]["offset"], codes) == (10, 10, ["log-name"])
    rows, codes = split(find_time([str(partition)], TIME + 1, FindOptions(as_is=as_is)))
    assert codes == ["log-name"]
    write_segment(partition, 0, batches(0))
    rows, codes = split(find_offset([str(partition)], 1, FindOptions(as_is=as_is)))
    assert (rows[0]["offset"], rows[0]["last_offset"], codes) == (1, 1, [])


@pytest.mark.parametrize("version", [(0, 9, 0), (0, 10, 1), (0, 10, 2)])
def test_torn_tail_starts_after_the_last_entry(tmp_path: Path, version: tuple[int, ...]) -> None:
    directory = tmp_path / "t-0"
    messages = b"".join(builders.message(n, magic=0, value=bytes(60)) for n in range(4))
    write_segment(directory, 0, messages[:-20], [], [])
    options = FindOptions(as_is=True, broker_version=version, isolation="read_uncommitted")
    items = list(find_offset([str(directory)], 3, options))
    torn = [one for one in items if isinstance(one, Finding) and one.code == "torn-tail"]
    assert [one.offset for one in torn] == ([3] if version < (0, 10, 2) else [])
