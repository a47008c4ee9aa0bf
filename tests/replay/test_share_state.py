"""The replay of `__share_group_state`: snapshots, updates to them, and what ends them (G5)."""

import random
from pathlib import Path
from typing import Any

from each import each
from message_writing import message_bytes
from offsets_log import Log, Pair, chunks

from kdump.findings.rows import RecordChunk
from kdump.messages.table import message
from kdump.replay.share_state import ShareLog, SharePartition

SAMPLE = Path(__file__).parents[2] / "sample-data/clean/4.4.0"
TOPIC_ID = "A" * 21 + "Q"
KEY = ("g", TOPIC_ID, 3)


def written(type_id: int, name: str, **fields: Any) -> Pair:
    key = message_bytes(
        message(f"{name}Key"), 0, {"groupId": "g", "topicId": TOPIC_ID, "partition": 3}
    )
    whole_key = type_id.to_bytes(2, "big") + key
    if not fields:
        return whole_key, None
    return whole_key, b"\0\0" + message_bytes(
        message(f"{name}Value"), 0, {"stateBatches": [], **fields}
    )


def snapshot(**fields: int) -> Pair:
    return written(0, "ShareSnapshot", **fields)


def update(**fields: int) -> Pair:
    return written(1, "ShareUpdate", **fields)


def replayed(*pairs: Pair, directory: Path, until_ms: int | None = None) -> ShareLog:
    log = Log()
    for pair in pairs:
        log.add(pair)
    held = ShareLog(until_ms)
    for chunk in chunks(log.write(directory / "__share_group_state-0")):
        held.take(chunk)
    return held


def test_update_contains_the_changes(tmp_path: Path) -> None:
    held = replayed(
        snapshot(startOffset=5, leaderEpoch=2),
        update(startOffset=7, leaderEpoch=-1),
        update(startOffset=-1, leaderEpoch=3),
        directory=tmp_path,
    )
    assert held.partitions == {KEY: SharePartition(7, 3, 1_700_000_003_000, 2)}


def test_start_offset_may_be_unset(tmp_path: Path) -> None:
    held = replayed(snapshot(startOffset=-1, leaderEpoch=-1), directory=tmp_path)
    assert held.partitions[KEY][:2] == (None, None)


def test_update_without_a_snapshot_is_ignored(tmp_path: Path) -> None:
    assert replayed(update(startOffset=7, leaderEpoch=1), directory=tmp_path).partitions == {}


def test_tombstone_deletes_the_state(tmp_path: Path) -> None:
    pairs = snapshot(startOffset=5, leaderEpoch=2), snapshot()
    assert replayed(*pairs, directory=tmp_path).partitions == {}


def test_time_bound_of_the_replay_is_inclusive(tmp_path: Path) -> None:
    pairs = [snapshot(startOffset=number, leaderEpoch=0) for number in range(4)]
    held = replayed(*pairs, directory=tmp_path, until_ms=1_700_000_002_000)
    assert held.partitions[KEY].start_offset == 1


def test_unknown_records_are_counted(tmp_path: Path) -> None:
    pairs: list[Pair] = [(None, b"v"), (b"", None), (b"\0\7rest", b"v"), (snapshot()[0], b"\0\0")]
    held = replayed(*pairs, directory=tmp_path)
    assert (held.unknown, held.partitions) == (4, {})


@each("seed", range(20))
def test_hostile_bytes_are_survived(seed: int) -> None:
    draw = random.Random(seed)
    for path in ("d1/__share_group_state-1", "d2/__share_group_state-0"):
        held = ShareLog()
        for chunk in chunks(SAMPLE / path):
            data = bytearray(chunk.data)
            for _ in range(len(data) // 20):
                data[draw.randrange(len(data))] = draw.choice((0, 1, 0x7F, 0x80, 0xFF))
            held.take(RecordChunk(chunk.place, data, chunk.batches, chunk.records))
        assert held.partitions or held.unknown
