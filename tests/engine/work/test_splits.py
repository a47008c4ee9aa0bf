"""However a directory is cut into splits, what they read together is what one reader reads."""

import pickle
import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import builders
import damage
import pytest
from corpus import corpus, files, names
from dumped import run_dump
from each import each
from long_runs import LONG
from oracle import oracle
from splitting import read_split, read_splits, split_up

from kdump.engine.dump.split_reader import ProvedReader
from kdump.engine.reading.options import DumpOptions
from kdump.engine.reading.split_edges import SplitEdges, edges_meet
from kdump.engine.work import splits
from kdump.engine.work.splits import plan
from kdump.findings.finding import Finding
from kdump.storage import places

SIZES = (1, 64 << 10, 16 << 20, None)


def records(base: int, count: int, size: int = 100) -> bytes:
    some = [builders.record(n, n, b"k%d" % n, b"v" * size) for n in range(count)]
    return builders.batch(some, base_offset=base, base_timestamp=1_700_000_000_000 + base)


def log_of(batches: list[bytes]) -> tuple[bytes, list[int]]:
    """Join batches; give where each starts."""
    starts, data = [], b""
    for one in batches:
        starts.append(len(data))
        data += one
    return data, starts


def index_of(entries: list[tuple[int, int]]) -> bytes:
    return b"".join(struct.pack(">ii", offset, position) for offset, position in entries)


class Directory:
    """`orders-0` with a closed segment of 40 batches of 10 records and an active one."""

    def __init__(self, root: Path) -> None:
        self.path = root / "orders-0"
        self.path.mkdir()
        self.batches = [records(10 * n, 10) for n in range(40)]
        self.data, self.starts = log_of(self.batches)
        self.log = self.path / f"{0:020}.log"
        self.index = self.path / f"{0:020}.index"
        self.write(self.data)
        self.claim([(10 * n + 9, start) for n, start in enumerate(self.starts) if n])
        (self.path / f"{400:020}.log").write_bytes(records(400, 10))

    def write(self, data: bytes) -> None:
        self.log.write_bytes(data)

    def claim(self, entries: list[tuple[int, int]]) -> None:
        self.index.write_bytes(index_of(entries))


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    return Directory(tmp_path)


def same(path: Path, split_bytes: int | None, **options: object) -> int:
    """Compare, and say how many logs were read twice."""
    ours, again = read_splits(path, split_bytes, **options)
    assert ours == run_dump(path, **options)
    return again


@pytest.mark.parametrize("split_bytes", [1, 1000, 4096, 5000, 20_000, 1 << 20, None])
def test_sound_log_is_cut_and_never_read_twice(
    directory: Directory, split_bytes: int | None
) -> None:
    assert same(directory.path, split_bytes) == 0
    pieces = [split for split in split_up(directory.path, split_bytes) if split.segment is not None]
    wanted = 40 if split_bytes == 1 else len(directory.data) // (split_bytes or 1 << 30)
    assert abs(len(pieces) - wanted) <= 1 + wanted // 3
    assert same(directory.path, split_bytes, mode="batches") == 0


def test_each_batch_is_read_by_one_split(directory: Directory) -> None:
    read = [
        row["base_offset"]
        for split in split_up(directory.path, 4096, mode="batches")
        for row in read_split(split, mode="batches")[0][0]
    ]
    assert read == [10 * n for n in range(41)]


def test_small_logs_are_packed_and_the_active_one_is_never_cut(tmp_path: Path) -> None:
    path = tmp_path / "orders-0"
    path.mkdir()
    for base in range(0, 100, 10):
        (path / f"{base:020}.log").write_bytes(records(base, 10))
    (path / f"{100:020}.log").write_bytes(b"".join(records(n, 10) for n in range(100, 2000, 10)))
    size = len(records(0, 10))
    splits = split_up(path, 3 * size + 10)
    assert [len(split.target.files) for split in splits] == [3, 3, 3, 1, 1]
    assert all(split.segment is None for split in splits)
    assert same(path, 3 * size + 10) == 0


def test_entry_that_points_into_a_batch_is_passed_over(directory: Directory) -> None:
    directory.claim([(10 * n, start + 7) for n, start in enumerate(directory.starts) if n])
    assert same(directory.path, 5000) == 0


@pytest.mark.parametrize("entries", [[], [(9, 1 << 30)], [(0, 0)] * 50, [(-5, -7), (3, 2)]])
def test_useless_index(directory: Directory, entries: list[tuple[int, int]]) -> None:
    directory.claim(entries)
    assert same(directory.path, 5000) == 0


