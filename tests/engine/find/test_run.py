"""Lookups over many partitions: one row for each, in order, by any number of workers."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from corpus import corpus, names
from drivers import after
from long_runs import LONG
from lookup_rows import SIZE, TIME, batches, split, write_segment

from kdump.engine.find.options import FindOptions
from kdump.engine.find.run import find_offset, find_time
from kdump.engine.work.pace import Progress
from kdump.engine.work.pipeline import ONE_BY_ONE, Driver, Workers
from kdump.errors import NothingToDo, PathError
from kdump.findings.finding import Finding
from kdump.findings.rows import Row
from kdump.storage.log_dir import LogDir
from kdump.storage.targets import Selection, Target


def test_concurrently_deleted_files_are_listed_again(
    partition: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retention and the cleaner of a running broker take files away between listing and reading."""
    from kdump.engine.find import run

    plain, waiting = run.offset_items, [partition / f"{0:020}.log", None]

    def racing(target: Target, offset: int, options: FindOptions) -> Iterator[Row | Finding]:
        going = waiting.pop(0) if waiting else None
        if going is not None:
            going.unlink()
        yield from plain(target, offset, options)

    monkeypatch.setattr(run, "offset_items", racing)
    rows, codes = split(find_offset([str(partition)], 11, FindOptions(check=True)))
    assert [(row["segment"], row["offset"]) for row in rows] == [(10, 11)]
    assert codes == []

    def deleted(target: Target, offset: int, options: FindOptions) -> Iterator[Row | Finding]:
        shutil.rmtree(partition)
        yield from plain(target, offset, options)

    monkeypatch.setattr(run, "offset_items", deleted)
    assert split(find_offset([str(partition)], 2, FindOptions())) == ([], ["file-vanished"])


def test_partition_under_two_names_is_read_once(partition: Path) -> None:
    other = partition.parent / "moved"
    other.symlink_to(partition.parent / partition.name)
    rows = [
        item
        for item in find_offset([str(partition), str(other)], 0, FindOptions())
        if isinstance(item, Row)
    ]
    assert len(rows) == 1


def test_segment_files_select_their_partition_once(partition: Path) -> None:
    paths = [str(path) for path in sorted(partition.glob("*.log"))]
    rows, _ = split(find_offset([*paths, str(partition)], 12, FindOptions()))
    assert [row["offset"] for row in rows] == [12]


def test_one_row_for_each_partition(partition: Path) -> None:
    write_segment(partition.parent / "audit-0", 0, batches(0), [], [])
    write_segment(partition.parent / "audit-1.0123456789abcdef0123456789abcdef-delete", 0, b"")
    data = [str(partition.parent)]
    rows, _ = split(find_offset(data, 1, FindOptions()))
    assert [(row["topic"], row["partition"], row["offset"]) for row in rows] == [
        ("audit", 0, 1),
        ("orders", 7, 1),
    ]
    rows, _ = split(find_offset(data, 1, FindOptions(Selection("ord*"))))
    assert [row["topic"] for row in rows] == ["orders"]
    rows, _ = split(find_offset(data, 1, FindOptions(Selection(retired=True))))
    assert len(rows) == 3
    (nothing,) = find_offset(data, 1, FindOptions(Selection("none*")))
    assert isinstance(nothing, NothingToDo)


def test_file_outside_a_partition_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    (error,) = find_offset([str(tmp_path / "notes.txt")], 1, FindOptions())
    assert isinstance(error, PathError)


SAMPLES = Path(__file__).parents[3] / "sample-data"
CORPORA = [name for folder in ("modern/data", "old") for name in names(folder)]


def run_lookups(paths: list[Path], driver: Driver | None = None) -> list[list[object]]:
    """Give what several questions yield; errors as their text."""
    given = list(map(str, paths))
    explained = FindOptions(explain=True, check=True, isolation="read_committed")
    aged = FindOptions(list_offsets_version=0, max_offsets=3, now_ms=TIME)
    answers = (
        find_offset(given, 150, explained, driver=driver),
        find_time(given, TIME + 100_000, explained, driver=driver),
        find_time(given, -1, FindOptions(Selection(retired=True), as_is=True), driver=driver),
        find_time(given, 1_800_000_000_000, aged, driver=driver),
    )
    return [[repr(it) if isinstance(it, Exception) else it for it in found] for found in answers]


