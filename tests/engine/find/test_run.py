"""Rows of the lookups: one for each partition, errors in them, scans beside them."""

import os
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path

import builders
import pytest
from corpus import corpus, names
from drivers import after

from kdump.engine.find.options import FindOptions
from kdump.engine.find.run import find_offset, find_time
from kdump.engine.work.pace import Progress
from kdump.engine.work.pipeline import ONE_BY_ONE, Driver, Workers
from kdump.errors import NothingToDo, PathError
from kdump.findings.finding import Finding
from kdump.findings.rows import Row
from kdump.storage.log_dir import LogDir
from kdump.storage.targets import Selection, Target

Fields = dict[str, object]
TIME = 1_700_000_000_000
SAMPLE = Path(__file__).parents[3] / "sample-data/clean/4.1.1/d1"


def batches(*bases: int, time_ms: int = TIME) -> bytes:
    """Write a batch of two records at each of some offsets; the time is the offset's."""
    return b"".join(
        builders.batch(
            [builders.record(n, n, b"k", b"v") for n in range(2)],
            base_offset=base,
            base_timestamp=time_ms + base,
            max_timestamp=time_ms + base + 1,
        )
        for base in bases
    )


SIZE = len(batches(0))


def write_segment(
    directory: Path,
    base: int,
    log: bytes,
    index: list[tuple[int, int]] | None = None,
    times: list[tuple[int, int]] | None = None,
) -> None:
    stem = f"{base:020}"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{stem}.log").write_bytes(log)
    if index is not None:
        entries = b"".join(struct.pack(">ii", *entry) for entry in index)
        (directory / f"{stem}.index").write_bytes(entries)
    if times is not None:
        entries = b"".join(struct.pack(">qi", *entry) for entry in times)
        (directory / f"{stem}.timeindex").write_bytes(entries)


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Give two segments, offsets 0 to 5 and 10 to 13, both with sound indexes."""
    directory = tmp_path / "data" / "orders-7"
    write_segment(directory, 0, batches(0, 2, 4), [(3, SIZE)], [(TIME + 5, 5)])
    write_segment(directory, 10, batches(10, 12), [(3, SIZE)], [(TIME + 13, 3)])
    return directory


def split(items: Iterator[object]) -> tuple[list[Fields], list[str]]:
    """Return the rows' members, and the codes of findings, notes on the high watermark aside."""
    rows, codes = [], []
    for item in items:
        if isinstance(item, Row):
            rows.append({"row": item.row, **item.fields})
        elif isinstance(item, Finding):
            codes.append(item.code)
        else:
            pytest.fail(f"no row and no finding: {item!r}")
    return rows, [code for code in codes if code != "high-watermark-unknown"]


def at_offset(path: Path, target: int, **options: object) -> Fields:
    rows, _ = split(find_offset([str(path)], target, FindOptions(**options)))  # type: ignore[arg-type]
    (row,) = rows
    return row


def at_time(path: Path, target: int, **options: object) -> Fields:
    rows, _ = split(find_time([str(path)], target, FindOptions(**options)))  # type: ignore[arg-type]
    (row,) = rows
    return row


def test_row_of_an_offset(partition: Path) -> None:
    assert at_offset(partition, 5) == {
        "row": "offset-lookup",
        "topic": "orders",
        "partition": 7,
        "target": 5,
        "segment": 0,
        "index_entry": {"offset": 3, "position": SIZE},
        "position": 2 * SIZE,
        "size_bytes": SIZE,
        "base_offset": 4,
        "last_offset": 5,
        "offset": 5,
        "timestamp_ms": TIME + 5,
        "batches_scanned": 2,
        "next_offset": None,
        "served_from": None,
        "skipped_by_seek": None,
        "settings": None,
        "error": None,
    }


def test_row_of_a_time(partition: Path) -> None:
    assert at_time(partition, TIME + 4) == {
        "row": "time-lookup",
        "topic": "orders",
        "partition": 7,
        "target_ms": TIME + 4,
        "segment": 0,
        "time_index_entry": None,
        "index_entry": None,
        "position": 2 * SIZE,
        "offset": 4,
        "timestamp_ms": TIME + 4,
        "leader_epoch": 0,
        "batches_scanned": 3,
        "settings": None,
        "error": None,
    }