def test_no_index(directory: Directory) -> None:
    directory.index.unlink()
    assert same(directory.path, 5000) == 0
    assert same(directory.path, 1) == 0


def test_log_in_a_store_without_an_index_is_not_cut(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where to cut it would take a request for each batch."""
    directory.index.unlink()
    assert len(split_up(directory.path, 1)) > 20
    as_in_store = SimpleNamespace(**vars(places) | {"is_uri": lambda path: True})
    monkeypatch.setattr(splits, "places", as_in_store)
    assert len(split_up(directory.path, 1)) == 2


def test_cuts_are_limited(directory: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splits, "_MOST_CUTS", 5)
    assert len(split_up(directory.path, 1)) == 6 + 1


def test_entry_that_points_at_a_batch_inside_a_value(directory: Directory) -> None:
    """A valid batch that is no batch of this log: all pieces are thrown away."""
    inner = records(155, 3)
    outer = builders.batch(
        [builders.record(0, 0, b"", inner)], base_offset=100, last_offset_delta=9
    )
    batches = [*directory.batches[:10], outer, *directory.batches[11:]]
    data, starts = log_of(batches)
    directory.write(data)
    inside = data.index(inner)
    directory.claim([(109, inside), *((10 * n, starts[n]) for n in range(20, 40))])
    read = split_up(directory.path, inside - 50)
    assert [split.start for split in read[:2]] == [0, inside - 50]
    assert same(directory.path, inside - 50) == 1


HARMS: list[Callable[[bytes], bytes]] = [
    lambda data: damage.flip(data, 5000),
    lambda data: damage.zero(data, 9000, 4000),
    lambda data: damage.cut(data, len(data) - 30),
    lambda data: damage.remove(data, 10_000, 17),
    lambda data: damage.swap(data, 0, 20_000, 1500),
    lambda data: damage.repeat(data, 3000, 2000),
]


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("split_bytes", [1, 4096, 9001] if LONG else [1, 4096])
def test_damaged_log_is_read_again_as_one(
    directory: Directory, harm: Callable[[bytes], bytes], split_bytes: int
) -> None:
    directory.write(harm(directory.data))
    was_cut = any(split.segment is not None for split in split_up(directory.path, split_bytes))
    assert same(directory.path, split_bytes) == was_cut
    assert was_cut or split_bytes == 1
    same(directory.path, split_bytes, mode="batches")


def proved(path: Path, split_bytes: int, **options: object) -> tuple[list[object], list[Finding]]:
    """Read all pieces by readers that prove what is before them."""
    rows: list[object] = []
    found: list[Finding] = []
    for split in split_up(path, split_bytes, **options):
        (some, more), _ = read_split(split, ProvedReader, **options)
        rows += some
        found += more
    return rows, found


@pytest.mark.parametrize("harm", [bytes, *HARMS])
def test_proved_pieces_are_together_the_whole_log(
    directory: Directory, harm: Callable[[bytes], bytes]
) -> None:
    directory.write(harm(directory.data))
    rows, found = proved(directory.path, 4096)
    whole, of_whole = run_dump(directory.path)
    assert rows == whole
    assert [one[:9] for one in found] == [one[:9] for one in of_whole]  # the rest is advice


@each(
    "options",
    [
        {"from_time_ms": 1_700_000_000_222},
        {"from_time_ms": 1_800_000_000_000},
        {"from_offset": 155, "to_offset": 233},
        {"to_offset": 100},
        {"mode": "batches"},
        {"decompress_limit": 900},
    ],
)
def test_proved_pieces_have_what_is_asked_for(
    directory: Directory, options: dict[str, object]
) -> None:
    assert proved(directory.path, 5000, **options) == run_dump(directory.path, **options)


def test_proved_piece_of_a_log_that_changed_has_all_or_nothing(directory: Directory) -> None:
    first, second, *_ = split_up(directory.path, 5000)
    directory.write(directory.data[: directory.starts[30]])
    assert len(read_split(first, ProvedReader)[0][0]) == 300
    assert read_split(second, ProvedReader)[0] == ([], [])
    directory.log.unlink()
    assert read_split(first, ProvedReader)[0] == ([], [])


def test_offsets_that_fall_between_two_pieces(directory: Directory) -> None:
    """Each piece rises by itself; only the seam shows that they do not fit."""
    batches = [*directory.batches[20:], *directory.batches[:20]]
    data, starts = log_of(batches)
    directory.write(data)
    directory.claim([(1, starts[20])])
    assert same(directory.path, starts[20] - 1) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"from_offset": 155},
        {"to_offset": 233},
        {"from_offset": 100, "to_offset": 401},
        {"from_time_ms": 1_700_000_000_222},
        {"to_time_ms": 1_700_000_000_222},
        {"from_time_ms": 1_800_000_000_000},
        {"key": b"k3"},
        {"control": False},
        {"visible": True},
        {"visible": True, "isolation": "read_committed"},
    ],
)
def test_ranges_and_filters(directory: Directory, options: dict[str, object]) -> None:
    for split_bytes in (1, 5000, None):
        same(directory.path, split_bytes, **options)


def test_log_that_shrank_at_a_batch_since_it_was_planned(directory: Directory) -> None:
    splits = split_up(directory.path, None)
    directory.write(directory.data[: directory.starts[30]])
    (rows, found), _ = read_split(splits[0])
    assert len(rows) == 300
    assert [one.code for one in found] == ["file-shrank"]
    assert (found[0].expected, found[0].actual) == (len(directory.data), directory.starts[30])


def test_log_that_changed_since_it_was_planned_is_read_as_one(directory: Directory) -> None:
    splits = split_up(directory.path, 5000)
    directory.write(directory.data[: directory.starts[30]])
    seams = [read_split(split)[1] for split in splits[:-1]]
    assert not any(seam is None or seam.sound for seam in seams)
    (rows, found), _ = read_split(splits[0].uncut())
    assert len(rows) == 300
    assert [one.code for one in found] == ["file-shrank"]


def test_log_that_vanished_since_it_was_planned(directory: Directory) -> None:
    whole, *_ = split_up(directory.path, None)
    piece, *_ = split_up(directory.path, 5000)
    directory.log.unlink()
    (rows, found), seam = read_split(piece)
    assert not rows
    assert not found
    assert seam == SplitEdges(sound=False)
    for split in (whole, piece.uncut()):
        (rows, found), _ = read_split(split)
        assert not rows
        assert [one.code for one in found] == ["file-vanished"]


def test_seams() -> None:
    sound = [SplitEdges(0, 100, 0, 9), SplitEdges(), SplitEdges(100, 150, 10, 12)]
    assert edges_meet(sound, 150)
    assert edges_meet([SplitEdges(), SplitEdges()], 150)
    assert not edges_meet(sound, 151)
    assert not edges_meet([sound[0], SplitEdges(sound=False), sound[2]], 150)
    assert not edges_meet([SplitEdges(0, 99, 0, 9), sound[2]], 150)
    assert not edges_meet([SplitEdges(0, 100, 0, 10), sound[2]], 150)
    assert not edges_meet([SplitEdges(20, 100, 0, 9), sound[2]], 150)


def test_splits_travel_and_hold_no_listing(directory: Directory) -> None:
    for base in range(500, 5000, 10):
        (directory.path / f"{base:020}.log").write_bytes(b"")
    splits = split_up(directory.path, 5000)
    assert pickle.loads(pickle.dumps(splits)) == splits
    assert max(len(pickle.dumps(split)) for split in splits[:8]) < 2000


def test_other_file_than_a_log_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("no log")
    (error,) = plan([str(path)], DumpOptions(), None)
    assert isinstance(error, Exception)


FOLDERS = ("modern/data", "modern/recovery/clean", "modern/recovery/killed", "old")


def directories() -> Iterator[str]:
    found = [name for folder in FOLDERS for name in names(folder)]
    yield from found if LONG else found[::9]


@pytest.mark.parametrize("name", [*directories()])
def test_corpus(name: str) -> None:
    path = corpus(name)
    logs = [*files(path, "*.log"), *files(path, "*.kafka")]
    small = sum(log.stat().st_size for log in logs) < (1 << 22 if LONG else 1 << 18)
    for root in sorted({log.parent for log in logs}):
        for split_bytes in SIZES if small else SIZES[1:]:
            same(root, split_bytes)


@pytest.mark.oracle
@pytest.mark.parametrize("seed", range(1, 101 if LONG else 3))
def test_directories_made_by_the_brokers_code(tmp_path: Path, seed: int) -> None:
    profiles = ("mixed-all", "mixed-v0", "mixed-v2", "txn", "compacted", "restarts")
    path = oracle().make(profiles[seed % len(profiles)], seed, tmp_path / "orders-0")
    rng = random.Random(seed)
    for split_bytes in (1, rng.randrange(300, 4000), 64 << 10, None):
        same(path, split_bytes)
    for log in files(path, "*.log"):
        if log.stat().st_size > 100:
            log.write_bytes(damage.flip(log.read_bytes(), rng.randrange(log.stat().st_size)))
    for split_bytes in (1, rng.randrange(300, 4000)):
        same(path, split_bytes)
