"""What verify asks of the kernel: sums of headers, and proofs of entries and records."""

from __future__ import annotations

import random
from array import array
from collections.abc import Sequence
from types import ModuleType

import builders
import producing
import pytest
from builders import offset_index, time_index
from each import each
from long_runs import LONG, SEED

from kdump.kernels import _pure
from kdump.kernels import columns as c
from kdump.kernels.columns import Columns, DecodedRecords, RecordBatches

ROUNDS = 20_000 if LONG else 400


def walked(kernel: ModuleType, *parts: bytes) -> Columns:
    data = b"".join(parts)
    batches: RecordBatches = kernel.walk(data, 0, len(data), 0, -1, True, 1 << 20)[0]
    return batches


def entries_state(base_offset: int = 0) -> array[int]:
    return array("q", (0, 0, base_offset - 1, -1, 0, 0))


def records_state() -> array[int]:
    return array("q", (-1, 0, -1, 0, 0, -1, 0, -1, 0))


def test_tally(kernel: ModuleType) -> None:
    batches = walked(
        kernel,
        builders.batch([builders.record(0), builders.record(1)], max_timestamp=70),
        builders.wrapper([builders.message(0)], 2, timestamp=90),
        builders.message(3, magic=0),
        builders.batch(base_offset=4, attributes=builders.ZSTD, max_timestamp=80),
    )
    assert kernel.tally(batches) == (4, 1, 2, 90)
    assert kernel.tally(RecordBatches.empty(c.BATCH_WIDTH)) == (0, 0, 0, -1)


@each(
    ("pairs", "rising"),
    [
        ([], 0),
        ([(0, 1)], 1),  # offset 0 may be named, position 0 is none
        ([(0, 0)], 0),
        ([(-1, 5)], 0),
        ([(3, 10), (4, 20), (9, 21)], 3),
        ([(3, 10), (3, 20)], 1),
        ([(3, 10), (4, 10)], 1),
        ([(3, 10), (0, 0)], 1),
    ],
)
def test_rising_slots_of_an_offset_index(
    kernel: ModuleType, pairs: list[tuple[int, int]], rising: int
) -> None:
    assert kernel.rising_slots(offset_index(pairs), 8) == rising
    assert kernel.rising_slots(offset_index(pairs) + b"\0\0\1", 8) == rising


@each(
    ("pairs", "rising"),
    [
        ([(0, 0)], 1),
        ([(-1, 0)], 0),
        ([(5, 3), (6, 3), (7, 9)], 3),  # an offset may repeat
        ([(5, 3), (5, 4)], 1),
        ([(5, 3), (6, 2)], 1),
    ],
)
def test_rising_slots_of_a_time_index(
    kernel: ModuleType, pairs: list[tuple[int, int]], rising: int
) -> None:
    assert kernel.rising_slots(time_index(pairs), 12) == rising


def test_sectors_of_an_offset_index(kernel: ModuleType) -> None:
    page = offset_index((number, 100 * number) for number in range(1, 65))
    end = page[:24] + bytes(488)
    sectors = [
        page, end, page[:16] + bytes(496), page[:24] + bytes(487) + b"x", bytes(512),
        page[:256] + page[:256],
    ]  # fmt: skip
    data = bytes(3) + b"".join(sectors)
    assert kernel.index_sectors(data, 3, 512) == [3, 515]
    assert kernel.index_sectors(data[: 3 + 1023], 3, 512) == [3]
    assert kernel.index_sectors(b"", 0, 512) == []


