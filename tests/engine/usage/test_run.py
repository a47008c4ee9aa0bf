"""What takes up bytes: against the rows of dump, however the work is cut and whoever does it."""

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import builders
import damage
import pytest
from bulk import two_partitions
from corpus import corpus, names
from dumped import run_dump
from each import each
from long_runs import LONG

from kdump.engine.usage.run import usage
from kdump.engine.usage.step import LONGEST_KEY, STEPS_MS, UsageOptions
from kdump.engine.work.pipeline import Workers
from kdump.findings.finding import Finding
from kdump.findings.rows import Row

Group = tuple[Any, ...]
CORPORA = [
    "modern/data/clean", "modern/data/killed", "old/mixed-282.clean", "old/v0-0822.clean",
    "old/v1-01022.clean", "old/v07-072.clean", "old/damage-01022.all.before",
]  # fmt: skip
NAMES = {"producer": "producer_id", "hour": "time_ms", "day": "time_ms"}


def used(path: Path, by: str, **given: Any) -> tuple[list[Row], Row, list[Finding]]:
    """Give rows, the summary and findings."""
    keywords = {
        name: given.pop(name) for name in ("driver", "split_bytes", "groups_kept") if name in given
    }
    options = UsageOptions(by=tuple(by.split(",")), **given)
    items = list(usage([str(path)], options, **keywords))
    rows = [item for item in items if isinstance(item, Row)]
    assert [row.row for row in rows] == ["usage"] * (len(rows) - 1) + ["usage-summary"]
    found = [item for item in items if isinstance(item, Finding)]
    assert len(found) + len(rows) == len(items), items
    return rows[:-1], rows[-1], found


def group_of(fields: dict[str, Any], by: str) -> Group:
    words = by.split(",")
    if "partition" in words and "topic" not in words:
        words = ["topic", *words]
    return tuple(fields[NAMES.get(word, word)] for word in words)


def counted(path: Path, by: str, *, deep: bool = False) -> dict[Group, list[Any]]:
    """Add up the batches of `dump --batches`: batches, records, bytes, segments."""
    sums: dict[Group, list[Any]] = defaultdict(lambda: [0, 0, 0, set()])
    for row in run_dump(path, mode="batches", deep=deep)[0]:
        if not row["crc_valid"]:
            continue
        if row["producer_id"] == -1:
            row["producer_id"] = None
        for word, step_ms in STEPS_MS.items():
            if word in by:
                latest = row["max_timestamp_ms"]
                timed = latest is not None and latest >= 0
                row["time_ms"] = latest // step_ms * step_ms if timed else None
        of = sums[group_of(row, by)]
        of[0] += 1
        of[1] = (
            None if of[1] is None or row["records_count"] is None else of[1] + row["records_count"]
        )
        of[2] += row["size_bytes"]
        of[3].add((row["topic"], row["partition"], row["segment"]))
    return sums


def data_directories(name: str) -> list[Path]:
    root = corpus(name)
    return sorted(
        {path.parent.parent for end in ("log", "kafka") for path in root.rglob(f"*.{end}")}
    )


@each("name", sorted({*CORPORA, *(names("old") if LONG else ())}))
@each("by", ["topic", "partition", "topic,producer,codec", "hour", "partition,day,producer,codec"])
def test_batches_of_corpora_add_up(name: str, by: str) -> None:
    for root in data_directories(name):
        for deep in (False, True):
            rows, summary, _ = used(root, by, deep=deep)
            wanted = counted(root, by, deep=deep)
            assert {
                group_of(row.fields, by): [
                    row.fields[name]
                    for name in ("batches", "records_count", "size_bytes", "segments")
                ]
                for row in rows
            } == {group: [*sums[:3], len(sums[3])] for group, sums in wanted.items()}
            logs = sum(
                path.stat().st_size
                for end in ("log", "kafka")
                for path in root.glob(f"*-[0-9]*/*.{end}")
                if not path.parent.name.endswith(("-delete", "-future", "-stray"))
            )
            total = summary.fields["size_bytes"]
            assert total == sum(row.fields["size_bytes"] for row in rows)
            assert total + summary.fields["bytes_not_counted"] == logs
            sizes = [row.fields["size_bytes"] for row in rows]
            if "time_ms" not in rows[0].fields:
                assert sizes == sorted(sizes, reverse=True)


