"""Gaps and repeats of sequence numbers: none in sound logs, made ones found to the number."""

import random
import struct
from pathlib import Path
from typing import Any

import builders
import damage
import pytest
from corpus import corpus, names
from declared_rows import find_undeclared
from each import each
from long_runs import LONG, SEED
from oracle import PROFILES, oracle
from producing import ABORT, NONE, TIME, data, marker, run_checks, write_log

from kdump.engine.sequences.run import SequenceOptions, sequences
from kdump.engine.work.pipeline import ONE_BY_ONE, Driver, Workers
from kdump.findings.finding import Finding
from kdump.findings.rows import Row

LARGEST = 2**31 - 1
DAY_MS = 86_400_000
ORACLE_SEEDS = range(SEED, SEED + (300 if LONG else 8))
ROUNDS = range(SEED, SEED + (3000 if LONG else 150))


def run_sequences(
    path: Path, *, driver: Driver = ONE_BY_ONE, **given: Any
) -> tuple[list[Row], Row, list[Finding]]:
    """Give rows, the summary and findings."""
    items = list(sequences([str(path)], SequenceOptions(**given), driver=driver))
    rows = [item for item in items if isinstance(item, Row)]
    found = [item for item in items if isinstance(item, Finding)]
    assert len(rows) + len(found) == len(items), items
    assert [row.row == "sequence-summary" for row in rows] == [False] * (len(rows) - 1) + [True]
    assert not list(find_undeclared({"row": row.row, **row.fields} for row in rows))
    return rows[:-1], rows[-1], found


def kinds(path: Path, **given: Any) -> list[tuple[object, ...]]:
    rows, _, _ = run_sequences(path, **given)
    return [
        (row.fields["kind"], row.fields["offset"], row.fields["sequences_count"]) for row in rows
    ]


@pytest.mark.parametrize("name", [*names("modern/data"), *names("old")])
def test_sound_directories_have_no_gaps(name: str) -> None:
    roots = {log.parent.parent for log in corpus(name).rglob("*.log")}
    for root in sorted(roots):
        rows, summary, _ = run_sequences(root)
        assert rows == []
        assert summary.fields["paths_unfinished"] == 0


@pytest.mark.oracle
@each("seed", ORACLE_SEEDS)
def test_broker_written_directories_have_no_gaps(seed: int, tmp_path: Path) -> None:
    profiles = [
        name for name in PROFILES if name.startswith(("txn", "restarts", "compacted", "mixed"))
    ]
    profile = profiles[seed % len(profiles)]
    path = oracle().make(profile, seed, tmp_path / f"{profile}-0")
    rows, summary, _ = run_sequences(path)
    assert rows == []
    assert summary.fields["batches"]


JOIN = [
    [data(10, 7, 0, count=3), data(13, 7, 3)],
    [data(10, 7, LARGEST - 1, count=2), data(12, 7, 0)],
    [data(10, 7, LARGEST, count=3), data(13, 7, 2)],
    [data(10, 7, 40), data(11, 7, 41)],
    [data(10, 7, 9), data(11, 7, 0, epoch=1)],
    [data(10, 7, 0), data(11, 8, 0), data(12, 7, 1)],
    [data(10, NONE, 0), data(11, NONE, 0)],
    [data(10, 7, 3, transactional=True), marker(11, 7, ABORT), data(12, 7, 4)],
    [data(10, 7, 3, transactional=True), marker(11, 7, ABORT, epoch=1), data(12, 7, 0, epoch=1)],
]


@each("batches", JOIN)
def test_consecutive_numbers_make_no_finding(tmp_path: Path, batches: list[bytes]) -> None:
    assert kinds(write_log(tmp_path, {10: batches}), explained=True) == []


@each(
    ("batches", "told"),
    [
        ([data(10, 7, 5), data(14, 7, 9)], ("removed", 14, 3)),
        ([data(10, 7, 5), data(11, 7, 0)], ("restarted", 11, None)),
        (
            [data(10, 7, 5, timestamp=TIME), data(11, 7, 90, timestamp=TIME + DAY_MS)],
            ("expired", 11, 84),
        ),
        (
            [data(10, 7, 50, timestamp=TIME), data(11, 7, 4, timestamp=TIME + DAY_MS)],
            ("expired", 11, None),
        ),
    ],
)
def test_innocent_explanations_make_no_finding(
    tmp_path: Path, batches: list[bytes], told: object
) -> None:
    path = write_log(tmp_path, {10: batches})
    assert kinds(path) == []
    assert kinds(path, explained=True) == [told]
    (row,), summary, _ = run_sequences(path, explained=True)
    assert row.fields["severity"] is None
    assert summary.fields[str(row.fields["kind"])] == 1


