"""However the logs of a partition are cut into pieces, verify says what it says of the whole."""

import os
import random
import struct
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import builders
import damage
import pytest
import segments
from corpus import corpus, files, names
from drivers import Through, after
from long_runs import LONG
from oracle import PROFILES, oracle
from producing import TIME
from verifying import run_verify

from kdump.engine.reading.check import join_headers
from kdump.engine.reading.header_columns import HeaderPacker, PackedHeaders, fits, replay
from kdump.engine.reading.split_edges import SplitEdges
from kdump.engine.verify import split_walk as verify_pieces
from kdump.engine.verify.options import Item, VerifyOptions
from kdump.engine.verify.plan import split_bytes_for
from kdump.engine.verify.state import VerifyState
from kdump.engine.work.pace import Progress
from kdump.engine.work.pipeline import ONE_BY_ONE, Driver, Workers
from kdump.kernels import columns as c
from kdump.record.frames import Run
from kdump.storage.file_records import BLOCK_BYTES, FileRecords
from kdump.storage.source import Source
from kdump.storage.targets import Selection

SIZES = (64 << 10, 16 << 20, 1 << 40)
FOLDERS = (
    *("modern/data", "modern/extras", "modern/recovery/clean", "modern/recovery/killed"),
    *("modern/recovery/killed-norp", "old"),
)
BASES = (0, 600, 1200, 1800)
NOW_S = 1_800_000_000


def same(path: Path, split_bytes: int, driver: Driver = ONE_BY_ONE) -> int:
    """Compare by default and with --deep; give how many logs were replayed, of both."""
    (replays,) = each_same(path, split_bytes, driver=driver)
    return replays


