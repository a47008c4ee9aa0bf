"""The replay of `__consumer_offsets`: what counts, what waits, and what ends what."""

import random
from collections.abc import Iterable
from pathlib import Path

import pytest
from chunks import everything
from corpus import corpus, files, find_shared
from each import each
from offsets_log import START_MS, Log, Pair, chunks, classic, commit, pair, pieces

from kdump.findings.rows import RecordChunk
from kdump.replay import groups as module
from kdump.replay.group_state import GroupsState, read_groups
from kdump.replay.groups import Change, OffsetsLog, group_of, keys_of

SAMPLE = Path(__file__).parents[2] / "sample-data/clean"
LOGS = [
    SAMPLE / "4.4.0/d1/__consumer_offsets-0",
    SAMPLE / "4.4.0/d2/__consumer_offsets-1",
    SAMPLE / "4.4.0/d1/__consumer_offsets-2",
    SAMPLE / "4.1.1/d1/__consumer_offsets-0",
]
COPIES = ("newest/data/clean", "newest/data/killed", "modern/data/live", "modern/data/recovered")


def replayed(taken: Iterable[RecordChunk], until_ms: int | None = None) -> OffsetsLog:
    log = OffsetsLog(until_ms)
    for chunk in taken:
        log.take(chunk)
    return log


def read(log: Log, directory: Path, until_ms: int | None = None) -> GroupsState:
    return read_groups(
        replayed(chunks(log.write(directory / "__consumer_offsets-0")), until_ms), everything
    )


def offsets(found: GroupsState) -> dict[str, int]:
    """Committed offsets by group and partition; a ? stands behind those of open transactions."""
    return {
        f"{one.group} {one.topic}-{one.partition}{'?' * one.pending}": one.offset
        for one in found.commits
    }


def state(log: OffsetsLog) -> object:
    """All that a replay came to, so that two can be compared."""
    return (
        read_groups(log, everything),
        log.commits,
        log.pending,
        log.records,
        log.hole_end,
        log.end_offset,
    )


def test_last_commit_of_a_key_wins(tmp_path: Path) -> None:
    log = Log()
    log.add(commit("g", "t-0", 5), commit("g", "t-1", 6), commit("h", "t-0", 7))
    log.add(commit("g", "t-0", 4))
    assert offsets(read(log, tmp_path)) == {"g t-0": 4, "g t-1": 6, "h t-0": 7}


def test_both_key_types_are_the_same_key(tmp_path: Path) -> None:
    """0.8.2 wrote type 0, and a broker of today reads such a log still."""
    log = Log()
    value = {"offset": 5, "metadata": "m", "commitTimestamp": START_MS}
    log.add(pair(0, ("g", "t", 0), value), pair(0, ("g", "t", 1), value))
    log.add(commit("g", "t-0", 9))
    assert offsets(read(log, tmp_path)) == {"g t-0": 9, "g t-1": 5}


@each("version", range(5))
def test_commits_of_every_version_are_read(version: int, tmp_path: Path) -> None:
    log = Log()
    more: dict[str, object] = {"metadata": "m"}
    if version == 1:
        more["expireTimestamp"] = 99
    if version >= 3:
        more["leaderEpoch"] = 7
    log.add(commit("g", "t-0", 5, version=version, **more))
    (found,) = read(log, tmp_path).commits
    assert (found.offset, found.metadata, found.commit_ms) == (5, "m", START_MS)
    assert found.expire_ms == (99 if version == 1 else None)
    assert found.leader_epoch == (7 if version >= 3 else None)


def test_tombstone_ends_committed_and_pending_offsets(tmp_path: Path) -> None:
    log = Log()
    log.add(commit("g", "t-0", 5), commit("g", "t-1", 6))
    log.add(commit("g", "t-0", 8), producer_id=3)
    log.add(commit("g", "t-0", None))
    log.end(3, committed=True)
    assert offsets(read(log, tmp_path)) == {"g t-1": 6}


@pytest.mark.parametrize(
    ("committed", "expected"),
    [
        (None, {"g t-0": 5, "g t-0?": 8, "g t-1?": 9}),
        (True, {"g t-0": 8, "g t-1": 9}),
        (False, {"g t-0": 5}),
    ],
)
def test_transactional_commit_counts_after_its_marker(
    committed: bool | None, expected: dict[str, int], tmp_path: Path
) -> None:
    log = Log()
    log.add(commit("g", "t-0", 5))
    log.add(commit("g", "t-0", 8), commit("g", "t-1", 9), producer_id=3)
    log.end(4, committed=True)  # of another producer
    if committed is not None:
        log.end(3, committed=committed)
    assert offsets(read(log, tmp_path)) == expected


def test_later_nontransactional_commit_wins(tmp_path: Path) -> None:
    log = Log()
    log.add(commit("g", "t-0", 8), producer_id=3)
    log.add(commit("g", "t-0", 5))
    log.end(3, committed=True)
    assert offsets(read(log, tmp_path)) == {"g t-0": 5}