def test_batch_emptied_by_the_cleaner_is_followed(tmp_path: Path) -> None:
    kept = builders.batch(
        [], base_offset=2, last_offset_delta=1, producer_id=7, producer_epoch=0, base_sequence=2
    )
    path = write_log(tmp_path, {0: [data(0, 7, 0, count=2), kept, data(4, 7, 4)]})
    assert kinds(path, explained=True) == []


def test_gap_continues_in_the_next_segment(tmp_path: Path) -> None:
    path = write_log(tmp_path, {0: [data(0, 7, 0)], 1: [data(1), data(2, 7, 3)]})
    (row,), summary, _ = run_sequences(path)
    fields = row.fields
    assert (row.row, fields["kind"], fields["severity"]) == ("sequence-gap", "gap", "note")
    assert (fields["expected_sequence"], fields["base_sequence"], fields["sequences_count"]) == (
        1,
        3,
        2,
    )
    assert (fields["previous_offset"], fields["offset"], fields["segment"]) == (0, 2, 1)
    assert fields["position"] == len(data(1))
    assert (summary.fields["gaps"], summary.fields["missing_count"]) == (1, 2)


def test_first_number_of_a_complete_log_is_0(tmp_path: Path) -> None:
    """Numbers before it were never stored; what else may be the reason is named (KAFKA-15591)."""
    path = write_log(tmp_path, {0: [data(0), data(1, 7, 17, count=5)], 6: [data(6, 8, 0)]})
    (row,), summary, _ = run_sequences(path)
    fields = row.fields
    assert (row.row, fields["kind"], fields["severity"]) == ("sequence-gap", "gap", "note")
    assert (fields["expected_sequence"], fields["base_sequence"], fields["sequences_count"]) == (
        0, 17, 17,
    )  # fmt: skip
    assert (fields["previous_offset"], fields["previous_timestamp_ms"]) == (None, None)
    assert (fields["offset"], summary.fields["gaps"], summary.fields["missing_count"]) == (1, 1, 17)
    assert summary.fields["first_gaps"] == 1
    assert "KAFKA-15591" in str(fields["explanation"])
    assert "the topic was recreated" in str(fields["explanation"])
    (told,) = (one for one in run_checks(path) if one.code == "sequence-gap")
    assert (told.offset, told.expected, told.actual) == (1, 0, 17)
    assert "the log is complete from offset 0" in told.message


@each(
    "segments",
    [
        {0: [data(0), data(2, 7, 17)]},  # the cleaner
        {5: [data(5), data(6, 7, 17)]},  # retention
        {0: [data(0), damage.flip(data(1), 70), data(2, 7, 17)]},
        {0: [marker(0, 7, ABORT), data(1, 7, 17)]},  # it may have been there before
    ],
)
def test_first_number_is_not_judged_in_an_incomplete_log(
    tmp_path: Path, segments: dict[int, list[bytes]]
) -> None:
    assert kinds(write_log(tmp_path, segments), explained=True) == []


@each(
    ("batches", "told"),
    [
        ([data(5, 7, 3), data(6), data(7, 7, 2, epoch=1)], [("gap", 7, 2)]),
        ([data(5, 7, 3), marker(6, 7, ABORT, epoch=1), data(7, 7, 2, epoch=1)], [("gap", 7, 2)]),
        ([data(5, 7, 3), marker(6, 7, ABORT, epoch=1), data(7, 7, 0, epoch=1)], []),
        ([data(5, 7, 3), data(7, 7, 2, epoch=1)], []),  # offsets are missing too
        (
            [data(5, 7, 3, timestamp=TIME), data(6, 7, 2, epoch=1, timestamp=TIME + DAY_MS)],
            [("expired", 6, 2)],
        ),
    ],
)
def test_new_epoch_starts_at_0(
    tmp_path: Path, batches: list[bytes], told: list[tuple[str, int, int]]
) -> None:
    path = write_log(tmp_path, {5: batches})
    assert kinds(path, explained=True) == told
    (row,) = run_sequences(path)[0] or [None]
    if row is not None:
        assert "its new epoch starts at sequence number 2 instead of 0" in str(
            row.fields["explanation"]
        )
        assert "producer.id.expiration.ms" in str(row.fields["explanation"])


def test_named_segment_is_followed_alone(tmp_path: Path) -> None:
    path = write_log(tmp_path, {0: [data(0, 7, 0)], 1: [data(1), data(2, 7, 3)]})
    rows, summary, _ = run_sequences(path / f"{1:020}.log")
    assert rows == []
    assert summary.fields["batches"] == 2