def test_an_index_that_a_start_rebuilds_has_the_interval_of_its_topic(tmp_path: Path) -> None:
    """The entry that leads to the answer is the one that was there before the index was lost."""
    data = tmp_path / "data"
    shutil.copytree(SAMPLE, data)
    path = data / "orders.lz4-0"
    sound = at_offset(path, 200)
    assert sound["settings"] is None
    (path / f"{0:020}.index").unlink()
    (path / f"{0:020}.timeindex").unlink()
    rebuilt = at_offset(path, 200, explain=True)
    interval = {"name": "index.interval.bytes", "value": 1024, "source": "topic"}
    assert isinstance(rebuilt["settings"], list)
    assert rebuilt["settings"][0] == interval
    assert rebuilt["index_entry"] == sound["index_entry"]
    assert "by index.interval.bytes=1024 (topic)" in str(rebuilt["steps"])
    by_time = at_time(path, rebuilt["timestamp_ms"])  # type: ignore[arg-type]
    assert (by_time["offset"], by_time["settings"]) == (200, rebuilt["settings"])
    plain = at_offset(path, 200, topic_configs=False)
    assert plain["index_entry"] != sound["index_entry"]
    assert isinstance(plain["settings"], list)
    assert plain["settings"][0] == {**interval, "value": 4096, "source": "default"}
    options = FindOptions()
    rows, _ = split(find_offset([str(path)], 200, options, driver=Workers(2)))
    assert rows[0]["settings"] == rebuilt["settings"]
    assert at_offset(path, 200, as_is=True)["settings"] is None


def damaged(partition: Path, position: int, value: int) -> Path:
    path = partition / f"{0:020}.log"
    log = bytearray(path.read_bytes())
    log[position] = value
    path.write_bytes(log)
    return partition


@pytest.mark.parametrize("target", [2, 3])
def test_a_batch_on_which_consumers_fail_is_damage(partition: Path, target: int) -> None:
    """Brokers serve it, so the row stands."""
    path = damaged(partition, 2 * SIZE - 2, ord("w"))  # in the last value
    for asked in (0, 1, 4, 5, 10):
        assert split(find_offset([str(path)], asked, FindOptions()))[1] == []
    items = list(find_offset([str(path)], target, FindOptions()))
    (found,) = (item for item in items if isinstance(item, Finding) and item.position is not None)
    assert (found.code, found.severity.value) == ("crc-mismatch", "damage")
    assert (found.segment, found.position, found.next_offset) == (0, SIZE, 4)
    assert isinstance(items[-1], Row)
    assert items[-1].fields["offset"] == target


@pytest.mark.parametrize(
    ("magic", "code"), [(3, "magic-unknown"), (7, "magic-unknown"), (0x80, "crc-mismatch")]
)
def test_a_batch_of_an_impossible_magic_is_damage(partition: Path, magic: int, code: str) -> None:
    path = damaged(partition, SIZE + 16, magic)
    # From 4.1 on a lookup opens what looks like a wrapper, and fails itself.
    options = FindOptions(broker_version=(4, 0))
    assert split(find_offset([str(path)], 2, options))[1] == [code]
    assert split(find_offset([str(path)], 4, options))[1] == []


def test_a_lookup_of_4_1_fails_at_what_looks_like_a_wrapper(partition: Path) -> None:
    path = damaged(partition, SIZE + 16, 0x80)
    assert "cannot be opened" in str(at_offset(path, 2)["error"])


def test_damage_on_the_way_to_the_record_is_told(partition: Path) -> None:
    """Control batches and what was aborted are handed to a consumer as well."""
    log = builders.marker(1, base_offset=0, producer_id=7) + batches(1)
    write_segment(partition, 0, log[:70] + bytes([log[70] ^ 1]) + log[71:])
    assert split(find_offset([str(partition)], 0, FindOptions()))[1] == ["crc-mismatch"]
    assert split(find_offset([str(partition)], 1, FindOptions()))[1] == []


