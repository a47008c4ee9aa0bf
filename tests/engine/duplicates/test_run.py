"""Duplicates in recorded directories: against the rows of dump, and however the work is cut."""

from collections import defaultdict
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from bulk import two_partitions
from dumped import run_dump
from long_runs import LONG

from kdump.engine.duplicates.entries import DuplicateOptions
from kdump.engine.duplicates.run import duplicates
from kdump.engine.usage.placement import PlacementOptions
from kdump.engine.usage.placement_rows import placement
from kdump.engine.work.pipeline import Workers
from kdump.engine.work.spool import SortedRun, Spool, merge_runs
from kdump.errors import PathError
from kdump.findings.rows import Row

SAMPLES = Path(__file__).parents[3] / "sample-data"
DIRECTORIES = sorted(
    {
        path.parent.parent
        for end in ("log", "kafka")
        for path in SAMPLES.rglob(f"*.{end}")
        if "remote" not in path.parts  # remote storage is not a data directory
    }
)
#: What an idle controller writes twice a second.
NO_OP = "01140000"


def rows_of(path: Path, options: DuplicateOptions, **given: Any) -> list[Row]:
    return [one for one in duplicates([str(path)], options, **given) if isinstance(one, Row)]


#: Three tests in a row ask for one directory's.
records_of = lru_cache(1)(lambda path: [row for row in run_dump(path)[0] if row["row"] == "record"])


@pytest.mark.parametrize(
    ("path", "by"),
    [
        pytest.param(path, by, id=f"{'-'.join(path.parts[-2:])}-{'-'.join(by)}")
        for number, path in enumerate(DIRECTORIES)
        for by in (("key",), ("key", "value"), ("value",))
        if LONG or by != ("value",) or not number % 4
    ],
)
def test_duplicates_in_sample_data_are_grouped(path: Path, by: tuple[str, ...]) -> None:
    groups: dict[Any, set[Any]] = defaultdict(set)
    for row in records_of(path):
        if row["control"] is None:
            said = tuple(row[part] for part in by)
            is_idle = row["topic"] == "__cluster_metadata" and row["value"] == NO_OP
            if said != (None,) * len(by) and not is_idle:
                place = row["partition"], row["offset"], row["timestamp_ms"]
                if path.name == "0.7.2":  # messages of a wrapper share an offset
                    continue
                groups[row["topic"], said].add(place)
    wanted = {group: places for group, places in groups.items() if len(places) > 1}
    summary, *rows = rows_of(path, DuplicateOptions(by=by))
    if path.name != "0.7.2":
        assert summary.fields["groups"] == len(wanted)
        found = sorted(
            (row.fields["topic"], row.fields["partition"], row.fields["offset"]) for row in rows
        )
        assert found == sorted(
            (topic, *place[:2]) for (topic, _), places in wanted.items() for place in places
        )
    if by == ("key", "value"):
        assert rows_of(path, DuplicateOptions(by=by), driver=Workers(2)) == [summary, *rows]


def test_pieces_of_logs(tmp_path: Path) -> None:
    two_partitions(tmp_path)
    options = DuplicateOptions(by=("value",))
    whole = list(duplicates([str(tmp_path)], options))
    assert len(whole) > 1
    assert list(duplicates([str(tmp_path)], options, split_bytes=1)) == whole
    keys = PlacementOptions(partitions=3)
    placed = list(placement([str(tmp_path)], keys))
    assert len(placed) > 1
    assert list(placement([str(tmp_path)], keys, split_bytes=1)) == placed


def test_replica_is_not_a_duplicate(tmp_path: Path) -> None:
    for broker in ("a", "b"):
        two_partitions(tmp_path / broker)
    options = DuplicateOptions(by=("key", "value"))
    one = rows_of(tmp_path / "a", options)
    both = [
        row
        for row in duplicates([str(tmp_path / "a"), str(tmp_path / "b")], options)
        if isinstance(row, Row)
    ]
    assert both[1:] == one[1:]
    assert both[0].fields["replica_copies"] == one[0].fields["records_count"]


@pytest.mark.parametrize("buckets", [1, 2, 7])
def test_spool_sorts_entries(tmp_path: Path, buckets: int) -> None:
    entries = [
        number.to_bytes(4, "big") * (1 + number % 5) for number in range(0, 1 << 32, 9973 << 10)
    ]
    spool = Spool(str(tmp_path), buckets, held_bytes=2000)
    for entry in reversed(entries):
        spool.add(entry)
    spool.flush()
    assert len(spool.runs) > 3
    assert [one for bucket in range(buckets) for one in merge_runs(spool.runs, bucket)] == entries


def test_large_entries_and_short_files(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path))
    entries = [b"a" * 3_000_000, b"b", b"", b"c" * 5000]
    for entry in entries:
        spool.add(entry)
    spool.flush()
    assert list(merge_runs(spool.runs)) == sorted(entries)
    (run,) = spool.runs
    with pytest.raises(PathError, match="shorter"):
        list(merge_runs([SortedRun(run.path, (0, run.bounds[1] + 10))]))


def test_the_rest_of_a_spool_is_a_block_where_it_is_little(tmp_path: Path) -> None:
    few, many, both = (Spool(str(tmp_path)) for _ in range(3))
    few.add(b"b")
    few.add(b"a")
    both.add_block(few.rest())
    assert not few.runs
    assert few.rest() == b""
    many.add(b"c" * 100_000)
    assert many.rest() == b""
    both.flush()
    assert list(merge_runs([*both.runs, *many.runs])) == [b"a", b"b", b"c" * 100_000]


def test_without_a_scratch_directory(tmp_path: Path) -> None:
    two_partitions(tmp_path / "data")
    with pytest.raises(PathError, match="nonesuch"):
        list(duplicates([str(tmp_path / "data")], DuplicateOptions(scratch="/nonesuch")))
