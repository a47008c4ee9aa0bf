"""Which files of a partition a start works with, release by release."""

from pathlib import Path

from builders import batch, record
from each import each
from segments import offset_index

from kdump.broker.partition_files import Files
from kdump.broker.settings import Settings
from kdump.broker.versions import Version
from kdump.storage.file_records import DEFAULT_LIMIT
from kdump.storage.local_log import LocalLog
from kdump.storage.names import Kind

ALL = ("log", "index", "timeindex")


def files_in(directory: Path, broker: Version, *names: str) -> Files:
    """Write files, of which a log at base B holds the offsets B to B + 4, and tidy them."""
    directory.mkdir(exist_ok=True)
    for name in names:
        stem, _, rest = name.partition(".")
        path = directory / f"{int(stem):020}.{rest}"
        log = batch([record()] * 5, base_offset=int(stem), last_offset_delta=4)
        path.write_bytes(log if rest.startswith("log") else b"")
    log = LocalLog(str(directory), [path.name for path in directory.iterdir()])
    return Files(log, broker, Settings(), DEFAULT_LIMIT)


def list_kinds(files: Files) -> dict[int, set[str]]:
    """Say which kinds of files there are of each base; a swapped one has a + behind it."""
    return {
        base: {kind.name + "+" * path.endswith(".swap") for kind, path in of.items()}
        for base, of in files.by_base.items()
    }


def names_of(base: int, suffix: str = "", kinds: tuple[str, ...] = ALL) -> list[str]:
    return [f"{base}.{kind}{suffix}" for kind in kinds]


EVERY = {"LOG", "OFFSET_INDEX", "TIME_INDEX"}


@each(
    ("broker", "left", "waits"),
    [
        ((0, 8, 2), {"LOG+"}, False),
        ((0, 9), {"LOG", "TIME_INDEX"}, True),
        ((0, 10, 2), {"LOG", "TIME_INDEX"}, True),
        ((0, 11), {"LOG"}, True),
        ((2, 8), {"LOG"}, True),
        ((3, 0), {"LOG+", "OFFSET_INDEX+"}, False),
    ],
)
def test_swapped_log_replaces_its_index_too(
    broker: Version, left: set[str], waits: bool, tmp_path: Path
) -> None:
    swap = names_of(10, ".swap", ("log", "index"))
    files = files_in(tmp_path / "t-0", broker, *names_of(0), *names_of(10), *swap)
    assert list_kinds(files) == {0: EVERY, 10: left}
    assert files.swapped == [10]
    path = str(tmp_path / "t-0" / f"{10:020}.log.swap")
    assert files.swaps == ({10: path} if waits else {})
    assert files.pieces == {}
    assert files.replaced == ([10] if broker >= (3, 0) else [])


@each(
    ("broker", "left"),
    [
        ((0, 8, 2), EVERY),
        ((0, 10, 2), EVERY),
        ((0, 11), {"LOG"}),
        ((2, 8), {"LOG"}),
        ((3, 0), {"LOG", "OFFSET_INDEX+", "TIME_INDEX"}),
    ],
)
def test_swapped_index_alone(broker: Version, left: set[str], tmp_path: Path) -> None:
    files = files_in(tmp_path / "t-0", broker, *names_of(0), *names_of(10), "10.index.swap")
    assert list_kinds(files) == {0: EVERY, 10: left}
    assert (files.swapped, files.swaps, files.replaced) == ([], {}, [])


def test_swap_without_its_segment_is_renamed(tmp_path: Path) -> None:
    for broker, bases in (((0, 8, 2), [0, 10]), ((2, 8), [0]), ((3, 0), [0, 10])):
        files = files_in(tmp_path / "t-0", broker, *names_of(0), "10.log.swap")
        assert (files.bases(), files.swapped) == (bases, [10])


@each(
    ("broker", "swapped"),
    [((0, 10), [3, 5, 7]), ((1, 1), [3, 5, 7]), ((2, 0), [3]), ((3, 0), [3]), ((4, 1), [3])],
)
def test_swaps_of_an_unfinished_split_are_deleted(
    broker: Version, swapped: list[int], tmp_path: Path
) -> None:
    """Those at or above the least that was still being cleaned, since segments are split (R15)."""
    cleaned = ("5.log.cleaned", "9.log.cleaned", "9.index.cleaned", "1.log.deleted")
    swaps = [f"{base}.log.swap" for base in (3, 5, 7)]
    files = files_in(tmp_path / "t-0", broker, *names_of(0), *cleaned, *swaps)
    assert files.swapped == swapped


def test_files_in_the_range_of_swapped_logs_are_deleted(tmp_path: Path) -> None:
    """From the lowest up to the end of the last (since 3.0); snapshots go with them."""
    old = [name for base in (5, 10, 12, 15, 20) for name in names_of(base)]
    swaps = ["10.log.swap", "10.index.swap", "14.log.swap"]
    snapshots = [f"{at}.snapshot" for at in (9, 10, 18, 19)]
    files = files_in(tmp_path / "t-0", (3, 0), *old, "17.index", *swaps, *snapshots)
    assert files.swapped == [10, 14]
    assert files.replaced == [10, 12, 15]
    assert list_kinds(files) == {
        5: EVERY, 10: {"LOG+", "OFFSET_INDEX+"}, 14: {"LOG+"}, 20: EVERY
    }  # fmt: skip
    assert sorted(files.snapshots.kept) == [9, 19]
    assert [*files.pieces] == [14]  # looking for its end has made it an index
    assert files.bases() == [5, 10, 14, 20]
    assert files.open(14) is files.pieces[14]
    assert files.open(10) is not files.open(10)
    opened = files.open(10)
    assert (opened.base_offset, opened.path) == (10, files.by_base[10][Kind.LOG])
    assert (opened.broker, opened.limit, opened.is_part) == ((3, 0), DEFAULT_LIMIT, False)
    assert files.segment(10, {}, part=(0, 0)).is_part


def test_end_of_a_swapped_log_is_found_by_its_index(tmp_path: Path) -> None:
    """One that names an offset that is not there makes the segment seem empty."""
    directory = tmp_path / "t-0"
    files_in(directory, (3, 0), *names_of(10), "8.log.swap", "8.index.swap")
    (directory / f"{8:020}.index.swap").write_bytes(offset_index([(9, 0)]))
    assert files_in(directory, (3, 0)).replaced == []
    (directory / f"{8:020}.index.swap").write_bytes(offset_index([(4, 0)]))
    assert files_in(directory, (3, 0)).replaced == [10]


def test_index_without_a_log_is_not_a_segment(tmp_path: Path) -> None:
    files = files_in(tmp_path / "t-0", (4, 1), *names_of(0), "10.index")
    assert files.bases() == [0]
    assert sorted(files.by_base) == [0, 10]
