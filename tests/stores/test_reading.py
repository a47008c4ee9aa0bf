"""What the engine asks of a store, and what it makes of a store's failures."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import builders
import pytest
from bulk import batches
from counting_store import CountingStore, no_answer, serve_counting_store

from kdump.engine.dump.run import dump
from kdump.engine.dump.split_reader import SplitReader
from kdump.engine.find.options import FindOptions
from kdump.engine.find.run import find_offset
from kdump.engine.reading.options import DumpOptions
from kdump.engine.verify.options import Item, VerifyOptions
from kdump.engine.verify.plan import plan as plan_items
from kdump.engine.verify.run import settings_for, verify, verify_item
from kdump.engine.work.pace import Pace
from kdump.engine.work.splits import Split
from kdump.engine.work.splits import plan as plan_splits
from kdump.errors import StoreError
from kdump.findings.finding import Finding
from kdump.findings.rows import Row
from kdump.storage.source import Source
from kdump.stores import windows

ROOT = "counted://files"
URI = f"{ROOT}/data/orders-0"
NOBODY = Pace([0], 0, None, lambda: None)
BASES = (0, 4000, 8000, 12000)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CountingStore]:
    """Serve a partition of four segments of half a megabyte, with indexes."""
    monkeypatch.setattr(windows, "_PAUSE_SECONDS", 0.0)
    partition = tmp_path / "data" / "orders-0"
    partition.mkdir(parents=True)
    for base in BASES:
        data = batches(base, 400)
        size = len(batches(base, 1))
        path = partition / f"{base:020}.log"
        path.write_bytes(data)
        path.with_suffix(".index").write_bytes(
            b"".join(
                (10 * n + 9).to_bytes(4, "big") + (n * size).to_bytes(4, "big")
                for n in range(8, 400, 8)
            )
        )
        path.with_suffix(".timeindex").write_bytes(
            (1_700_000_000_000 + base + 3999).to_bytes(8, "big") + (3999).to_bytes(4, "big")
        )
    with serve_counting_store(tmp_path) as served:
        yield served


def told(items: Any) -> tuple[list[Finding], list[Exception], list[Row]]:
    found: list[Finding] = []
    errors: list[Exception] = []
    rows: list[Row] = []
    for item in items:
        if isinstance(item, Finding):
            found.append(item)
        elif isinstance(item, Exception):
            errors.append(item)
        elif isinstance(item, Row):
            rows.append(item)
    return found, errors, rows


def fail_reads_of(store: CountingStore, name: str, number: int = 1) -> None:
    """From the given read of a file on, all of them fail."""
    seen = 0

    def before_read(path: str, position: int, size: int) -> None:
        nonlocal seen
        if path.endswith(name):
            seen += 1
            if seen >= number:
                raise no_answer(f"{ROOT}/{path}")

    store.before_read = before_read


def split_of(uri: str = URI) -> Split:
    (split,) = plan_splits([uri], DumpOptions())
    assert isinstance(split, Split)
    return split


def test_verify_sends_few_requests(store: CountingStore) -> None:
    _, errors, _ = told(verify([ROOT + "/data"], VerifyOptions()))
    assert not errors
    for kind in ("log", "index", "timeindex"):
        for base in BASES:
            assert store.of(f"data/orders-0/{base:020}.{kind}") <= 4
    assert sum(count for (what, _), count in store.requests.items() if what == "list") <= 8
    assert sum(count for (what, _), count in store.requests.items() if what == "status") <= 6


def test_dump_sends_two_requests_for_each_log(store: CountingStore) -> None:
    _, errors, _ = told(dump([URI], DumpOptions()))
    assert not errors
    assert [store.of(f"data/orders-0/{base:020}.log") for base in BASES] == [2] * len(BASES)


def test_lookup_opens_one_segment(store: CountingStore) -> None:
    _, errors, rows = told(find_offset([URI], 9001, FindOptions()))
    assert not errors
    assert [row.fields["offset"] for row in rows] == [9001]
    assert store.of("data/orders-0/00000000000000000000.log") == 0
    assert store.of("data/orders-0/00000000000000008000.log") <= 4


@pytest.mark.parametrize("name", [".log", ".index", ".timeindex"])
def test_verify_reports_an_unavailable_store(store: CountingStore, name: str) -> None:
    fail_reads_of(store, "4000" + name)
    found, errors, rows = told(verify([URI], VerifyOptions()))
    assert not found
    assert [str(error) for error in errors] == [
        f"{URI}/00000000000000004000{name}: the line is broken"
    ]
    assert not rows[-1].fields["finished"]


def test_failure_inside_a_log_is_reported(store: CountingStore, tmp_path: Path) -> None:
    large = tmp_path / "data/orders-0/00000000000000012000.log"
    large.write_bytes(batches(12000, 20_000))
    assert large.stat().st_size > windows.SMALL_FILE_BYTES
    fail_reads_of(store, "12000.log", 3)
    for run in (verify([URI], VerifyOptions()), dump([URI], DumpOptions())):
        found, errors, _ = told(run)
        assert not found
        assert [str(error) for error in errors] == [f"{URI}/{large.name}: the line is broken"]


def test_lookup_reports_an_unavailable_store(store: CountingStore) -> None:
    fail_reads_of(store, "8000.log")
    found, errors, rows = told(find_offset([URI], 9001, FindOptions()))
    assert not found
    assert not rows
    assert [type(error) for error in errors] == [StoreError]


def test_part_fails_when_the_store_does_not_answer(store: CountingStore) -> None:
    split = split_of()
    fail_reads_of(store, "8000.log")
    with pytest.raises(StoreError):
        list(SplitReader(split, DumpOptions()).items())


def test_removed_log_is_reported(store: CountingStore, tmp_path: Path) -> None:
    split = split_of()
    (tmp_path / "data/orders-0/00000000000000008000.log").unlink()
    found, errors, _ = told(SplitReader(split, DumpOptions()).items())
    assert not errors
    assert [(one.code, one.segment) for one in found] == [("file-vanished", 8000)]


def test_truncated_log_is_reported(store: CountingStore, tmp_path: Path) -> None:
    split = split_of()
    path = tmp_path / "data/orders-0/00000000000000008000.log"
    path.write_bytes(path.read_bytes()[: len(batches(0, 100))])
    found, errors, _ = told(SplitReader(split, DumpOptions()).items())
    assert not errors
    assert [one.code for one in found] == ["file-shrank"]


def test_removed_partition_is_reported(store: CountingStore, tmp_path: Path) -> None:
    (item,) = plan_items([URI], VerifyOptions(), None)
    assert isinstance(item, Item)
    for path in (tmp_path / "data/orders-0").iterdir():
        path.unlink()
    (tmp_path / "data/orders-0").rmdir()
    step = partial(
        verify_item, options=VerifyOptions(), settings=settings_for(VerifyOptions()), deadline=None
    )
    result = step(item, NOBODY)
    assert not result.errors
    assert "file-vanished" in [one.code for one in result.findings]


def test_log_without_an_index_is_not_split(store: CountingStore, tmp_path: Path) -> None:
    path = tmp_path / "data/orders-0/00000000000000004000.index"
    path.unlink()
    splits = [one for one in plan_splits([URI], DumpOptions(), 1) if isinstance(one, Split)]
    bases = [one.target.files[0].name.base_offset for one in splits]
    assert bases.count(4000) == 1
    assert bases.count(0) > 1


def test_file_of_a_store_never_grows(store: CountingStore, tmp_path: Path) -> None:
    path = tmp_path / "data/orders-0/00000000000000000000.log"
    with Source(f"{URI}/{path.name}") as source:
        size = source.size
        path.write_bytes(path.read_bytes() + builders.batch([builders.record(0, 0, b"k", b"v")]))
        assert source.refresh() == size
        assert not source.is_growing()
        assert source.read(0, size + 100) == path.read_bytes()[:size]
        assert not source.shrank
