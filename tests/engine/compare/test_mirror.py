"""`compare --mirror`: stretches, gaps, copies and order, and offsets that are translated."""

import json
import random
import struct
from functools import partial
from pathlib import Path
from typing import Any

import builders
import commands
import pytest
from corpus import corpus
from long_runs import SEED, how_many
from offsets_log import Log, commit

from kdump.engine.compare.plan import CompareOptions
from kdump.engine.compare.run import compare
from kdump.engine.work.pipeline import Workers
from kdump.findings.rows import Row

AT_MS = 1_700_000_000_000


def partition(root: Path, name: str, numbers: list[int | None], base: int = 0) -> Path:
    """Write a partition with a record of each number; None: an offset that is left out."""
    path = root / name
    path.mkdir(parents=True)
    log = b""
    for at, number in enumerate(numbers):
        if number is not None:
            one = builders.record(0, 0, b"k%d" % (number % 7), b"v%d" % number)
            time_ms = AT_MS + number
            log += builders.batch(
                [one], base_offset=base + at, base_timestamp=time_ms, max_timestamp=time_ms
            )
    (path / f"{base:020}.log").write_bytes(log)
    return path


def run_mirror(source: Path, target: Path, **asked: Any) -> list[Any]:
    options = CompareOptions(mirror=True, **{"shown": 10_000} | asked)
    return list(compare([str(source), str(target)], options))


def stretches(rows: list[Any]) -> list[tuple[Any, ...]]:
    return [
        (one.kind, one.place, one.first_offset, one.last_offset, one.target_first_offset,
         one.target_last_offset, one.shift, one.records_count)
        for one in rows if isinstance(one, Row) and one.row == "mirror-stretch"
    ]  # fmt: skip


def verdicts(rows: list[Any]) -> list[tuple[str, str | None]]:
    return [(one.verdict, one.severity) for one in rows if one.row == "mirror-comparison"]


run = partial(commands.run, "compare", "--mirror")


def test_gaps_copies_and_reordering_in_a_mirror_are_reported(tmp_path: Path) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    partition(source, "orders-0", [*range(10), None, *range(10, 20)], base=100)
    there = [0, 1, 2, 3, 2, 3, *range(6, 12), 13, 12, *range(14, 18)]
    partition(target, "east.orders-0", list(there), base=5)
    rows = run_mirror(source, target)
    assert stretches(rows) == [
        ("mirrored", None, 100, 103, 5, 8, -95, 4),
        ("only-source", "inside", 104, 105, None, None, None, 2),
        ("mirrored", None, 106, 109, 11, 14, -95, 4),
        ("mirrored", None, 111, 112, 15, 16, -96, 2),
        ("mirrored", None, 113, 113, 18, 18, -95, 1),
        ("reordered", None, 114, 114, 17, 17, -97, 1),
        ("mirrored", None, 115, 118, 19, 22, -96, 4),
        ("only-source", "end", 119, 120, None, None, None, 2),
        ("duplicated", None, 102, 103, 9, 10, -93, 2),
    ]
    (comparison,) = (one for one in rows if one.row == "mirror-comparison")
    assert (comparison.verdict, comparison.severity, comparison.shift) == ("missing", "damage", -96)
    assert (comparison.paired, comparison.only_source, comparison.duplicated) == (16, 4, 2)
    assert run_mirror(source, target, shown=3)[:3] == rows[:3]
    status = run(source, target).exit_code
    assert status == 3
    assert run("--fail-on", "never", source, target).exit_code == 0