@each("name", sorted({*CORPORA, *(names("old") if LONG else ())}))
def test_keys_of_corpora_add_up(name: str) -> None:
    for root in data_directories(name):
        wanted: dict[Group, list[int]] = defaultdict(lambda: [0, 0])
        for row in run_dump(root)[0]:
            if row["row"] != "record" or row["control"] is not None:
                continue
            key = None if row["key"] is None else bytes.fromhex(row["key"])
            of = wanted[row["topic"], key]
            of[0] += 1
            of[1] += len(key or b"") + len(row["value"] or "") // 2
            of[1] += sum(len(h["key"]) // 2 + len(h["value"] or "") // 2 for h in row["headers"])
        rows, summary, _ = used(root, "topic,key")
        got = {
            group_of(row.fields, "topic,key"): [
                row.fields["records_count"],
                row.fields["plain_bytes"],
            ]
            for row in rows
            if row.fields["key_size_bytes"] is None or row.fields["key_size_bytes"] <= LONGEST_KEY
        }
        assert got == {
            group: sums for group, sums in wanted.items() if len(group[1] or b"") <= LONGEST_KEY
        }
        assert summary.fields["groups"] == len(rows)
        assert summary.fields["plain_bytes"] == sum(of[1] for of in wanted.values())


@pytest.mark.parametrize("by", ["topic", "partition,codec", "key", "producer", "hour,codec"])
def test_splits_do_not_change_the_result(tmp_path: Path, by: str) -> None:
    two_partitions(tmp_path)
    wanted = used(tmp_path, by)
    assert wanted[0]
    for split_bytes in (1, 4096, 20_000):
        assert used(tmp_path, by, split_bytes=split_bytes) == wanted
    assert used(tmp_path, by, split_bytes=4096, driver=Workers(3)) == wanted


def test_pieces_that_do_not_join_are_read_as_one(tmp_path: Path) -> None:
    log = two_partitions(tmp_path) / "orders-0" / f"{0:020}.log"
    data = log.read_bytes()
    log.write_bytes(damage.flip(data, len(data) // 2 + 200))
    wanted = used(tmp_path, "partition")
    assert [found.code for found in wanted[2]] == ["crc-mismatch"]
    assert wanted[1].fields["bytes_not_counted"] == wanted[2][0].size_bytes
    for split_bytes in (1, 4096):
        assert used(tmp_path, "partition", split_bytes=split_bytes) == wanted


def test_hours_are_ordered_with_shares_of_the_largest(tmp_path: Path) -> None:
    hour = STEPS_MS["hour"]
    log = b"".join(
        builders.batch([builders.record()], base_offset=n, base_timestamp=time, max_timestamp=time)
        for n, time in enumerate((5 * hour + 1, 2 * hour, 5 * hour, -1, 6 * hour - 1))
    )
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{0:020}.log").write_bytes(log)
    rows, _, _ = used(tmp_path, "hour")
    assert [
        (row.fields["time_ms"], row.fields["batches"], row.fields["share_of_largest"])
        for row in rows
    ] == [(None, 1, 0.333333), (2 * hour, 1, 0.333333), (5 * hour, 3, 1.0)]
    assert [row.fields["time_ms"] for row in used(tmp_path, "hour", top=1)[0]] == [5 * hour]
    assert [row.fields["time_ms"] for row in used(tmp_path, "day")[0]] == [None, 0]


def test_top_rows_bound_the_other_groups(tmp_path: Path) -> None:
    log = tmp_path / "orders-0" / f"{0:020}.log"
    log.parent.mkdir()
    records = [builders.record(n, key=b"k%d" % (n % 7), value=b"v" * n) for n in range(70)]
    log.write_bytes(builders.batch(records))
    everything, _, _ = used(tmp_path, "key")
    rows, summary, _ = used(tmp_path, "key", top=2)
    assert rows == everything[:2]
    assert summary.fields["groups"] == 7
    assert summary.fields["unlisted_plain_bytes_at_most"] == everything[2].fields["plain_bytes"]


def test_more_keys_than_the_limit(tmp_path: Path) -> None:
    """Every row still tells a range that the truth lies in; so does the summary, of the rest."""
    log = tmp_path / "orders-0" / f"{0:020}.log"
    log.parent.mkdir()
    truth: Counter[bytes] = Counter()
    parts = []
    for batch in range(80):
        records = []
        for n in range(40):
            key = b"hot" if n % 4 == 0 else b"%06d" % (batch * 40 + n)
            truth[key] += len(key) + n
            records.append(builders.record(n, key=key, value=b"v" * n))
        parts.append(builders.batch(records, base_offset=40 * batch))
    log.write_bytes(b"".join(parts))
    (log.parent / f"{40 * 80:020}.log").touch()
    for split_bytes in (None, 20_000):
        rows, summary, _ = used(tmp_path, "key", groups_kept=50, split_bytes=split_bytes)
        assert summary.fields["groups"] is None
        assert not summary.fields["exact"]
        assert summary.fields["plain_bytes"] == truth.total()
        assert rows[0].fields["key"] == b"hot"
        assert len(rows) <= 50
        listed = set()
        for row in rows:
            fields: Any = row.fields
            listed.add(fields["key"])
            assert fields["plain_bytes"] <= truth[fields["key"]] <= fields["plain_bytes_at_most"]
        largest = max(size for key, size in truth.items() if key not in listed)
        least: Any = summary.fields["unlisted_plain_bytes_at_most"]
        assert largest <= least


def test_long_keys_are_distinguished(tmp_path: Path) -> None:
    log = tmp_path / "orders-0" / f"{0:020}.log"
    log.parent.mkdir()
    start = b"x" * 5000
    keys = [start + b"1", start + b"2", start + b"2", start + b"22", b"x" * LONGEST_KEY]
    log.write_bytes(builders.batch([builders.record(n, 0, k, b"v") for n, k in enumerate(keys)]))
    rows, _, _ = used(tmp_path, "key")
    assert sorted(
        (row.fields["key_size_bytes"], row.fields["records_count"], row.fields["plain_bytes"])
        for row in rows
    ) == [(512, 1, 513), (5001, 1, 5002), (5001, 2, 10_004), (5002, 1, 5003)]
    assert all(start.startswith(row.fields["key"]) for row in rows)  # type: ignore[arg-type]


def test_control_records_have_no_key(tmp_path: Path) -> None:
    log = tmp_path / "orders-0" / f"{0:020}.log"
    log.parent.mkdir()
    log.write_bytes(builders.batch() + builders.marker(1, base_offset=1, producer_id=4))
    rows, summary, _ = used(tmp_path, "key")
    assert [row.fields["key"] for row in rows] == [b"key"]
    assert summary.fields["control_records"] == 1
    (row,), _, _ = used(tmp_path, "topic")
    assert (row.fields["control_batches"], row.fields["batches"]) == (1, 2)


def test_batch_with_two_findings_is_lost_once(tmp_path: Path) -> None:
    log = tmp_path / "orders-0" / f"{0:020}.log"
    log.parent.mkdir()
    strange = builders.batch(base_offset=1, attributes=7)
    log.write_bytes(builders.batch() + strange)
    rows, summary, found = used(tmp_path, "key")
    assert {one.code for one in found} == {"codec-unknown", "records-undecodable"}
    assert summary.fields["bytes_not_counted"] == len(strange)
    assert rows[0].fields["records_count"] == 1
    assert used(tmp_path, "codec")[1].fields["bytes_not_counted"] == 0


def test_empty_log_has_no_rows(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{0:020}.log").touch()
    rows, summary, _ = used(tmp_path, "partition")
    assert rows == []
    assert summary.fields["size_bytes"] == 0