def test_lookups_that_stop_at_an_open_transaction_say_so(partition: Path) -> None:
    opened = builders.batch(
        [builders.record(0), builders.record(1)],
        base_offset=16,
        base_timestamp=TIME + 16,
        max_timestamp=TIME + 16,
        producer_id=7,
        producer_epoch=2,
        base_sequence=0,
        attributes=builders.TRANSACTIONAL,
    )
    write_segment(partition, 14, batches(14) + opened)
    committed = FindOptions(isolation="read_committed")
    for find, target, told in (
        (find_offset, 14, False),
        (find_offset, 16, True),
        (find_time, TIME + 14, False),
        (find_time, TIME + 16, True),
        (find_time, -1, True),
    ):
        items = list(find([str(partition)], target, committed))
        notes = [item for item in items if isinstance(item, Finding) and item.offset == 16]
        assert [note.code for note in notes] == ["read-committed-stops"] * told, (find, target)
        assert isinstance(items[-1], Row)
        for note in notes:
            assert "Producer 7, epoch 2, has a transaction open since offset 16 (" in note.message
        everything = find([str(partition)], target, FindOptions())
        assert "read-committed-stops" not in split(everything)[1]


@pytest.mark.parametrize(
    ("target", "segment", "offset"),
    [(0, 0, 0), (3, 0, 3), (6, 10, 10), (9, 10, 10), (13, 10, 13), (14, None, None)],
)
def test_offsets_in_gaps_and_at_the_end(
    partition: Path, target: int, segment: int | None, offset: int | None
) -> None:
    row = at_offset(partition, target)
    assert (row["segment"], row["offset"], row["error"]) == (segment, offset, None)


@pytest.mark.parametrize("target", [-1, 15])
def test_offset_out_of_range_is_an_error_in_the_row(partition: Path, target: int) -> None:
    row = at_offset(partition, target)
    assert row["offset"] is None
    assert str(row["error"]).startswith("OFFSET_OUT_OF_RANGE")


@pytest.mark.parametrize(
    ("target", "offset"), [(-2, 0), (-1, 14), (-3, 13), (TIME + 14, None), (0, 0)]
)
def test_special_times_and_none(partition: Path, target: int, offset: int | None) -> None:
    row = at_time(partition, target)
    assert (row["offset"], row["error"]) == (offset, None)


def test_negative_time_without_a_meaning(partition: Path) -> None:
    assert str(at_time(partition, -30)["error"]).startswith("UNSUPPORTED_VERSION")
    assert at_time(partition, -30, broker_version=(3, 8, 0))["offset"] == 0


@pytest.mark.parametrize(("target", "since"), [(-3, (3, 0)), (-4, (3, 5)), (-5, (3, 9))])
def test_special_time_is_a_time_to_older_brokers(
    partition: Path, target: int, since: tuple[int, int]
) -> None:
    """As the classes of 2.8.2 answer -3."""
    before = at_time(partition, target, broker_version=(2, 8, 0), check=True)
    assert (before["offset"], before["timestamp_ms"], before["scan_offset"]) == (0, TIME, 0)
    after = at_time(partition, target, broker_version=(*since, 0))
    assert after["timestamp_ms"] != TIME