def directories(root: Path) -> list[Path]:
    """Give the data directories under a path, partitions that lie in them once more, and errors."""
    logs = [path for path in root.rglob("*") if path.suffix in (".log", ".kafka")]
    roots = sorted({log.parent.parent for log in logs})
    return [root / "nonesuch", *roots, logs[0], logs[0].parent, root / "nothing-0"]


def test_any_number_of_workers_gives_the_same_rows_in_the_same_order() -> None:
    paths = directories(SAMPLES / "damaged")
    alone = run_lookups(paths)
    assert run_lookups(paths, driver=Workers(3)) == alone
    assert {isinstance(one, str) for one in (alone[0][0], alone[0][-1])} == {True}
    assert sum(isinstance(one, Row) for one in alone[0]) > 40


@pytest.mark.parametrize("name", CORPORA if LONG else CORPORA[::4])
def test_any_number_of_workers_on_corpora(name: str) -> None:
    paths = directories(corpus(name))
    assert run_lookups(paths, driver=Workers(3)) == run_lookups(paths)


def test_answers_do_not_wait_for_the_next_partition(partition: Path) -> None:
    """The second one is not even there before the first is answered for."""
    later = partition.parent / "audit-0"
    found = find_offset([str(partition), str(later)], 1, FindOptions())
    rows, _ = split(_until_row(found))
    assert rows[0]["topic"] == "orders"
    write_segment(later, 0, batches(0), [], [])
    rows, _ = split(found)
    assert [row["topic"] for row in rows] == ["audit"]


def _until_row(items: Iterator[object]) -> Iterator[object]:
    for item in items:
        yield item
        if isinstance(item, Row):
            return


def test_vanished_partition_is_a_note(partition: Path) -> None:
    other = partition.parent / "audit-0"
    write_segment(other, 0, batches(0), [], [])
    progress = Progress()
    items = list(
        find_offset(
            [str(partition.parent)],
            1,
            FindOptions(),
            progress=progress,
            driver=after(lambda: shutil.rmtree(other), Workers(2)),
        )
    )
    gone = items[0]
    assert isinstance(gone, Finding)
    assert (gone.code, gone.path, gone.topic) == ("file-vanished", str(other), "audit")
    assert isinstance(items[-1], Row)
    assert items[-1].fields["topic"] == "orders"
    assert (progress.planned_items, progress.items_done, progress.planned_bytes) == (2, 2, 0)


def test_partition_replaced_by_a_file_is_an_error(partition: Path) -> None:
    def change() -> None:
        shutil.rmtree(partition)
        partition.write_text("x")

    (error,) = find_offset([str(partition)], 1, FindOptions(), driver=after(change, ONE_BY_ONE))
    assert isinstance(error, PathError)
    assert error.path == str(partition)


def test_reads_of_check_are_planned(partition: Path) -> None:
    progress = Progress()
    options = FindOptions(check=True)
    list(find_offset([str(partition)], 1, options, driver=Workers(2), progress=progress))
    assert progress.planned_bytes == 5 * SIZE


def test_data_directory_is_listed_once(partition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        write_segment(partition.parent / f"audit-{number}", 0, batches(0, 2), [], [])
    listed = []
    open_directory = LogDir.open
    monkeypatch.setattr(LogDir, "open", lambda path: listed.append(path) or open_directory(path))
    marks = partition.parent / "replication-offset-checkpoint"
    marks.write_text("0\n1\naudit 0 1\n")
    paths = [str(path) for path in sorted(partition.parent.glob("audit-*"))]
    found = find_time(paths, -1, FindOptions())
    assert [row["offset"] for row in split(_until_row(found))[0]] == [1]
    next(item for item in found if isinstance(item, Row))
    assert len(listed) == 1
    marks.write_text("0\n3\naudit 2 1\naudit 3 2\naudit 4 3\n")
    assert [row["offset"] for row in split(found)[0]] == [1, 2, 3]
    assert len(listed) == 2