class TestEntries:
    """Five batches of three records at 100, 103 ..., a time apart each; 75 or so bytes."""

    BASE = 100

    def batches(self, kernel: ModuleType) -> Columns:
        parts = [
            builders.batch(
                [builders.record(delta) for delta in range(3)],
                base_offset=self.BASE + 3 * number,
                base_timestamp=1000 + number,
            )
            for number in range(5)
        ]
        return walked(kernel, *parts)

    def proved(
        self,
        kernel: ModuleType,
        offset_pairs: Sequence[tuple[int, int]],
        time_pairs: Sequence[tuple[int, int]] = (),
        most: int = 10,
    ) -> tuple[list[tuple[int, int, int]], list[int], list[int]]:
        state, marks = entries_state(self.BASE), array("q", [0] * len(offset_pairs))
        found = kernel.prove_entries(
            self.batches(kernel), offset_index(offset_pairs), time_index(time_pairs), self.BASE,
            state, marks, most,
        )  # fmt: skip
        return found, list(state), list(marks)

    def size(self, kernel: ModuleType) -> int:
        return self.batches(kernel).size_bytes(0)

    def test_entries_of_every_era_are_proved(self, kernel: ModuleType) -> None:
        size = self.size(kernel)
        for pairs in (
            [(5, size), (11, 3 * size)],  # last offset of the batch
            [(3, size), (9, 3 * size)],  # first
            [(8, size), (14, 3 * size)],  # last of two batches
        ):
            found, state, marks = self.proved(kernel, pairs)
            assert found == []
            assert state == [2, 0, 114, 1004, 0, 0]
            assert marks == [1000, 1002]  # the newest before each position

    def test_contradicted_entries(self, kernel: ModuleType) -> None:
        size = self.size(kernel)
        found, state, _ = self.proved(kernel, [(2, size), (4, 2 * size), (9, 3 * size + 1)])
        assert found == [(c.PASSES_OVER, 0, 1), (c.PASSES_OVER, 1, 2), (c.NO_BATCH, 2, 4)]
        assert state[0] == 3
        found, _, _ = self.proved(kernel, [(3, size), (4, 5 * size)])
        assert found == []  # behind the end: never met

    def test_an_offset_between_two_batches(self, kernel: ModuleType) -> None:
        parts = [builders.batch(base_offset=0), builders.batch(base_offset=9)]
        state, marks = entries_state(), array("q", [0])
        found = kernel.prove_entries(
            walked(kernel, *parts), offset_index([(4, len(parts[0]))]), b"", 0, state, marks, 9
        )
        assert found == [(c.BELOW_BATCH, 0, 1)]

    def test_times(self, kernel: ModuleType) -> None:
        size = self.size(kernel)
        pairs = [(5, size), (11, 3 * size)]
        assert self.proved(kernel, pairs, [(1001, 5), (1003, 10)])[0] == []
        assert self.proved(kernel, pairs, [(1002, 5)])[0] == [(c.OTHER_TIME, 0, 1)]
        # The floor of offset 11 starts behind a batch of time 1002, which a lookup of it needs.
        assert self.proved(kernel, pairs, [(1002, 11)])[0] == [(c.STARTS_LATE, 0, 3)]
        assert self.proved(kernel, [], [(1002, 11)])[0] == [(c.OTHER_TIME, 0, 3)]

    def test_timestamps_of_v0_messages_are_not_judged(self, kernel: ModuleType) -> None:
        state = entries_state()
        batches = walked(kernel, builders.message(0, magic=0), builders.message(1, magic=0))
        assert (
            kernel.prove_entries(batches, b"", time_index([(77, 1)]), 0, state, array("q"), 9) == []
        )
        assert list(state) == [0, 1, 1, -1, 1, 0]

    def test_proof_continues_where_it_ended(self, kernel: ModuleType) -> None:
        size = self.size(kernel)
        batches = self.batches(kernel)
        offset_slots = offset_index([(5, size), (7, 3 * size)])
        time_slots = time_index([(1001, 5), (1009, 10)])
        state, marks = entries_state(self.BASE), array("q", [0, 0])
        found = []
        for row in range(batches.count):
            one = batches.slice(row, row + 1)
            found += kernel.prove_entries(one, offset_slots, time_slots, self.BASE, state, marks, 9)
        assert [(why, slot) for why, slot, _ in found] == [(c.PASSES_OVER, 1), (c.OTHER_TIME, 1)]
        assert list(state) == [2, 2, 114, 1004, 0, 0]

    def test_omitted_entries_are_counted(self, kernel: ModuleType) -> None:
        size = self.size(kernel)
        pairs = [(number, number * size // 3 + 1) for number in range(9)]
        found, state, _ = self.proved(kernel, pairs, most=2)
        assert len(found) == 2
        assert state[5] == 7

    def test_room_for_marks_is_requested(self, kernel: ModuleType) -> None:
        if kernel is _pure:
            pytest.skip("the array itself refuses")
        with pytest.raises(ValueError, match="array"):
            kernel.prove_entries(
                self.batches(kernel), offset_index([(1, 1)]), b"", 0, entries_state(), array("q"), 9
            )


def random_log(draw: random.Random, kernel: ModuleType) -> Columns:
    parts, offset = [], draw.randrange(5)
    for _ in range(draw.randrange(1, 12)):
        count = draw.randrange(1, 4)
        newest = draw.choice([-1, 5, 6, 7, 8, 9])
        kind = draw.randrange(4)
        if kind == 0:
            parts.append(builders.message(offset, magic=draw.randrange(2), timestamp=newest))
        elif kind == 1:
            magic = draw.randrange(2)
            inner = [builders.message(0, magic=magic)]
            parts.append(builders.wrapper(inner, offset + 1, magic=magic, timestamp=newest))
        else:
            records = [builders.record(delta, key=None) for delta in range(count)]
            parts.append(builders.batch(records, base_offset=offset, base_timestamp=newest))
        offset += draw.choice([count, count, count + 2, -3])
        offset = max(offset, 0)
    return walked(kernel, *parts)


def test_kernels_agree_on_entries() -> None:
    fast = pytest.importorskip("kdump.kernels._fast", reason="the compiled kernel is not built")
    seen: set[int] = set()
    for number in range(ROUNDS):
        draw = random.Random(f"{SEED}-{number}")
        batches = random_log(draw, fast)
        assert fast.tally(batches) == _pure.tally(batches), number
        ends = sorted({draw.choice([*batches.positions, draw.randrange(999)]) for _ in range(6)})
        keys = sorted({draw.randrange(-2, 30) for _ in ends})
        offset_slots = offset_index(zip(keys, ends, strict=False))
        stamps = sorted({draw.randrange(-1, 11) for _ in range(4)})
        time_slots = time_index((stamp, draw.randrange(30)) for stamp in stamps)
        most = draw.choice([0, 1, 3, 20])
        base = draw.choice([0, 2, (1 << 63) - 5])
        outcomes = []
        for kernel in (fast, _pure):
            state, marks = entries_state(base), array("q", [0] * (len(offset_slots) // 8))
            found = []
            for start in (0, batches.count // 2):
                stop = batches.count // 2 if start == 0 else batches.count
                found.append(
                    kernel.prove_entries(
                        batches.slice(start, stop), offset_slots, time_slots, base, state, marks,
                        most,
                    )
                )  # fmt: skip
            outcomes.append((found, list(state), list(marks)))
        assert outcomes[0] == outcomes[1], number
        seen |= {why for part in outcomes[0][0] for why, _, _ in part}
        garbage = draw.randbytes(draw.randrange(60))
        for size in (8, 12):
            for slots in (offset_slots, time_slots, garbage):
                assert fast.rising_slots(slots, size) == _pure.rising_slots(slots, size), number
    assert seen == {1, 2, 3, 4, 5}


def random_records(draw: random.Random, batches: RecordBatches) -> Columns:
    rows, batch = [], 0
    for _ in range(draw.randrange(12)):
        batch = min(batch + draw.choice([0, 0, 1]), batches.count - 1)
        rows.append(
            (
                batch, draw.randrange(9), draw.randrange(90),
                batches.last_offset(batch) + draw.choice([0, 0, -1, 1]),
                draw.choice([-1, 5, 6, 7, 8, 9]), 0, draw.choice([-1, 3]), 0,
                draw.choice([-1, 7]), 0, 0,
                draw.choice([0, 0, 1, 2]) | draw.randrange(4) << c.INNER_MAGIC_SHIFT,
            )
        )  # fmt: skip
    return DecodedRecords.from_rows(c.RECORD_WIDTH, rows)


def test_kernels_agree_on_records() -> None:
    fast = pytest.importorskip("kdump.kernels._fast", reason="the compiled kernel is not built")
    seen: set[int] = set()
    for number in range(ROUNDS):
        draw = random.Random(f"{SEED}-{number}")
        batches = random_log(draw, fast)
        pieces = [random_records(draw, batches) for _ in range(3)]
        complete = [draw.random() < 0.5 for _ in pieces]
        most = draw.choice([0, 1, 3, 20])
        outcomes = []
        for kernel in (fast, _pure):
            state = records_state()
            found = [
                kernel.prove_records(batches, piece, state, done, most)
                for piece, done in zip(pieces, complete, strict=True)
            ]
            outcomes.append((found, list(state)))
        assert outcomes[0] == outcomes[1], number
        seen |= {why for part in outcomes[0][0] for why, _, _ in part}
    assert seen == {1, 2, 3, 4, 5}


def test_sound_records_are_proved(kernel: ModuleType) -> None:
    data = b"".join(
        [
            builders.batch(
                [builders.record(0, 5), builders.record(3, 2, key=None)],
                base_timestamp=100,
                max_timestamp=105,
                last_offset_delta=6,
            ),
            builders.message(7, magic=1, timestamp=3, slack=b"?"),
            builders.message(8, magic=0, key=None),
        ]
    )
    batches = walked(kernel, data)
    records = kernel.decode_run(data, 0, batches, 0, 99)[0]
    state = records_state()
    assert kernel.prove_records(batches, records, state, True, 9) == []
    position = batches.position(1)
    assert list(state)[4:] == [2, 3, 1, position, 0]


def test_unsound_records_are_not_proved(kernel: ModuleType) -> None:
    data = b"".join(
        [
            builders.batch([builders.record(0), builders.record(2), builders.record(1)]),
            builders.batch(base_offset=3, max_timestamp=9),
            builders.batch([builders.record(4)], base_offset=4),
        ]
    )
    batches = walked(kernel, data)
    records = kernel.decode_run(data, 0, batches, 0, 99)[0]
    found = kernel.prove_records(batches, records, records_state(), True, 9)
    assert found == [(c.OFFSET_ORDER, 0, 2), (c.MAX_TIMESTAMP, 1, 4), (c.OFFSET_OUTSIDE, 2, 4)]


def test_kernels_follow_producers_the_same_way() -> None:
    fast = pytest.importorskip("kdump.kernels._fast", reason="the compiled kernel is not built")
    stopped_at = set()
    for number in range(ROUNDS):
        draw = random.Random(f"{SEED}-follow-{number}")
        batches = walked(fast, producing.random_log(draw))
        first = draw.randrange(batches.count)
        end = draw.choice([batches.count, draw.randrange(batches.count + 2)])
        table = array("q")
        for producer in draw.sample([1, 2, 3], draw.randrange(4)):
            before = batches.base_sequence(first) - 1
            table.extend((producer, 0, draw.choice([before, before, -1, 5]), 9, 0, 9))
        next_offset = batches.base_offset(first) + (draw.random() < 0.1)
        tables = array("q", table), array("q", table)
        answers = [
            kernel.follow_producers(batches, first, end, next_offset, one)
            for kernel, one in zip((fast, _pure), tables, strict=True)
        ]
        assert answers[0] == answers[1], number
        assert tables[0] == tables[1], number
        stopped_at.add(answers[0][0] - first)
    assert len(stopped_at) > 5