def test_files_that_go_meanwhile_are_listed_again(
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


@pytest.mark.parametrize("digits", [19, 21])
@pytest.mark.parametrize("as_is", [False, True])
def test_log_that_no_broker_opens_is_not_served(partition: Path, digits: int, as_is: bool) -> None:
    """A broker makes an empty log of the name that it would have given (as seen on 4.1.1)."""
    log = partition / f"{0:020}.log"
    log.rename(partition / f"{0:0{digits}}.log")
    rows, codes = split(find_offset([str(partition)], 2, FindOptions(as_is=as_is)))
    assert (rows[0]["segment"], rows[0]["offset"], codes) == (10, 10, ["log-name"])
    rows, codes = split(find_time([str(partition)], TIME + 1, FindOptions(as_is=as_is)))
    assert codes == ["log-name"]
    write_segment(partition, 0, batches(0))
    rows, codes = split(find_offset([str(partition)], 1, FindOptions(as_is=as_is)))
    assert (rows[0]["offset"], rows[0]["last_offset"], codes) == (1, 1, [])


@pytest.mark.parametrize("version", [(0, 9, 0), (0, 10, 1), (0, 10, 2)])
def test_torn_tail_begins_behind_the_entry_before(tmp_path: Path, version: tuple[int, ...]) -> None:
    directory = tmp_path / "t-0"
    messages = b"".join(builders.message(n, magic=0, value=bytes(60)) for n in range(4))
    write_segment(directory, 0, messages[:-20], [], [])
    options = FindOptions(as_is=True, broker_version=version, isolation="read_uncommitted")
    items = list(find_offset([str(directory)], 3, options))
    torn = [one for one in items if isinstance(one, Finding) and one.code == "torn-tail"]
    assert [one.offset for one in torn] == ([3] if version < (0, 10, 2) else [])


def test_leader_epochs_are_answered_since_2_1(partition: Path) -> None:
    (partition / "leader-epoch-checkpoint").write_text("0\n1\n4 0\n")
    for target in (-1, -2, TIME + 3):
        assert at_time(partition, target, broker_version=(2, 0, 1))["leader_epoch"] is None
        assert at_time(partition, target, broker_version=(2, 1, 0))["leader_epoch"] is not None


def test_old_message_format_refuses_lookups_by_time(partition: Path) -> None:
    refused = at_time(partition, TIME, message_format=(0, 9, 0))
    assert str(refused["error"]).startswith("UNSUPPORTED_FOR_MESSAGE_FORMAT")
    assert at_time(partition, -2, message_format=(0, 9, 0))["error"] is None
    assert at_time(partition, TIME, message_format=(0, 10, 0))["offset"] == 0


def test_version_0_answers_by_modification_time(partition: Path) -> None:
    for stem, seconds in ((0, 1000), (10, 2000)):
        os.utime(partition / f"{stem:020}.log", (seconds, seconds))
    row = at_time(partition, 2_500_000, list_offsets_version=0, max_offsets=5)
    assert (row["offset"], row["offsets"]) == (10, [10, 0])
    assert at_time(partition, 500_000, list_offsets_version=0)["offsets"] == []
    options = {"list_offsets_version": 0, "now_ms": 3_000_000}
    found = [at_time(partition, target, **options)["offset"] for target in (2_999_999, 3_000_000)]
    assert found == [10, 14]


def test_partition_under_two_names_is_asked_once(partition: Path) -> None:
    other = partition.parent / "moved"
    other.symlink_to(partition.parent / partition.name)
    rows = [
        item
        for item in find_offset([str(partition), str(other)], 0, FindOptions())
        if isinstance(item, Row)
    ]
    assert len(rows) == 1


def test_segment_files_stand_for_their_partition_once(partition: Path) -> None:
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


def test_a_file_of_no_partition_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    (error,) = find_offset([str(tmp_path / "notes.txt")], 1, FindOptions())
    assert isinstance(error, PathError)


def test_steps_say_what_was_compared(partition: Path) -> None:
    steps = at_offset(partition, 5, explain=True)["steps"]
    assert isinstance(steps, list)
    assert [step["step"] for step in steps] == ["segment", "index", "scan", "record"]
    assert steps[1]["entry"] == {"offset": 3, "position": SIZE}
    assert steps[1]["compared"]
    assert steps[2]["bytes"] == 2 * SIZE
    steps = at_time(partition, TIME + 12, explain=True)["steps"]
    assert isinstance(steps, list)
    assert [step["step"] for step in steps] == [
        *("segment", "segment", "timeindex", "index", "scan", "record"),
    ]


def test_check_agrees_with_sound_indexes(partition: Path) -> None:
    options = FindOptions(check=True)
    for target in range(15):
        (row,), codes = split(find_offset([str(partition)], target, options))
        assert (row["scan_offset"], codes) == (row["offset"], [])
    for target in (-3, -2, -1, *range(TIME - 1, TIME + 16)):
        (row,), codes = split(find_time([str(partition)], target, options))
        assert (row["scan_offset"], codes) == (row["offset"], [])


def test_check_finds_an_offset_index_that_lies(partition: Path) -> None:
    (partition / "00000000000000000000.index").write_bytes(struct.pack(">ii", 1, 2 * SIZE))
    (row,), codes = split(find_offset([str(partition)], 2, FindOptions(check=True)))
    assert (row["offset"], row["scan_offset"]) == (4, 2)
    assert codes == ["offset-lookup-differs"]


def test_check_finds_a_time_index_that_lies(partition: Path) -> None:
    (partition / "00000000000000000000.timeindex").write_bytes(struct.pack(">qi", TIME - 5, 0))
    (row,), codes = split(find_time([str(partition)], TIME + 2, FindOptions(check=True)))
    assert (row["offset"], row["scan_offset"]) == (10, 2)
    assert codes == ["time-lookup-differs"]


def test_check_of_the_log_end_goes_as_far_as_the_log_can_be_framed() -> None:
    path = Path(__file__).parents[3] / "sample-data/damaged/0.8.2.2/d-sizemid-0"
    fields = at_time(path, -1, check=True, as_is=True)
    assert fields["scan_offset"] == 142


def test_check_says_where_the_brokers_rule_passes_a_record_over(partition: Path) -> None:
    """A kept batch without records raises the segment's greatest time above all its records."""
    empty = builders.batch([], base_offset=2, last_offset_delta=1, base_timestamp=TIME + 9)
    write_segment(partition, 0, batches(0) + empty, [], [(TIME + 9, 3)])
    (row,), codes = split(find_time([str(partition)], TIME + 8, FindOptions(check=True)))
    assert (row["offset"], row["scan_offset"]) == (None, 10)
    assert codes == ["time-lookup-passes-over"]


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Give a 0.7 partition of two segments of two messages each."""
    directory = tmp_path / "old-0"
    directory.mkdir()
    size = len(builders.pre08_message(b"aa"))
    for base in (0, 2 * size):
        data = builders.pre08_message(b"aa") * 2
        (directory / f"{base:020}.kafka").write_bytes(data)
    return directory


def test_0_7_offset_is_a_byte_position(old: Path) -> None:
    size = len(builders.pre08_message(b"aa"))
    assert at_offset(old, size)["offset"] == size
    inside = at_offset(old, 3 * size + 1, check=True)
    assert (inside["segment"], inside["position"], inside["offset"]) == (2 * size, size, 3 * size)
    assert inside["scan_offset"] == 3 * size
    end = at_offset(old, 4 * size)
    assert (end["offset"], end["error"]) == (None, None)
    assert "OFFSET_OUT_OF_RANGE" in str(at_offset(old, 4 * size + 1)["error"])
    assert "OFFSET_OUT_OF_RANGE" in str(at_offset(old, -1)["error"])


def test_0_7_times_are_those_of_files(old: Path) -> None:
    size = len(builders.pre08_message(b"aa"))
    for base, seconds in ((0, 1000), (2 * size, 2000)):
        os.utime(old / f"{base:020}.kafka", (seconds, seconds))
    found = [at_time(old, target)["offset"] for target in (-2, -1, 999_999, 1_000_000, 2_000_001)]
    assert found == [0, 4 * size, None, 0, 2 * size]


def test_0_7_damage_is_named(old: Path) -> None:
    path = old / "00000000000000000000.kafka"
    data = bytearray(path.read_bytes())
    data[-1] ^= 0xFF
    path.write_bytes(data)
    row = at_offset(old, len(data) - 1)
    assert row["offset"] is None
    assert "no entry can be read" in str(row["error"])


def test_0_7_compares_with_the_moment_of_the_question(old: Path) -> None:
    for path in old.iterdir():
        os.utime(path, (1000, 1000))
    end = 4 * len(builders.pre08_message(b"aa"))
    found = [at_time(old, target, now_ms=5_000_000)["offset"] for target in (4_999_999, 5_000_000)]
    assert found == [end // 2, end]


SAMPLES = Path(__file__).parents[3] / "sample-data"
_LONG = os.environ.get("KDUMP_FUZZ") == "long"
CORPORA = [name for folder in ("modern/data", "old") for name in names(folder)]


def told(paths: list[Path], driver: Driver | None = None) -> list[list[object]]:
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
    paths = directories(SAMPLES)
    alone = told(paths)
    assert told(paths, driver=Workers(3)) == alone
    assert {isinstance(one, str) for one in (alone[0][0], alone[0][-1])} == {True}
    assert sum(isinstance(one, Row) for one in alone[0]) > 40


@pytest.mark.parametrize("name", CORPORA if _LONG else CORPORA[::4])
def test_any_number_of_workers_on_corpora(name: str) -> None:
    paths = directories(corpus(name))
    assert told(paths, driver=Workers(3)) == told(paths)


def test_an_answer_does_not_wait_for_the_next_partition(partition: Path) -> None:
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


def test_a_partition_that_vanished_since_the_plan_is_a_note(partition: Path) -> None:
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


def test_a_partition_that_became_a_file_is_an_error(partition: Path) -> None:
    def change() -> None:
        shutil.rmtree(partition)
        partition.write_text("x")

    (error,) = find_offset([str(partition)], 1, FindOptions(), driver=after(change, ONE_BY_ONE))
    assert isinstance(error, PathError)
    assert error.path == str(partition)


def test_what_check_reads_is_planned(partition: Path) -> None:
    progress = Progress()
    options = FindOptions(check=True)
    list(find_offset([str(partition)], 1, options, driver=Workers(2), progress=progress))
    assert progress.planned_bytes == 5 * SIZE


def test_a_data_directory_is_listed_once_and_its_checkpoints_are_believed_as_they_are(
    partition: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_check_sees_records_that_a_wrapper_hides(tmp_path: Path) -> None:
    """A broker goes by the offset of a wrapper of magic 0; its messages have their own."""
    directory = tmp_path / "data" / "orders-7"
    hiding = builders.wrapper([builders.message(at, magic=0) for at in range(4)], 1, magic=0)
    behind = builders.wrapper([builders.message(at, magic=0) for at in (4, 5)], 5, magic=0)
    write_segment(directory, 0, hiding + behind, [], [])
    options = FindOptions(check=True, broker_version=(0, 9))
    items = [*find_offset([str(directory)], 2, options)]
    (row,) = (item for item in items if isinstance(item, Row))
    assert (row.fields["offset"], row.fields["scan_offset"]) == (4, 2)
    (found,) = (
        item for item in items if isinstance(item, Finding) and item.severity.value != "note"
    )
    assert (found.code, found.position, found.offset) == ("wrapper-offset", 0, 1)
    assert found.message == (
        "Offset 2 is in a wrapper that is said to end at 1: a broker passes over it, to offset 4."
    )
    for sound in (0, 1, 4, 5):
        rows, codes = split(find_offset([str(directory)], sound, options))
        assert (rows[0]["offset"], codes) == (sound, [])


def test_explanation_calls_a_modification_time_what_it_is(partition: Path) -> None:
    for path in partition.glob("*.timeindex"):
        path.write_bytes(b"")
    modified = TIME + 1_000_000
    os.utime(partition / f"{0:020}.log", (modified // 1000, modified // 1000))
    steps = at_time(partition, TIME + 4, explain=True, as_is=True)["steps"]
    assert isinstance(steps, list)
    step = steps[0]
    assert "largest timestamp" not in step["text"]
    assert f"the time its file was modified, {modified}, reaches the target" in step["text"]
    assert (step["largest_timestamp_ms"], step["modified_ms"]) == (None, modified)