def test_two_producers_may_have_pending_commits_for_one_key(tmp_path: Path) -> None:
    log = Log()
    log.add(commit("g", "t-0", 8), producer_id=3)
    log.add(commit("g", "t-0", 9), producer_id=4)
    log.end(4, committed=True)
    assert offsets(read(log, tmp_path)) == {"g t-0": 9, "g t-0?": 8}


def test_time_bound_of_the_replay_is_inclusive(tmp_path: Path) -> None:
    log = Log()
    log.add(commit("g", "t-0", 1))
    log.add(commit("g", "t-0", 2), producer_id=3)
    then_ms = log.now_ms
    log.end(3, committed=True)
    log.add(commit("g", "t-0", 4))
    directory = log.write(tmp_path / "__consumer_offsets-0")
    found = {
        until_ms - then_ms: offsets(read_groups(replayed(chunks(directory), until_ms), everything))
        for until_ms in (then_ms - 1, then_ms, then_ms + 1000, then_ms + 2000)
    }
    assert found == {
        -1: {"g t-0": 1},
        0: {"g t-0": 1, "g t-0?": 2},
        1000: {"g t-0": 2},
        2000: {"g t-0": 4},
    }


def names(found: GroupsState) -> list[str]:
    return [group.name for group in found.groups]


def test_group_created_by_a_commit_outlives_it(tmp_path: Path) -> None:
    log = Log()
    log.add(commit("g", "t-0", 1), commit("aborted", "t-0", 1))
    log.add(commit("g", "t-0", None))
    log.add(commit("aborted", "t-0", 2), producer_id=3)
    log.end(3, committed=False)
    log.add(commit("aborted", "t-0", None), commit("never", "t-0", None))
    assert names(read(log, tmp_path)) == ["aborted", "g"]


def test_group_tombstone_deletes_the_group(tmp_path: Path) -> None:
    log = Log()
    log.add(classic("g", 2), commit("g", "t-0", 1), commit("gone", "t-0", 1))
    log.add(commit("gone", "t-0", None), commit("g", "t-0", None))
    log.add(classic("gone", None), classic("g", None))
    assert names(read(log, tmp_path)) == []


def test_deleted_group_may_return(tmp_path: Path) -> None:
    log = Log()
    log.add(commit("left", "t-0", 1), commit("g", "t-0", 1))
    log.add(classic("left", None), classic("g", None))
    log.add(commit("g", "t-1", 2))
    found = read(log, tmp_path)
    assert names(found) == ["g"]
    assert offsets(found) == {"g t-0": 1, "g t-1": 2}


