"""The way past damage: what is on disk, what a broker serves, what a seek there passes over."""

import struct
from pathlib import Path

import builders
import damage
import pytest
from directories import BATCH_BYTES, batches, identifier

from kdump.engine.advice import landings, served_partition
from kdump.engine.advice.advisor import Advisor
from kdump.engine.dump.run import dump
from kdump.engine.find.options import FindOptions
from kdump.engine.find.run import find_offset
from kdump.engine.reading.options import DumpOptions
from kdump.engine.verify.options import VerifyOptions
from kdump.engine.verify.run import verify
from kdump.engine.verify.state import VerifyState
from kdump.findings.finding import Finding, finding
from kdump.findings.rows import Row
from kdump.replay.releases import Releases
from kdump.storage.targets import Selection, Target, resolve

# Twenty batches of two records in each segment; an index entry at every fifth, which names the last
# offset of that batch, as brokers write it.
SEGMENTS = (0, 40)
BROKEN = 7  # the batch of offsets 14 and 15


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    for base in SEGMENTS:
        stem = directory / f"{base:020}"
        stem.with_suffix(".log").write_bytes(batches(base, 20))
        entries = [(2 * at + 1, at * BATCH_BYTES) for at in range(5, 20, 5)]
        packed = builders.offset_index(entries)
        stem.with_suffix(".index").write_bytes(packed)
        stem.with_suffix(".timeindex").write_bytes(b"")
    return directory


def break_log(partition: Path, position: int, data: bytes, *, base: int = 0) -> None:
    path = partition / f"{base:020}.log"
    path.write_bytes(damage.put(path.read_bytes(), position, data))


def break_framing(partition: Path, batch: int = BROKEN, *, base: int = 0) -> None:
    """Give a batch a length that no entry can have, and a wrong checksum."""
    break_log(partition, batch * BATCH_BYTES + 8, b"\xff" * 16, base=base)


def break_record(partition: Path, batch: int = BROKEN) -> None:
    path = partition / f"{0:020}.log"
    path.write_bytes(damage.flip(path.read_bytes(), (batch + 1) * BATCH_BYTES - 2))


def found(partition: Path, version: tuple[int, ...] | None = None) -> list[Finding]:
    """Give what stops consumers; the time indexes here are none."""
    items = verify([str(partition)], VerifyOptions(broker_version=version))
    return [item for item in items if isinstance(item, Finding) and item.next_offset is not None]


def looked_up(partition: Path, offset: int) -> Row:
    (row,) = [
        item
        for item in find_offset([str(partition)], offset, FindOptions())
        if isinstance(item, Row)
    ]
    return row


def recovery(partition: Path) -> dict[str, object]:
    (row,) = [
        item
        for item in verify([str(partition)], VerifyOptions(predict=True))
        if isinstance(item, Row) and item.row == "recovery"
    ]
    return row.fields


def beside_a_broker(partition: Path) -> None:
    (partition.parent / "meta.properties").touch()
    (partition / "partition.metadata").write_text(f"version: 0\ntopic_id: {identifier(7)}")


def way(told: Finding) -> tuple[int | None, int | None, int | None]:
    return told.next_offset, told.served_from, told.skipped_by_seek


def test_batch_after_a_broken_record_is_served(partition: Path) -> None:
    break_record(partition)
    (told,) = found(partition)
    assert way(told) == (16, 16, 0)


@pytest.mark.parametrize("version", [None, (4, 1), (2, 8), (0, 11)])
def test_index_entry_after_a_broken_length_is_served(
    partition: Path, version: tuple[int, ...] | None
) -> None:
    """The entry at batch 10 names offset 21: of that batch one record is passed over."""
    break_framing(partition)
    (told,) = found(partition, version)
    assert way(told) == (16, 21, 5)
    assert told.served_by == f"{'.'.join(map(str, version or (4, 4)))} starting"


def test_next_segment_is_served_after_the_last_index_entry(partition: Path) -> None:
    break_framing(partition, 16)
    (told,) = found(partition)
    assert way(told) == (34, 40, 6)


def test_newest_segment_may_serve_nothing(partition: Path) -> None:
    break_framing(partition, 16, base=40)
    (told,) = found(partition)
    assert way(told) == (74, None, 6)


def test_overlong_length_is_not_a_way_past(partition: Path) -> None:
    """A broker takes the log to end there, and hands out the next segment without a word."""
    break_log(partition, BROKEN * BATCH_BYTES + 8, struct.pack(">i", 100 * BATCH_BYTES))
    (told,) = found(partition)
    assert way(told) == (16, 21, 5)


def test_wrong_index_is_not_followed(partition: Path) -> None:
    """Up to the last entry that leads astray nothing is promised."""
    break_framing(partition)
    index = partition / f"{0:020}.index"
    data = bytearray(index.read_bytes())
    data[8:16] = struct.pack(">ii", 21, 10 * BATCH_BYTES + 3)
    index.write_bytes(bytes(data))
    (told,) = found(partition)[:1]
    assert way(told) == (16, 31, 15)


def test_start_truncates_a_segment_without_an_index(partition: Path) -> None:
    break_framing(partition)
    (partition / f"{0:020}.index").unlink()
    (told,) = found(partition)[:1]
    assert way(told) == (16, 40, 24)