def each_same(path: Path, *sizes: int, driver: Driver = ONE_BY_ONE) -> list[int]:
    """Compare for several sizes of a piece; give for each how many logs were replayed."""
    replays = dict.fromkeys(sizes, 0)
    for deep in (False, True):
        whole, none = run_verify(path, deep=deep)
        assert none == 0
        for split_bytes in sizes:
            told, some = run_verify(path, split_bytes=split_bytes, deep=deep, driver=driver)
            assert told == whole
            replays[split_bytes] += some
    return [replays[split_bytes] for split_bytes in sizes]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Three closed segments of 200 batches each, and an active one."""
    return partition(tmp_path)


def partition(parent: Path) -> Path:
    ends = (*BASES[1:], 1830)
    parts = {base: segments.batches(base, end) for base, end in zip(BASES, ends, strict=True)}
    return segments.write_partition(parent, parts)


def starts(path: Path) -> list[int]:
    """Say where the batches of a log start."""
    return [entry.position for entry in segments.entries(path.read_bytes())]


# What is replayed ---------------------------------------------------------------------------------


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("split_bytes", [1, 5000, 60_000])
def test_closed_logs_are_cut_packed_and_replayed(
    directory: Path, split_bytes: int, jobs: int
) -> None:
    assert same(directory, split_bytes, driver=Workers(jobs)) == 2 * 3


def test_small_logs_are_not_split(directory: Path) -> None:
    assert same(directory, sum(log.stat().st_size for log in directory.glob("*.log"))) == 0


def test_pieces_are_as_many_as_the_size_asks_for(directory: Path) -> None:
    items: list[list[Any]] = []

    def noting(driver: Driver, given: list[Any], *rest: Any) -> Iterator[tuple[Any, Any]]:
        items.append(given)
        return driver(given, *rest)

    run_verify(directory, split_bytes=10_000, driver=Through(ONE_BY_ONE, noting))
    pieces, (item,) = items
    size = (directory / segments.name(0, "log")).stat().st_size
    assert abs(len(pieces) - 3 * size / 10_000) <= 3
    assert sum(piece.size_bytes for piece in pieces) == sum([*item.sizes.values()][:3])
    assert sorted(item.walked) == [0, 600, 1200]


def log_of_all_kinds(seed: int) -> bytes:
    """Many sizes: thousands of empty batches in a block, some that are larger than one, markers."""
    rng = random.Random(seed)
    parts = [builders.marker(0)]
    offset, sequences = 1, dict.fromkeys(range(1, 6), 0)
    for _ in range(20):
        count = rng.choice((1, 1, 3, 40, 5000))
        for _ in range(count):
            producer_id = rng.choice((-1, *sequences))
            kind = rng.random()
            common: dict[str, Any] = {"base_offset": offset, "base_timestamp": TIME + offset}
            if kind < 0.05:
                parts.append(builders.marker(rng.randrange(2), base_offset=offset))
            elif kind < 0.7 or count > 40:
                delta = rng.randrange(5)
                sequence = sequences.get(producer_id, -1)
                parts.append(
                    builders.batch(
                        [], last_offset_delta=delta, records_count=delta + 1, payload=b"",
                        producer_id=producer_id, base_sequence=sequence,
                        max_timestamp=TIME + rng.randrange(10_000), **common,
                    )
                )  # fmt: skip
                offset += delta
                if producer_id in sequences:
                    sequences[producer_id] += delta + 1
            else:
                size = rng.choice((10, 3000, 3000, 100_000, BLOCK_BYTES, 2 * BLOCK_BYTES))
                parts.append(builders.batch([builders.record(value=bytes(size))], **common))
            offset += rng.choice((1, 1, 1, 7))
    return b"".join(parts)


@pytest.mark.parametrize("seed", range(20 if LONG else 2))
def test_runs_are_those_of_a_walk_over_the_whole(tmp_path: Path, seed: int) -> None:
    """A check may look at a run at a time, so that it must not matter who read it."""
    path = tmp_path / segments.name(0, "log")
    path.write_bytes(log_of_all_kinds(seed))
    rng = random.Random(seed)
    with Source(path) as source:
        walk = FileRecords(source).walk
        wanted, controls = [], []
        for one in walk():
            assert isinstance(one, Run)
            wanted.append(plain(one))
            controls.append(control_of(one))
        together = [plain(one) for one in join_headers(walk()) if isinstance(one, Run)]
        at = starts(path)
        cuts = [0, *sorted(rng.sample(at[1:], 5)), source.size]
        pieces = []
        for first, end in pairwise(cuts):
            packer = HeaderPacker()
            for one in walk(first, end):
                assert isinstance(one, Run)
                packer.add(one)
            pieces.append(PackedHeaders(0, SplitEdges(), chunks=packer.chunks()))
    assert [plain(one) for one in replay(pieces)] == wanted
    assert [control_of(one) for one in replay(pieces)] == controls
    assert [plain(one) for one in join_headers(replay(pieces)) if isinstance(one, Run)] == together
    assert any(controls)


def plain(run: Run) -> tuple[int, list[tuple[int, ...]]]:
    """Give flags and rows."""
    return run.batches.flags, run.batches.rows()


def control_of(run: Run) -> list[bytes]:
    """Give the bytes of the control batches of a run."""
    found = []
    for row, flags in enumerate(run.batches.row_flags):
        if flags & c.CONTROL:
            at = run.batches.position(row) - run.base
            found.append(bytes(run.data[at : at + run.batches.size_bytes(row)]))
    return found


def test_small_batches_are_not_worth_it(tmp_path: Path) -> None:
    """What would be packed is no small share of the log: it is read as ever."""
    rng = random.Random(1)
    batches = [
        builders.batch(
            [], base_offset=n, records_count=1, last_offset_delta=0, payload=rng.randbytes(9),
            base_timestamp=rng.getrandbits(40), max_timestamp=rng.getrandbits(40),
            producer_id=rng.getrandbits(40), base_sequence=rng.getrandbits(30),
        )
        for n in range(15_000)
    ]  # fmt: skip
    path = segments.write_partition(
        tmp_path, {0: batches, 15_000: segments.batches(15_000, 15_003)}
    )
    whole, _ = run_verify(path)
    told, replays = run_verify(path, split_bytes=1 << 19)
    assert (told, replays) == (whole, 0)


def test_results_of_pieces_are_bounded(directory: Path) -> None:
    assert 0 < same(directory, 5000, Workers(packed_bytes=5000)) < 2 * 3


# What is cut --------------------------------------------------------------------------------------


def item(*sizes: int) -> Item:
    return Item("orders-0", "orders", 0, True, dict(enumerate(sizes)), {}, {})


def test_which_runs_are_cut() -> None:
    huge, small = item(*[1 << 30] * 1000), item(1 << 20)
    asked, two = VerifyOptions(deep=True), Workers(2)

    class Elsewhere(NamedTuple):
        jobs: int | None = None
        bytes_per_second: int | None = None

    def size(items: list[Item], driver: Any, asked: VerifyOptions = asked) -> int | None:
        return split_bytes_for(items, asked, driver)

    assert size([huge], ONE_BY_ONE) is None
    assert size([huge], Elsewhere()) == 1 << 30
    assert size([huge, small], two) == 1 << 30
    assert size([item(1 << 30)], two) == 256 << 20
    assert size([small] * 1000, two) is None
    assert size([item(1 << 30)] * 2, two) is None
    assert size([item(1 << 30)] * 4, two) is None
    assert size([huge], two, asked._replace(max_duration_s=9)) is None
    assert size([huge], two._replace(bytes_per_second=9)) is None
    assert size([huge], two, asked._replace(deep=False)) is None
    assert size([huge], Elsewhere(), asked._replace(deep=False)) == 1 << 30


@pytest.mark.parametrize(
    "options",
    [{"quick": True}, {"subset": (1, 2)}, {"predict": True}, {"selection": Selection("or*")}],
)
def test_with_other_options(directory: Path, options: dict[str, Any]) -> None:
    whole, _ = run_verify(directory, **options)
    told, replays = run_verify(directory, split_bytes=5000, **options)
    assert told == whole
    assert bool(replays) != bool(options.get("quick"))


def test_one_file_of_a_partition_and_cluster_metadata_are_never_cut(directory: Path) -> None:
    log = directory / segments.name(0, "log")
    assert same(log, 5000) == 0
    metadata = directory.rename(directory.with_name("__cluster_metadata-0"))
    assert same(metadata, 5000) == 0


def test_state_remembers_what_was_replayed(directory: Path) -> None:
    segments.write(directory, 600, "log", damage.flip(segments.read(directory, 600, "log"), 5000))
    files = []
    for split_bytes in (None, 5000):
        state = VerifyState(NOW_S)
        first, replays = run_verify(directory, split_bytes=split_bytes, state=state)
        assert replays == (0 if split_bytes is None else 2)
        again, replays = run_verify(directory, split_bytes=split_bytes, state=state)
        assert replays == 0
        files.append((first, again, [*state.lines()]))
    assert files[0] == files[1]
    assert files[0][1][-1].fields["not_checked"] == {"segments_verified_before": 3}


def test_progress_counts_what_is_read_once(directory: Path) -> None:
    most: list[int] = []
    progress = Progress()
    progress.tick = lambda: most.append(progress.done_bytes)
    run_verify(directory, split_bytes=5000, progress=progress)
    assert most == sorted(most)
    assert progress.done_bytes == progress.planned_bytes
    assert (progress.items_done, progress.planned_items) == (1, 1)


# What is not as it should be ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "harm",
    [
        lambda data: b"",
        lambda data: bytes(len(data)),
        lambda data: data[:100] + bytes(4096),
        lambda data: data[:101],
        lambda data: struct.pack(">ii", 9, 1 << 30),
        lambda data: struct.pack(">ii", -5, -7) * 9,
        lambda data: b"".join(
            struct.pack(">ii", offset, position + 7)
            for offset, position in struct.iter_unpack(">ii", data)
        ),
        None,
    ],
)
def test_index_that_does_not_help(directory: Path, harm: Callable[[bytes], bytes] | None) -> None:
    for base in BASES[:2]:
        path = directory / segments.name(base, "index")
        if harm is None:
            path.unlink()
        else:
            segments.write(directory, base, "index", harm(path.read_bytes()))
    assert each_same(directory, 1, 5000) == [2 * 3, 2 * 3]


def test_index_that_names_a_batch_inside_a_value(directory: Path) -> None:
    """A valid batch that is none of this log: all of the log is read as one."""
    parts = segments.batches(0, 600)
    inner = segments.batch(305)
    parts[100] = builders.batch(
        [builders.record(0, 0, b"", inner)], base_offset=300, last_offset_delta=2, records_count=1,
        base_timestamp=segments.START_MS + 3000, max_timestamp=segments.START_MS + 3000,
    )  # fmt: skip
    data = b"".join(parts)
    segments.write(directory, 0, "log", data)
    inside = data.index(inner)
    segments.write(directory, 0, "index", segments.offset_index([(302, inside)]))
    assert same(directory, inside - 50) == 2 * 2


HARMS: list[Callable[[bytes], bytes]] = [
    lambda data: damage.flip(data, 5000),
    lambda data: damage.zero(data, 9000, 4000),
    lambda data: damage.cut(data, len(data) - 30),
    lambda data: damage.remove(data, 10_000, 17),
    lambda data: damage.swap(data, 0, 20_000, 1500),
    lambda data: damage.repeat(data, 3000, 2000),
    lambda data: data + data[:150],
    lambda data: data + bytes(3000),
]


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("split_bytes", [1, 4096, 9001] if LONG else [4096])
def test_damaged_log_is_read_as_one(
    directory: Path, harm: Callable[[bytes], bytes], split_bytes: int
) -> None:
    segments.write(directory, 600, "log", harm(segments.read(directory, 600, "log")))
    assert same(directory, split_bytes) == 2 * 2


def test_damage_next_to_a_split(directory: Path) -> None:
    sound = segments.read(directory, 600, "log")
    at = starts(directory / segments.name(600, "log"))
    cut = next(start for start in at if start >= 5000)
    for position in (cut - 1, cut, cut + 8, cut + 16, cut + 17, cut + 21, cut + 61):
        segments.write(directory, 600, "log", damage.flip(sound, position))
        assert min(each_same(directory, cut, cut - 1, 5000)) >= 2 * 2


def test_offsets_that_fall_between_two_pieces(directory: Path) -> None:
    parts = segments.batches(600, 1200)
    data = b"".join([*parts[100:], *parts[:100]])
    segments.write(directory, 600, "log", data)
    half = len(b"".join(parts[100:]))
    segments.write(directory, 600, "index", segments.offset_index([(599, half)]))
    assert same(directory, half - 1) == 2 * 2


def test_offsets_that_reach_into_the_next_segment(directory: Path) -> None:
    segments.write(directory, 0, "log", b"".join(segments.batches(0, 603)))
    assert same(directory, 5000) == 2 * 2


def test_undecodable_records_are_checked_as_one(directory: Path) -> None:
    """A right checksum over wrong records: only --deep decodes them, and only it gives up."""
    parts = segments.batches(600, 1200)
    parts[100] = segments.batch(900, payload=b"\x07" * 60)
    segments.write(directory, 600, "log", b"".join(parts))
    assert same(directory, 5000) == 3 + 2


def test_batches_that_producers_sent_twice(tmp_path: Path) -> None:
    """The first of each is there again in a later segment, and numbers are missing in another."""

    def batch(producer_id: int, base_offset: int, sequence: int) -> bytes:
        records = [builders.record(delta) for delta in range(3)]
        return builders.batch(
            records, base_offset=base_offset, producer_id=producer_id, producer_epoch=0,
            base_sequence=sequence,
        )  # fmt: skip

    for number, producers in enumerate(((7,), (7, 8))):
        parts: dict[int, list[bytes]] = {0: [], 600: [], 1200: []}
        for offset in range(0, 1200, 3):
            producer_id, sequence = producers[offset // 3 % len(producers)], offset % 600
            jump = 30 if offset > 1000 else 0
            parts[offset // 600 * 600].append(batch(producer_id, offset, sequence + jump))
        parts[1200] = [batch(7, 1200, 0), batch(8, 1203, 0)]
        path = segments.write_partition(tmp_path / str(number), parts)
        found = {one.code for one in run_verify(path)[0][:-1]}
        assert {"sequence-duplicate", "sequence-gap"} <= found
        assert same(path, 5000) == 2 * 2


def test_null_keys_and_slack_are_counted_over_all_pieces(tmp_path: Path) -> None:
    settings = tmp_path / "server.properties"
    data = tmp_path / "data"
    settings.write_text(f"log.dirs={data}\nlog.cleanup.policy=compact\n")
    keyless = [
        builders.batch([builders.record(0, 0, None)], base_offset=n, base_timestamp=TIME + n)
        for n in range(300)
    ]
    old = [builders.message(n, timestamp=TIME + n, slack=b"xyz") for n in range(300, 600)]
    segments.write_partition(data, {0: keyless, 300: old, 600: segments.batches(600, 603)})
    options: dict[str, Any] = {"deep": True, "server_properties": str(settings)}
    whole, _ = run_verify(**options)
    told, replays = run_verify(split_bytes=2000, **options)
    assert (told, replays) == (whole, 2)
    found = {one.code: one for one in told[:-1]}
    assert "300 records have no key" in found["null-key"].message
    assert found["null-key"].offset == 0
    assert "300 messages have" in found["slack-bytes"].message


# What changes between the two ---------------------------------------------------------------------


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("what", ["cut", "cut-at-batch", "removed", "grown", "flipped", "replaced"])
def test_log_that_changed_since_its_pieces_were_read(
    directory: Path, what: str, deep: bool
) -> None:
    log = directory / segments.name(600, "log")
    data = log.read_bytes()
    at = starts(log)

    def change() -> None:
        if what == "removed":
            log.unlink()
        elif what == "replaced":
            other = log.with_name("new")
            other.write_bytes(damage.flip(data, 5000))
            os.utime(other, (segments.LONG_AGO, segments.LONG_AGO))
            other.replace(log)
        else:
            log.write_bytes(
                {
                    "cut": data[:-40],
                    "cut-at-batch": data[: at[150]],
                    "grown": data + segments.batch(1197),
                    "flipped": damage.flip(data, 5000),
                }[what]
            )

    told, replays = run_verify(
        directory, split_bytes=5000, deep=deep, driver=after(change, ONE_BY_ONE, run=2)
    )
    whole, _ = run_verify(directory, deep=deep)
    assert told == whole
    assert replays == 2
    assert len(told) > 1


def test_newest_segment_that_is_so_since_its_pieces_were_read(directory: Path) -> None:
    def change() -> None:
        for path in directory.glob("*1800*"):
            path.unlink()

    told, replays = run_verify(directory, split_bytes=5000, driver=after(change, ONE_BY_ONE, run=2))
    assert (told, replays) == (run_verify(directory)[0], 2)


def test_worker_that_dies_over_a_piece(directory: Path) -> None:
    """Whoever judges the partition then reads that log."""
    walk = verify_pieces.walk_piece

    def dying(piece: Any, *rest: Any, **named: Any) -> Any:
        if piece.split.start == 0 and piece.split.target.files[0].name.base_offset == 600:
            os._exit(9)
        return walk(piece, *rest, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verify_pieces, "walk_piece", dying)
        told, replays = run_verify(directory, split_bytes=5000, driver=Workers(2))
    assert (told, replays) == (run_verify(directory)[0], 2)


def test_pieces_that_fit() -> None:
    file = (7, 150, 1)
    pieces = [
        PackedHeaders(0, SplitEdges(0, 100, 0, 9), file), PackedHeaders(0, SplitEdges(), file),
        PackedHeaders(0, SplitEdges(100, 150, 10, 12), file),
    ]  # fmt: skip
    assert fits(pieces)
    assert fits(pieces, file)
    assert not fits(pieces, (7, 150, 2))
    assert not fits([])
    assert not fits(pieces[:1])
    assert not fits(pieces[1:2])
    assert not fits([pieces[0], pieces[2]._replace(identity=(8, 150, 1))])
    assert not fits([pieces[0], PackedHeaders(0, SplitEdges(sound=False), file), pieces[2]])


# Many directories ---------------------------------------------------------------------------------


def roots(name: str) -> list[Path]:
    path = corpus(name)
    logs = [*files(path, "*.log"), *files(path, "*.kafka")]
    return sorted({log.parent for log in logs})


CORPORA = [name for folder in FOLDERS for name in names(folder)]


@pytest.mark.parametrize("name", CORPORA if LONG else CORPORA[::18])
def test_corpus(name: str) -> None:
    for number, root in enumerate([*roots(name)][:: 1 if LONG else 4]):
        each_same(root, 4000, *SIZES)
        if LONG or not number:
            same(root, 64 << 10 if LONG else 4000, driver=Workers(2))


@pytest.mark.parametrize("deep", [False, True])
def test_logs_of_a_corpus_are_replayed(deep: bool) -> None:
    _, replays = run_verify(*roots("modern/data/clean"), split_bytes=4000, deep=deep)
    assert replays > 20


def test_smallest_directories_cut_at_every_batch() -> None:
    every = [root for name in (CORPORA if LONG else CORPORA[::9]) for root in roots(name)]
    sized = [
        (sum(log.stat().st_size for log in files(root, "*.log")), str(root), root)
        for root in every
        if len([*files(root, "*.log")]) > 1
    ]
    replays = [same(root, 1) for _, _, root in sorted(sized)[: 20 if LONG else 6]]
    assert sum(replays) or not sized


@pytest.mark.oracle
@pytest.mark.parametrize("seed", range(1, 101 if LONG else 3))
def test_directories_made_by_the_brokers_code(tmp_path: Path, seed: int) -> None:
    path = oracle().make(PROFILES[seed % len(PROFILES)], seed, tmp_path / "orders-0")
    rng = random.Random(seed)
    sizes = (1, rng.randrange(300, 4000), 64 << 10)
    each_same(path, *sizes, driver=Workers(1 + seed % 2))
    for log in files(path, "*.log"):
        if log.stat().st_size > 100 and rng.random() < 0.5:
            log.write_bytes(damage.flip(log.read_bytes(), rng.randrange(log.stat().st_size)))
            os.utime(log, (segments.LONG_AGO, segments.LONG_AGO))
    each_same(path, 1, rng.randrange(300, 4000))


def harmed(data: bytes, rng: random.Random) -> bytes:
    """Break something somewhere; it may turn out as it was."""
    at = rng.randrange(len(data))
    size = min(rng.choice((1, 8, 60, 700, 5000)), len(data) - at)
    part, other = data[at : at + size], rng.randrange(len(data))
    changed = {
        "flip": data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :],
        "random": data[:at] + rng.randbytes(size) + data[at + size :],
        "zero": data[:at] + bytes(size) + data[at + size :],
        "cut": data[:at],
        "remove": data[:at] + data[at + size :],
        "repeat": data[: at + size] + part + data[at + size :],
        "copy": data[:other] + part + data[other + size :],
    }
    return changed[rng.choice([*changed])]


@pytest.mark.parametrize("part", range(50 if LONG else 1))
def test_random_damage(tmp_path: Path, part: int) -> None:
    replays = 0
    for seed in range(10 * part, 10 * (part + 1)):
        rng = random.Random(seed)
        path = partition(tmp_path / str(seed))
        for _ in range(rng.choice((1, 1, 2, 4))):
            kind = rng.choice(("log", "log", "log", "index", "timeindex"))
            base = rng.choice(BASES)
            if data := segments.read(path, base, kind):
                segments.write(path, base, kind, harmed(data, rng))
        replays += same(path, rng.choice((1, 700, 4096, 9001, 20_000)))
    assert replays > 10