def test_sound_mirrors_are_not_damage(tmp_path: Path) -> None:
    source = tmp_path / "a"
    partition(source, "orders-0", list(range(5, 10)), base=5)
    for name, there, verdict in (
        ("same", list(range(5, 10)), "mirrored"),
        ("behind", [5, 6, 7], "behind"),
        ("longer", list(range(10)), "start-differs"),
        ("later", [8, 9], "start-differs"),
        ("more", [5, 6, 7, 8, 9, 77], "foreign-records"),
        ("twice", [5, 6, 5, 6, 7, 8, 9], "duplicated"),
        ("other", [77, 78], "unrelated"),
    ):
        partition(tmp_path / name, "orders-0", list(there))
        found = verdicts(run_mirror(source, tmp_path / name))
        severity = {"mirrored": None, "unrelated": "damage"}.get(verdict, "note")
        assert found == [(verdict, severity)], name
    (tmp_path / "a" / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 9\n")
    partition(tmp_path / "holes", "orders-0", [5, 6, 8, 9])
    assert verdicts(run_mirror(source, tmp_path / "holes")) == [("cleaned-differently", "note")]


def test_aborted_transactions_are_not_missing(tmp_path: Path) -> None:
    """A mirror has all records, or those that were committed, also of a transaction sent again."""
    source = tmp_path / "a" / "pay-0"
    source.mkdir(parents=True)
    log, index, sent = b"", b"", []
    for number, (values, is_aborted) in enumerate(
        [
            ((0, 1), False),
            ((2, 3), True),
            ((2, 3), False),
            ((4,), True),
            ((5,), False),
            ((6,), True),
        ]
    ):
        base, first = len(sent), len(sent)
        records = [builders.record(at, 0, b"k", b"v%d" % one) for at, one in enumerate(values)]
        log += builders.batch(
            records, base_offset=base, attributes=builders.TRANSACTIONAL, producer_id=7,
            producer_epoch=0, base_sequence=number, base_timestamp=AT_MS, max_timestamp=AT_MS,
        )  # fmt: skip
        sent += [*((one, is_aborted) for one in values), (None, False)]
        log += builders.marker(
            int(not is_aborted), base_offset=len(sent) - 1, producer_id=7, producer_epoch=0
        )
        if is_aborted:
            index += struct.pack(">hqqqq", 0, 7, first, len(sent) - 1, len(sent))
    (source / f"{0:020}.log").write_bytes(log)
    (source / f"{0:020}.txnindex").write_bytes(index)
    committed = [one for one, is_aborted in sent if one is not None and not is_aborted]
    every = [one for one, _ in sent if one is not None]
    for name, there, aborted, expected in (
        ("committed", committed, 4, ("mirrored", None)),
        ("every", every, 0, ("mirrored", None)),
        ("behind", committed[:-1], 4, ("behind", "note")),
        ("missing", [*committed[:2], *committed[3:]], 4, ("missing", "damage")),
        ("some", [*every[:-2], every[-1]], 0, ("missing", "damage")),
    ):
        mirror = tmp_path / name / "pay-0"
        mirror.mkdir(parents=True)
        (mirror / f"{0:020}.log").write_bytes(
            b"".join(
                builders.batch(
                    [builders.record(0, 0, b"k", b"v%d" % one)], base_offset=at,
                    base_timestamp=AT_MS, max_timestamp=AT_MS,
                )
                for at, one in enumerate(there)
            )
        )  # fmt: skip
        rows = run_mirror(source.parent, mirror.parent)
        (comparison,) = (one for one in rows if one.row == "mirror-comparison")
        assert (comparison.verdict, comparison.severity) == expected, name
        assert comparison.aborted == aborted, name
        shown = stretches(rows)
        assert sum(one[-1] for one in shown if one[0] == "aborted") == aborted
        assert comparison.paired + comparison.only_source + aborted == len(every)
        firsts = [one[2] for one in shown]
        assert firsts == sorted(firsts), name


def test_generated_mirrors_are_described(tmp_path: Path) -> None:
    """Random gaps, copies, holes, equal records: what is told adds up, and offsets are right."""
    for number in range(how_many(15, 400)):
        draw = random.Random(SEED * 1000 + number)
        says = draw.choice((5, 10_000))  # few different records, or many
        here: list[int | None] = []
        there: list[int | None] = []
        mirrored = 0
        for _ in range(draw.randrange(1, 120)):
            said = draw.randrange(says)
            if draw.random() < 0.1:
                here.append(None)
            here.append(said)
            if draw.random() < 0.9:
                mirrored += 1
                there.append(said)
                if draw.random() < 0.05:
                    there.append(said)
            if draw.random() < 0.05:
                there.append(None)
        root = tmp_path / str(number)
        partition(root / "a", "t-0", here)
        partition(root / "b", "t-0", there)
        rows = run_mirror(root / "a", root / "b")
        (comparison,) = (one for one in rows if one.row == "mirror-comparison")
        records = sum(one is not None for one in here), sum(one is not None for one in there)
        assert (comparison.source_records, comparison.target_records) == records
        assert comparison.paired + comparison.only_source == records[0]
        assert comparison.paired + comparison.only_target + comparison.duplicated == records[1]
        for kind, _, first, last, target, _, shift, count in stretches(rows):
            if target is not None and first is not None:
                pairs = [(at, at + shift) for at in range(first, last + 1) if here[at] is not None]
                assert [here[at] for at, _ in pairs] == [there[at] for _, at in pairs], kind
                assert len(pairs) == count
        if says > 5 and len({*here} - {None}) == records[0]:
            assert comparison.only_source == records[0] - mirrored
        sized = [one[-1] for one in stretches(rows)]
        assert sum(sized) == sum((records[0], comparison.only_target, comparison.duplicated))


@pytest.fixture
def committed(tmp_path: Path) -> tuple[Path, Path]:
    source, target = tmp_path / "a", tmp_path / "b"
    partition(source, "orders-0", [0, 1, 2, None, 3, 4, 5])
    partition(target, "orders-0", [0, 1, 2, 3, 4], base=0)
    log = Log()
    for group, offset in (("billing", 3), ("billing-2", 5), ("behind", 7), ("start", 0)):
        log.add(commit(group, "orders-0", offset))
    log.write(source / "__consumer_offsets-0")
    return source, target


def test_committed_offsets_are_translated_by_records(committed: tuple[Path, Path]) -> None:
    rows = [one for one in run_mirror(*committed, groups=True) if one.row == "translated-offset"]
    assert [(one.group, one.source_offset, one.offset, one.basis) for one in rows] == [
        ("behind", 7, 5, "records"),
        ("billing", 3, 3, "records"),
        ("billing-2", 5, 4, "records"),
        ("start", 0, 0, "records"),
    ]
    plan = run("--groups", "--group", "billing*", "--format", "reset-csv", *committed).stdout
    assert plan == "billing,orders,0,3\nbilling-2,orders,0,4\n"
    one = run("--groups", "--group", "billing", "--format", "reset-csv", *committed).stdout
    assert one == "orders,0,3\n"


def mirror_maker_log(path: Path, key: bytes, values: list[tuple[int, int]], version: bytes) -> None:
    """Write what MirrorMaker 2 says of offsets: upstream and downstream in each record."""
    path.mkdir()
    log = b""
    for at, (upstream, downstream) in enumerate(values):
        said = version + struct.pack(">qq", upstream, downstream)
        said += b"\0\0" if version else b""  # the metadata of a checkpoint
        one = builders.record(0, 0, key, said)
        log += builders.batch([one], base_offset=at, base_timestamp=AT_MS)
    empty = builders.record(0, 0, None, None)
    log += builders.batch([empty], base_offset=len(values), base_timestamp=AT_MS)
    (path / f"{0:020}.log").write_bytes(log)


def text(word: str) -> bytes:
    return struct.pack(">h", len(word)) + word.encode()


ORDERS = text("orders") + struct.pack(">i", 0)


def translated(rows: list[Any]) -> list[tuple[Any, ...]]:
    return [
        (one.group, one.source_offset, one.offset, one.basis, one.records_offset, one.sync_offset)
        for one in rows
        if isinstance(one, Row) and one.row == "translated-offset"
    ]


def test_offset_syncs_translate_what_is_not_above_them(committed: tuple[Path, Path]) -> None:
    """The later of two syncs counts; one that goes back ends all before, as after a new topic."""
    syncs = [(0, 50), (2, 60), (5, 70), (3, 80), (4, 90)]
    mirror_maker_log(committed[0] / "mm2-offset-syncs.b.internal-0", ORDERS, syncs, b"")
    assert translated(run_mirror(*committed, groups=True)) == [
        ("behind", 7, 91, "offset-sync", 5, 91),
        ("billing", 3, 80, "offset-sync", 3, 80),
        ("billing-2", 5, 91, "offset-sync", 4, 91),
        ("start", 0, 0, "records", 0, None),
    ]


def test_checkpoint_of_the_same_offset_is_taken(committed: tuple[Path, Path]) -> None:
    key = text("billing") + ORDERS
    path = committed[1] / "a.checkpoints.internal-0"
    mirror_maker_log(path, key, [(1, 11), (3, 33)], b"\0\0")
    assert translated(run_mirror(*committed, groups=True))[1] == (
        ("billing", 3, 33, "checkpoint", 3, None)
    )


def test_topic_with_the_name_of_the_source_before_it_is_its_mirror(tmp_path: Path) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    for root, name in ((source, "orders-0"), (target, "west.orders-0"), (target, "orders-0")):
        partition(root, name, [0, 1])
    rows = run_mirror(source, target, alias="west")
    assert [one.target_topic for one in rows if one.row == "mirror-comparison"] == ["west.orders"]


def test_partition_without_a_mirror_is_named(tmp_path: Path) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    for root, name in ((source, "orders-0"), (source, "orders-1"), (target, "orders-0")):
        partition(root, name, [0, 1])
    assert verdicts(run_mirror(source, target)) == [("mirrored", None), ("not-here", None)]


def test_mirror_options_need_mirror(committed: tuple[Path, Path]) -> None:
    for words, told_ in (
        (("--groups",), "--groups requires --mirror"),
        (("--mirror", "--group", "g"), "--group requires --groups"),
        (("--mirror", "--format", "reset-csv"), "requires --mirror --groups"),
    ):
        done = commands.run("compare", *words, *committed)
        assert (done.exit_code, told_ in done.stderr) == (2, True), words
    assert "two directories" in run(committed[0]).stderr
    nothing = run(committed[0] / "__consumer_offsets-0", committed[1])
    assert nothing.exit_code == 1


def test_workers_give_the_same_result(committed: tuple[Path, Path]) -> None:
    options = CompareOptions(mirror=True, groups=True)
    paths = [*map(str, committed)]
    assert list(compare(paths, options, driver=Workers(2))) == list(compare(paths, options))


def test_mirror_maker_output_matches_its_checkpoints() -> None:
    """In the corpus it mirrors from one name of a broker to another."""
    data = corpus("values/data/clean") / "data"
    done = run("--alias", "west", "--groups", "--topic", "westbound", "--format", "jsonl", data)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    found = [one for one in rows if one["row"] == "mirror-comparison"]
    assert [(one["verdict"], one["shift"], one["paired"]) for one in found] == [
        ("mirrored", 0, 50)
    ] * 3
    offsets = [one for one in rows if one["row"] == "translated-offset"]
    of_maker = [one for one in offsets if one["group"] == "west-readers"]
    assert [
        (one["source_offset"], one["offset"], one["sync_offset"], one["records_offset"])
        for one in of_maker
    ] == [(44, 41, 41, 44), (45, 41, 41, 45), (50, 50, 50, 50)]
    assert {one["basis"] for one in of_maker} == {"checkpoint"}
    assert all(one["checkpoint_offset"] == one["offset"] for one in of_maker)