def test_nothing_remains_after_damage_and_an_unclean_stop(partition: Path) -> None:
    """A start recovers the newest segment and cuts it."""
    break_framing(partition, base=40)
    (told,) = found(partition)
    assert way(told) == (56, 61, 5)
    beside_a_broker(partition)
    (partition.parent / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 40\n")
    (told,) = found(partition)
    assert way(told) == (56, None, 24)


def test_many_gaps_are_walked_once(partition: Path) -> None:
    """Where nothing is served between them, all lead to one place."""
    for batch in (6, 8):
        break_framing(partition, batch)
    assert [way(told) for told in found(partition)] == [(14, 21, 5), (18, 21, 3)]


def test_undecodable_batch_can_be_skipped(partition: Path) -> None:
    bad = builders.batch(payload=b"\x7f\0", base_offset=14, last_offset_delta=1, records_count=2)
    path = partition / f"{0:020}.log"
    log = path.read_bytes()
    at = BROKEN * BATCH_BYTES
    path.write_bytes(log[:at] + bad + log[at + BATCH_BYTES :])
    (partition / f"{0:020}.index").write_bytes(b"")
    items = verify([str(partition)], VerifyOptions(deep=True))
    told = next(one for one in items if isinstance(one, Finding) and one.severity.value == "damage")
    assert (told.code, way(told)) == ("records-undecodable", (16, 16, 0))


def test_dump_reports_it_too(partition: Path) -> None:
    break_framing(partition)
    items = dump([str(partition)], DumpOptions(mode="batches"))
    (told,) = [one for one in items if isinstance(one, Finding)]
    assert way(told) == (16, 21, 5)


def test_jobs_and_state_give_the_same_advice(partition: Path) -> None:
    break_framing(partition)
    expected = found(partition)
    state = VerifyState(1)
    for _ in range(2):
        items = list(verify([str(partition)], VerifyOptions(), state=state))
        told = [one for one in items if isinstance(one, Finding) and one.next_offset is not None]
        assert told == expected
    asked_old = list(verify([str(partition)], VerifyOptions(broker_version=(2, 8)), state=state))
    told = [one for one in asked_old if isinstance(one, Finding) and one.next_offset is not None]
    assert [one.served_by for one in told] == ["2.8 starting"]


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (12, (None, None, None)),
        (14, (16, 21, 5)),  # in the damage
        (17, (17, 21, 4)),  # sound, and not served
        (21, (None, None, None)),
        (99, (None, None, None)),
    ],
)
def test_find_offset_reports_an_answer_inside_damage(
    partition: Path, offset: int, expected: tuple[int | None, ...]
) -> None:
    break_framing(partition)
    row = looked_up(partition, offset)
    names = ("next_offset", "served_from", "skipped_by_seek")
    assert tuple(row.fields[name] for name in names) == expected


def test_find_offset_reports_a_broken_checksum(partition: Path) -> None:
    """Brokers serve the batch; consumers fail on it."""
    break_record(partition)
    row = looked_up(partition, 14)
    assert (row.fields["next_offset"], row.fields["served_from"]) == (16, 16)


def test_prediction_reports_remaining_damage(partition: Path) -> None:
    break_framing(partition)
    beside_a_broker(partition)
    (partition.parent / ".kafka_cleanshutdown").touch()
    row = recovery(partition)
    way_past = {"offset": 14, "next_offset": 16, "served_from": 21, "skipped_by_seek": 5}
    assert row["unserved"] == [way_past]


def test_truncated_damage_does_not_stop_consumers(partition: Path) -> None:
    break_framing(partition)
    beside_a_broker(partition)
    (partition.parent / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 0\n")
    row = recovery(partition)
    assert (row["log_end_after"], row["unserved"]) == (14, [])


def test_missing_segment_does_not_stop_consumers(partition: Path) -> None:
    (target,) = resolve([str(partition)], Selection())
    assert isinstance(target, Target)
    advisor = Advisor(target, Releases(), 1 << 20)
    log = str(partition / f"{40:020}.log")
    for code, is_advised in (("crc-mismatch", True), ("segment-missing", False)):
        one = finding(code, path=log, topic="orders", partition=0, segment=40, position=0)
        told = advisor.advise(one._replace(next_offset=42, size_bytes=BATCH_BYTES))
        assert (told.served_by is not None) is is_advised
    advisor.close()


def test_impossible_offsets_are_never_advised(partition: Path) -> None:
    """Behind the damage a batch lies whose base offset, under no checksum, is absurd."""
    break_record(partition, 5)
    break_log(partition, 6 * BATCH_BYTES, b"\x5b")
    (damage_of_5,) = (one for one in found(partition) if one.code == "crc-mismatch")
    assert (damage_of_5.next_offset, damage_of_5.served_from) == (14, 21)


def test_advice_stops_at_its_budget(partition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left is reported all the same, without a way past it."""
    for batch in (3, 9, 15):
        break_record(partition, batch)
    whole = found(partition)
    assert [one.served_from for one in whole] == [8, 20, 32]
    monkeypatch.setattr(served_partition, "_ASKED_IN_ALL", 1)
    monkeypatch.setattr(served_partition, "_ASKED_A_SEGMENT", 0)
    bounded = found(partition)
    assert [one.next_offset for one in bounded] == [8, 20, 32]
    assert [one.served_by is None for one in bounded] == [False, True, True]


def test_wrappers_are_read_with_one_open_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a wrapper holds is known by decoding it; an archive is unpacked at each opening."""
    directory = tmp_path / "orders-0"
    directory.mkdir()
    log = b""
    for last in range(1, 80, 2):
        inner = [builders.message(at, magic=0) for at in (last - 1, last)]
        log += builders.wrapper(inner, last, magic=0)
    (directory / f"{0:020}.log").write_bytes(damage.put(log, len(log) // 4 + 8, b"\xff" * 16))
    opened: list[str] = []

    class Counted(landings.Source):
        def __init__(self, path: str) -> None:
            opened.append(path)
            super().__init__(path)

    monkeypatch.setattr(landings, "Source", Counted)
    (told,) = found(directory, (0, 9))
    assert told.skipped_by_seek == 58
    assert len(opened) <= 2
