"""Which batches of a run do not fit their neighbours."""

from pathlib import Path

from each import each
from segments import batch, partition_of, write, write_partition

from kdump.engine.checks.ordering import in_parts, out_of_order
from kdump.engine.reading.check import Check
from kdump.engine.reading.partition_scan import SegmentScan
from kdump.engine.reading.scan import scan
from kdump.kernels.columns import RecordBatches
from kdump.record.frames import Run


class Ranges(Check):
    """Keeps the ranges of each run."""

    found: list[tuple[int, int]]
    parts: list[tuple[int, int, bool]]

    def run(self, segment: SegmentScan, run: Run) -> None:
        """Take them up, and the parts by where they begin and end."""
        self.headers(segment, run.batches)
        self.parts = [
            (part.batches.base_offset(0), part.batches.count, ordered)
            for part, ordered in in_parts(segment, run)
        ]

    def headers(self, segment: SegmentScan, batches: RecordBatches) -> None:
        """Take them up."""
        self.found = [*out_of_order(segment, batches)]


@each(
    ("wrong", "ranges"),
    [
        ({}, []),
        ({2: 1}, [(1, 3)]),
        ({4: 1 << 40}, [(4, 6)]),  # behind all that the segment can hold
        ({2: 1, 6: 1}, [(1, 3), (5, 7)]),  # each apart
        ({2: 1, 4: 1}, [(1, 5)]),  # with a neighbour in common
        ({2: 2, 3: 1}, [(1, 4)]),
        ({2: 1, 3: 1, 7: 1}, [(1, 4), (6, 8)]),
    ],
)
def test_ranges_of_rows_with_their_neighbours(
    tmp_path: Path, wrong: dict[int, int], ranges: list[tuple[int, int]]
) -> None:
    parts = [batch(wrong.get(row, 3 * row)) for row in range(10)]
    directory = write_partition(tmp_path, {0: []})
    write(directory, 0, "log", b"".join(parts))
    partition = partition_of(directory)
    check = Ranges(partition)
    assert not list(scan(partition, [check]))
    assert check.found == ranges
    parts, start = [], 0
    for first, end in [*ranges, (10, 10)]:
        parts += [(start, first, True)] * (start < first) + [(first, end, False)] * (first < end)
        start = end
    assert check.parts == [
        (wrong.get(first, 3 * first), end - first, ordered) for first, end, ordered in parts
    ]
