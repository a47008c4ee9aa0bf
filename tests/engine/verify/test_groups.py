"""The sums of `verify --summary-by` against findings and summary of the same run."""

import os
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import builders
import pytest
from corpus import corpus

from kdump.engine.verify.options import VerifyOptions
from kdump.engine.verify.run import verify
from kdump.engine.verify.state import VerifyState
from kdump.engine.work.pipeline import Workers
from kdump.findings.finding import Finding
from kdump.findings.rows import Row
from kdump.output.verify_groups import group_lines

SAMPLES = Path(__file__).parents[3] / "sample-data"


def summed(paths: list[Path], *by: str, jobs: int = 1) -> tuple[list[Row], Row, list[Finding]]:
    options = VerifyOptions(summary_by=by)
    items = list(verify(list(map(str, paths)), options, driver=Workers(jobs)))
    found = [item for item in items if isinstance(item, Finding)]
    rows = [item for item in items if isinstance(item, Row)]
    assert len(found) + len(rows) == len(items), items
    assert items[-len(rows) :] == rows
    assert rows[-1].row == "summary"
    return [row for row in rows[:-1] if row.row != "way-past"], rows[-1], found


def totals(rows: list[Row]) -> dict[str, Any]:
    sums: dict[str, Any] = {
        name: sum(row.fields[name] for row in rows)  # type: ignore[misc]
        for name in ("segments", "batches", "records_count", "bytes")
    }
    sums["paths"] = sum(row.fields["partitions"] for row in rows)  # type: ignore[misc]
    for name in ("findings", "codes"):
        sums[name] = Counter()
        for row in rows:
            sums[name].update(row.fields[name])
    return sums


@pytest.mark.parametrize("by", [("broker",), ("topic",), ("broker", "topic")])
def test_group_totals_equal_the_summary(by: tuple[str, ...]) -> None:
    roots = sorted({log.parent.parent for log in corpus("modern/data/killed").rglob("*.log")})
    roots += [SAMPLES / "damaged/4.1.1-stopped/d1", SAMPLES / "damaged/one-bit"]
    rows, summary, _ = summed(roots, *by)
    assert rows
    for name, total in totals(rows).items():
        got: Any = summary.fields[name]
        assert total == (Counter(got) if isinstance(got, dict) else got), name
    keys = [tuple(row.fields[word] for word in by) for row in rows]
    assert len(set(keys)) == len(keys)
    assert summed(roots, *by, jobs=3)[0] == rows


def test_findings_are_counted_in_their_group() -> None:
    roots = [SAMPLES / "damaged/4.1.1-stopped/d1", SAMPLES / "damaged/one-bit"]
    rows, _, found = summed(roots, "broker", "topic")
    wanted: dict[Any, Counter[str]] = defaultdict(Counter)
    for one in found:
        root = next(root for root in roots if one.path.startswith(str(root)))
        wanted[str(root), one.topic][one.code] += 1
    assert {
        (row.fields["broker"], row.fields["topic"]): row.fields["codes"]
        for row in rows
        if row.fields["codes"]
    } == wanted
    nodes = {row.fields["broker"]: row.fields["node_id"] for row in rows}
    assert nodes[str(roots[0])] == "1"


def test_file_and_partition_belong_to_the_directory_above(tmp_path: Path) -> None:
    topic = SAMPLES / "clean/4.1.1/d2"
    partition = next(path for path in sorted(topic.iterdir()) if path.is_dir())
    log = next(partition.glob("*.log"))
    for path in (partition, log):
        (row,), _, _ = summed([path], "broker")
        assert (row.fields["broker"], row.fields["partitions"]) == (str(topic), 1)


def test_group_rows_need_the_option() -> None:
    rows, _, _ = summed([SAMPLES / "damaged/one-bit"])
    assert rows == []


@pytest.mark.parametrize("width", [40, 100, 200])
def test_table_has_the_worst_first(width: int) -> None:
    rows, _, _ = summed(
        [SAMPLES / "clean/4.1.1/d2", SAMPLES / "damaged/4.1.1-stopped/d1"], "broker"
    )
    lines = list(group_lines(rows, width))
    # A path may go on below.
    text = "".join(line.split("  ")[0].removeprefix("1: ").rstrip() for line in lines[2:])
    assert text.index(f"4.1.1-stopped{os.sep}d1") < text.index("clean")
    assert all(len(line) <= width for line in lines)
    assert list(group_lines([], width)) == []


def test_long_table_gives_the_number_of_rows() -> None:
    (row,), _, _ = summed([SAMPLES / "damaged/one-bit"], "broker")
    lines = list(group_lines([row] * 100, 100))
    assert len(lines) == 43
    assert lines[-1].startswith("and 60 more")


def test_unlisted_findings_count_in_every_total(tmp_path: Path) -> None:
    """Past a thousand of a code a finding stands for others; a state keeps how many."""
    log = bytearray(b"".join(builders.batch(base_offset=n) for n in range(2500)))
    size = len(log) // 2500
    for number in range(0, 2500, 2):
        log[number * size + 17] ^= 1
    for base, data in ((0, bytes(log)), (2500, builders.batch(base_offset=2500))):
        path = tmp_path / "orders-0" / f"{base:020}.log"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    options = VerifyOptions(summary_by=("topic",))
    state = VerifyState(0)
    for _ in range(2):  # the second from what the state knows
        items = list(verify([str(tmp_path / "orders-0")], options, state=state))
        rows = {item.row: item.fields for item in items if isinstance(item, Row)}
        assert rows["summary"]["codes"]["crc-mismatch"] == 1250  # type: ignore[index]
        assert rows["summary-by"]["codes"]["crc-mismatch"] == 1250  # type: ignore[index]
        assert sum(getattr(item, "code", "") == "crc-mismatch" for item in items) == 1000
        state = VerifyState.read(b"".join(state.lines()), 0)