def test_damage_resets_the_known_state(tmp_path: Path) -> None:
    broken = damage.flip(data(1, 7, 1), 70)
    path = write_log(tmp_path, {0: [data(0, 7, 0), broken, data(2, 7, 9), data(3, 7, 11)]})
    rows, summary, found = run_sequences(path, explained=True)
    assert [one.code for one in found] == ["crc-mismatch"]
    assert [row.fields["offset"] for row in rows] == [3]
    assert summary.fields["partitions_damaged"] == 1


def test_coordinators_are_not_followed(tmp_path: Path) -> None:
    path = write_log(tmp_path, {0: [data(0, 7, 0), data(1, 7, 0)]})
    path = path.rename(tmp_path / "__consumer_offsets-3")
    rows, summary, _ = run_sequences(path, explained=True)
    assert rows == []
    assert summary.fields["partitions_of_coordinators"] == 1


def test_producers_expire_as_in_the_broker(tmp_path: Path) -> None:
    batches = [data(9, 7, 5, timestamp=TIME), data(10, 7, 90, timestamp=TIME + 60_000)]
    path = write_log(tmp_path, {9: batches})
    settings = tmp_path / "server.properties"
    settings.write_text(f"log.dirs={tmp_path}\nproducer.id.expiration.ms=60000\n")
    assert [kind for kind, *_ in kinds(path)] == ["gap"]
    assert kinds(path, server_properties=str(settings)) == []


# Made breaks


class SentBatch:
    """A batch as its producer sent it, wherever it is put."""

    def __init__(self, producer: int, sequence: int, count: int, at_ms: int) -> None:
        self.producer = producer
        self.sequence = sequence
        self.count = count
        self.at_ms = at_ms

    def at(self, offset: int) -> bytes:
        return data(offset, self.producer, self.sequence, count=self.count, timestamp=self.at_ms)


def draw_stream(draw: random.Random) -> list[SentBatch]:
    """Write a sound stream of a few producers, some of which wrap."""
    following = {one: draw.choice([0, 0, 30, LARGEST - 5]) for one in (-1, 7, 8, 9)}
    batches = []
    for number in range(draw.randrange(5, 40)):
        producer = draw.choice([-1, 7, 7, 7, 8, 9])
        count = draw.randrange(1, 5)
        sequence = following[producer] if producer >= 0 else -1
        batches.append(SentBatch(producer, sequence, count, TIME + number))
        following[producer] = (following[producer] + count) & LARGEST
    return batches


def lay_out(stream: list[SentBatch]) -> tuple[list[bytes], list[int]]:
    """Give the batches offsets one after the other; also the offset of each."""
    parts, offsets, offset = [], [], 10  # what came before is not known
    for batch in stream:
        parts.append(batch.at(offset))
        offsets.append(offset)
        offset += batch.count
    return parts, offsets


def write_stream(parent: Path, draw: random.Random, parts: list[bytes]) -> Path:
    """Write the batches to one segment or two."""
    cut = draw.randrange(1, len(parts))
    if draw.random() < 0.5:
        return write_log(parent, {0: parts})
    (second,) = struct.unpack_from(">q", parts[cut])
    return write_log(parent, {0: parts[:cut], second: parts[cut:]})