def test_ended_groups_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups come and go for years; what is held is bounded by those there are."""
    monkeypatch.setattr(module, "_ENDED_KEPT", 10)
    log = Log()
    log.add(commit("left", "t-0", 1))
    log.add(classic("left", None))
    for number in range(200):
        log.add(commit(f"g{number}", "t-0", 1))
        log.add(commit(f"g{number}", "t-0", None), classic(f"g{number}", None))
    held = replayed(chunks(log.write(tmp_path / "__consumer_offsets-0")))
    assert len(held._ended) <= 11
    assert not held._gone
    assert held.groups() == set()


def test_group_may_change_its_type(tmp_path: Path) -> None:
    log = Log()
    log.add(classic("g", 1))
    log.add(pair(3, ("g",), {"epoch": 4}))
    (group,) = read(log, tmp_path).groups
    assert (group.type, group.epoch, group.members) == ("Consumer", 4, ())
    log.add(classic("g", 1))
    (group,) = read(log, tmp_path / "back").groups
    assert (group.type, len(group.members)) == ("Classic", 1)


def test_records_of_unknown_types_are_counted(tmp_path: Path) -> None:
    log = Log()
    unknown: list[Pair] = [
        (None, b"v"), (b"", b"v"), (b"\0", None), (b"\x7f\xff\0\1g", b"v"), (b"\0\2\0\\9g", b"v"),
        (b"\0\1", b"v"), (b"\0\1\xff\xff", b"v"), (b"\0\1\0\1g\0\1t\0\0\0\0", b""),
        (b"\0\2\0\1g", b"\0\3"), (b"\0\2\0\1h", b"\0\x63rest"),
    ]  # fmt: skip
    log.add(*unknown)
    found = read(log, tmp_path)
    assert found.unreadable == len(unknown)
    assert found.commits == ()


def test_key_gives_its_group() -> None:
    assert group_of(b"\0\1\0\1gt") == b"g"
    assert group_of(b"\0\1\0\0") == b""
    for size in (b"\0\2g", b"\xff\xffg"):
        assert group_of(b"\0\1" + size) is None
    assert (b"\0\1" + keys_of("g") + b"t").startswith(b"\0\1\0\1gt")


def test_replay_of_one_group_equals_the_full_replay() -> None:
    for path in all_logs():
        whole = read_groups(replayed(chunks(path)), everything)
        for name in {group.name for group in whole.groups}:
            alone, row_wise = (OffsetsLog(only=keys_of(name)) for _ in range(2))
            for chunk in chunks(path):
                alone.take(chunk)
                for _ in row_wise.changes(chunk):
                    pass
            assert read_groups(alone, everything) == read_groups(row_wise, everything)
            found = read_groups(alone, everything)
            assert found.groups == tuple(one for one in whole.groups if one.name == name)
            assert found.commits == tuple(one for one in whole.commits if one.group == name)


def test_holes_are_told_from_damage(tmp_path: Path) -> None:
    log = Log()
    log.add(commit("g", "t-0", 1))
    log.add(commit("g", "t-0", 2), skip=3)
    held = replayed(chunks(log.write(tmp_path / "one" / "__consumer_offsets-0")))
    assert (held.hole_end, held.end_offset) == (4, 5)
    held = OffsetsLog()
    for chunk in chunks(tmp_path / "one" / "__consumer_offsets-0"):
        for piece in pieces(chunk, range(1, chunk.records.count)):
            held.take(piece)
            held.note_loss()  # as if damage lay behind each
    assert held.hole_end == 0


def logs_of_corpora() -> list[Path]:
    if find_shared() is None:
        return []
    return [
        log.parent for name in COPIES for log in files(corpus(name), "__consumer_offsets-*/*.log")
    ]


def all_logs() -> list[Path]:
    return [*LOGS, *logs_of_corpora()]


def test_replay_to_every_offset_equals_a_fresh_replay() -> None:
    """And what the changes come to is what the fast way comes to."""
    seen = groups = 0
    for path in all_logs():
        taken = list(chunks(path))
        assert taken
        one_by_one = OffsetsLog()
        for number, chunk in enumerate(taken):
            for row, piece in enumerate(pieces(chunk, range(1, chunk.records.count))):
                followed = {
                    change.key: change.now
                    for change in one_by_one.changes(piece)
                    if isinstance(change, Change)
                }
                for key, now in followed.items():
                    assert one_by_one.commits.get(key) == now
                scratch = replayed([*taken[:number], next(pieces(chunk, [row + 1]))])
                assert state(one_by_one) == state(scratch)
                seen += 1
        assert not one_by_one.unknown
        groups += len(one_by_one.groups())
    assert seen > 100
    assert groups > 10


def test_chunk_bounds_do_not_matter() -> None:
    draw = random.Random(7)
    for path in all_logs():
        whole = replayed(chunks(path))
        for _ in range(5):
            held = OffsetsLog()
            for chunk in chunks(path):
                count = chunk.records.count
                cuts = sorted(draw.choices(range(count + 1), k=3))
                for piece in pieces(chunk, cuts):
                    held.take(piece)
            assert state(held) == state(whole)


def test_members_do_not_depend_on_read_order() -> None:
    """Names that are not wanted are left out, and nothing else changes."""
    held = replayed(chunks(LOGS[0]))
    whole = read_groups(held, everything)
    for group in whole.groups:
        found = read_groups(held, group.name.__eq__)
        assert found.groups == (group,)
        assert found.commits == tuple(one for one in whole.commits if one.group == group.name)


@each("seed", range(20))
def test_hostile_bytes_are_survived(seed: int) -> None:
    """Keys and values of every record with bytes changed: nothing is raised, nothing hangs."""
    draw = random.Random(seed)
    for path in LOGS:
        log, row_wise = OffsetsLog(), OffsetsLog()
        for chunk in chunks(path):
            data = bytearray(chunk.data)
            records = chunk.records
            for row in range(records.count):
                spans = [
                    (records.key_position(row), records.key_size(row)),
                    (records.value_position(row), records.value_size(row)),
                ]
                for at, size in spans:
                    for _ in range(draw.choice((0, 0, 1, 3)) if size > 0 else 0):
                        data[at + draw.randrange(size)] = draw.choice((0, 1, 2, 0x7F, 0x80, 0xFF))
            hostile = RecordChunk(chunk.place, data, chunk.batches, records, None, chunk.controls)
            log.take(hostile)
            for _ in row_wise.changes(hostile):
                pass
        assert state(log) == state(row_wise)
        read_groups(log, everything)


def test_empty_chunk_changes_nothing() -> None:
    for chunk in chunks(LOGS[0]):
        empty = RecordChunk(chunk.place, chunk.data, chunk.batches, chunk.records.slice(0, 0))
        log = OffsetsLog()
        log.take(empty)
        assert list(log.changes(empty)) == []
        assert log.groups() == set()


def test_assignor_of_a_newer_group_is_that_of_most_members(tmp_path: Path) -> None:
    log = Log()
    log.add(pair(3, ("g",), {"epoch": 2}))
    asked = {"m1": "range", "m2": "uniform", "m3": "uniform", "m4": None}
    one = {"clientId": "c", "clientHost": "/h", "instanceId": None, "rackId": None}
    one |= {"subscribedTopicRegex": None, "classicMemberMetadata": None}
    for name, assignor in asked.items():
        log.add(pair(5, ("g", name), {**one, "serverAssignor": assignor}))
    (group,) = read(log, tmp_path).groups
    assert (group.protocol, group.epoch, len(group.members)) == ("uniform", 2, 4)