@pytest.mark.fuzz
@each("seed", ROUNDS)
def test_generated_gap_is_found_exactly(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    stream = draw_stream(draw)
    inner = [
        at
        for at, batch in enumerate(stream)
        if batch.producer >= 0
        and any(one.producer == batch.producer for one in stream[:at])
        and any(one.producer == batch.producer for one in stream[at + 1 :])
    ]
    if not inner:
        pytest.skip("no batch in the midst of its producer's")
    lost = stream.pop(draw.choice(inner))
    parts, offsets = lay_out(stream)
    behind = next(
        at
        for at, batch in enumerate(stream)
        if batch.producer == lost.producer
        and batch.sequence == (lost.sequence + lost.count) & LARGEST
    )
    rows, summary, found = run_sequences(write_stream(tmp_path, draw, parts), explained=True)
    if not stream[behind].sequence:  # at 0 a gap looks like one that began anew
        assert [row.fields["kind"] for row in rows] == ["restarted"]
        return
    assert not found
    assert [
        tuple(
            row.fields[name]
            for name in ("kind", "producer_id", "expected_sequence", "offset", "sequences_count")
        )
        for row in rows
    ] == [("gap", lost.producer, lost.sequence, offsets[behind], lost.count)]
    assert summary.fields["missing_count"] == lost.count


@pytest.mark.fuzz
@each("seed", ROUNDS)
def test_generated_repeats_are_found_exactly(tmp_path: Path, seed: int) -> None:
    """Copies of some batches in a row are appended at a later place."""
    draw = random.Random(seed)
    stream = draw_stream(draw)
    first = draw.randrange(len(stream))
    copies = [one for one in stream[first : first + draw.randrange(1, 4)] if one.producer >= 0]
    place = draw.randrange(first + 3, len(stream) + 3) if first + 3 < len(stream) else len(stream)
    stream[place:place] = copies
    place = min(place, len(stream) - len(copies))
    parts, offsets = lay_out(stream)
    rows, summary, found = run_sequences(write_stream(tmp_path, draw, parts), explained=True)
    assert not found
    wanted = [
        ("duplicate", one.producer, one.sequence, offset, one.count)
        for one, offset in zip(copies, offsets[place:], strict=False)
    ]
    assert [
        tuple(
            row.fields[name]
            for name in ("kind", "producer_id", "base_sequence", "offset", "sequences_count")
        )
        for row in rows
    ] == wanted
    assert summary.fields["repeated_count"] == sum(one.count for one in copies)


@pytest.mark.fuzz
@each("seed", ROUNDS)
def test_findings_match_a_plain_implementation_of_the_rules(tmp_path: Path, seed: int) -> None:
    """Any numbers at all: what is told is what a few lines say that know one producer at a time."""
    draw = random.Random(seed)
    parts, headers, offset = [], [], draw.choice([0, 0, 10])
    for _ in range(draw.randrange(2, 40)):
        producer, epoch = draw.choice([-1, 7, 8]), int(draw.random() < 0.05)
        count, sequence = draw.randrange(1, 4), draw.choice([0, 1, 2, 3, 4, 5, 6, 7, 8, LARGEST])
        at_ms = TIME + draw.choice([0, 0, 0, DAY_MS])
        offset += draw.random() < 0.1
        parts.append(
            data(
                offset,
                producer,
                sequence if producer >= 0 else -1,
                count=count,
                epoch=epoch,
                timestamp=at_ms,
            )
        )
        headers.append((producer, epoch, sequence, count, offset, at_ms))
        offset += count
    rows, _, _ = run_sequences(write_stream(tmp_path, draw, parts), explained=True)
    assert [(row.fields["kind"], row.fields["offset"]) for row in rows] == plainly(headers)


def plainly(headers: list[tuple[int, int, int, int, int, int]]) -> list[tuple[str, int]]:
    told: list[tuple[str, int]] = []
    ends = {-1}  # offsets behind which the next batch follows at once
    for _, _, _, count, offset, _ in headers:
        ends.add(offset + count - 1)
    starts = {header[4] for header in headers}
    last: dict[int, tuple[int, int, int, int, int]] = {}
    firsts: dict[int, tuple[int, int]] = {}
    seen: dict[int, int] = {}
    whole, follows = True, 0

    def joined_since(before: int, offset: int) -> bool:
        return all(end + 1 in starts for end in ends if before <= end < offset)

    for producer, epoch, sequence, count, offset, at_ms in headers:
        whole, follows = whole and offset == follows, offset + count
        if producer < 0:
            continue
        before_any, seen[producer] = seen.get(producer), offset + count - 1
        known = last.get(producer)
        if known is None or known[0] != epoch:
            firsts.pop(producer, None)
            if sequence and known is None and whole:
                told.append(("gap", offset))
            elif sequence and known and before_any is not None and joined_since(before_any, offset):
                is_idle = abs(at_ms - known[4]) >= DAY_MS
                told.append(("expired" if is_idle else "gap", offset))
        else:
            _, behind, before_offset, before_count, before_ms = known
            expected = (behind + 1) & LARGEST
            if sequence != expected:
                ahead = (sequence - expected) & LARGEST
                same = (sequence, count, at_ms) == (
                    (behind - before_count + 1) & LARGEST,
                    before_count,
                    before_ms,
                )
                joined = joined_since(before_offset, offset)
                if same or (not sequence and firsts.get(producer) == (count, at_ms)):
                    kind = "duplicate"
                elif not sequence:
                    kind = "restarted"
                elif abs(at_ms - before_ms) >= DAY_MS:
                    kind = "expired"
                elif ahead > LARGEST // 2:
                    kind = "duplicate"
                else:
                    kind = "gap" if joined else "removed"
                told.append((kind, offset))
                if kind == "duplicate" and count <= ((expected - sequence) & LARGEST):
                    continue
        if not sequence:
            firsts[producer] = (count, at_ms)
        last[producer] = (epoch, (sequence + count - 1) & LARGEST, offset + count - 1, count, at_ms)
    return told


def test_workers_give_the_same_result(tmp_path: Path) -> None:
    for number in range(5):
        parent = tmp_path / f"d{number}"
        parent.mkdir()
        path = write_log(parent, {0: [data(0, 7, 0), data(1, 7, 3 + number)]})
        path.rename(tmp_path / f"orders-{number}")
    wanted = run_sequences(tmp_path)
    assert len(wanted[0]) == 5
    assert run_sequences(tmp_path, driver=Workers(3)) == wanted
