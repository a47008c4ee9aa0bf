"""What the kernel reads, writes and folds of messages is what the interpreter makes of them."""

from __future__ import annotations

import random
from array import array
from pathlib import Path
from typing import Any

import builders
import metadata_log as log
import pytest
from chunks import record_chunk
from long_runs import SEED, how_many
from message_drawing import fields
from message_writing import message_bytes

from kdump import kernels
from kdump.findings.rows import Place, RecordChunk
from kdump.messages.records import TOPICS
from kdump.messages.table import Message, message, tables
from kdump.messages.wire import MalformedError, Reader
from kdump.replay.cluster import Until, read_replay
from kdump.replay.cluster_state import facts
from kdump.values import decoded_values
from kdump.values.decoded_values import Values
from kdump.values.decoder import decoder_of

_fast = pytest.importorskip("kdump.kernels._fast", reason="the compiled kernel is not built")

ROUNDS = how_many(4, 2000)  # of each message in each version
LOGS = how_many(60, 20_000)


def damaged(rng: random.Random, data: bytes) -> bytes:
    """Cut, lengthen or change bytes."""
    at = rng.randrange(len(data) + 1)
    kind = rng.randrange(4)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + rng.choice((b"\0", b"\1", b"\xff", rng.randbytes(3))) + data[at:]
    if kind == 2:
        return data[:at] + rng.choice((b"\0", b"\x80", b"\x7f", rng.randbytes(1))) + data[at + 1 :]
    return data[:at] + data[at + rng.choice((1, 2, 4)) :]


def interpreted(known: Message, version: int, data: bytes, start: int) -> str | None:
    reader = Reader(data, start)
    try:
        return repr((known.read_from(reader, version), reader.at))
    except MalformedError:
        return None


@pytest.mark.fuzz
def test_kernel_reads_like_the_interpreter() -> None:
    rng = random.Random(SEED)
    left = 0
    for name in tables():
        known = message(name)
        for version in range(known.versions.first, known.versions.last + 1):
            read = _fast.message_reader(known.layout(version))
            for _ in range(ROUNDS):
                data = message_bytes(known, version, fields(rng, known.fields, version))
                start = rng.choice((0, 3))
                data = bytes(start) + data
                found = read(data, start)
                assert found is not None, "what is sound is read by the kernel"
                assert repr(found) == interpreted(known, version, data, start)
                for _ in range(4):
                    data = damaged(rng, data)
                    found = read(data, start)
                    left += found is None
                    if found is not None:
                        assert repr(found) == interpreted(known, version, data, start), (name, data)
    assert left


def test_falls_back_to_the_interpreter() -> None:
    read = _fast.message_reader(message("PartitionChangeRecord").layout(2))
    head, leader = bytes(20), b"\1\4" + bytes(4)
    assert read(head + b"\1" + leader, 0) is not None
    for section in (b"\1\x63\0", b"\xff\xff\xff\xff\x0f" + leader, b"\1\1\5", b"\1\1\3\0\0\0"):
        assert read(head + section, 0) is None, section
    many = b"\x82\x80\x01" + bytes(4 << 14) + bytes(4)
    assert read(head + b"\1\0\x83\x80\x04" + many[: 3 + (4 << 14)], 0) is None
    assert read(head, -1) is read(head, 99) is None


def drawn_pair(rng: random.Random, area: str) -> tuple[bytes | None, bytes | None]:
    """Draw a record of an internal topic, now and then damaged or without a key or a value."""
    kinds: dict[Any, dict[str, Message]] = {}
    for name, table in tables().items():
        if table["area"] == area and "id" in table:
            kinds.setdefault(table["id"], {})[table["kind"]] = message(name)
    type_id = rng.choice(list(kinds))
    key: bytes | None = None
    value: bytes | None
    known = kinds[type_id].get("record") or kinds[type_id].get("value")
    if known is None:
        value = b"\0\0"
    else:
        version = rng.randint(known.versions.first, known.versions.last)
        value = message_bytes(known, version, fields(rng, known.fields, version))
        head = bytes((1, type_id, version)) if known.kind == "record" else bytes((0, version))
        value = head + value
    if "key" in kinds[type_id]:
        of_key = kinds[type_id]["key"]
        key = bytes((0, type_id)) + message_bytes(of_key, 0, fields(rng, of_key.fields, 0))
        if rng.random() < 0.1:
            key = rng.choice((None, b"", damaged(rng, key)))
    if rng.random() < 0.2:
        value = rng.choice((None, b"", b"\1", damaged(rng, value), value + b"?"))
    return key, value


def texts(values: Values, chunk: RecordChunk) -> list[tuple[object, ...]]:
    """List what is shown of each record."""
    return [
        (part.records.offset(number), part.records.flags_of(number), part.control(number), row)
        for part in values.chunks(chunk)
        for number, row in zip(part.numbers, part.iter_records(), strict=True)
    ]


@pytest.mark.fuzz
def test_kernel_writes_the_text_of_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(SEED)
    for n in range(LOGS):
        topic, area = rng.choice(list(TOPICS.items()))
        monkeypatch.setattr(decoded_values, "_FIRST_RECORDS", rng.choice((1, 3, 64)))
        monkeypatch.setattr(decoded_values, "_MOST_TEXT", rng.choice((1, 500, 1 << 20)))
        data = b""
        for _ in range(rng.randrange(1, 4)):
            pairs = [drawn_pair(rng, area) for _ in range(rng.randrange(1, 20))]
            records = [builders.record(i, 0, key, value) for i, (key, value) in enumerate(pairs)]
            data += builders.batch(records)
            if rng.random() < 0.3:
                data += builders.batch(
                    [builders.control_record(1, bytes(6))], attributes=builders.CONTROL | 0x10
                )
        chunk = record_chunk(data, Place(topic, 0, 0, f"{topic}-0/0.log"))
        if rng.random() < 0.4:
            rows = [row for row in range(chunk.records.count) if rng.random() < 0.5]
            chunk.rows = array("q", rows)
        decoder = decoder_of(topic)
        assert decoder is not None
        assert decoder.write is not None or kernels.NAME == "pure"
        by_kernel, by_interpreter = (
            texts(Values(decoder._replace(write=write), None, secrets=n % 2 == 0), chunk)
            for write in (decoder.write, None)
        )
        assert by_kernel == by_interpreter


def drawn_log(rng: random.Random) -> bytes:
    """Draw a metadata log in which partitions change, also such as are not there."""
    lists = [
        lambda: log.ids(*rng.sample((1, 2, 3), rng.randint(0, 3))),
        lambda: log.array([log.uuid(n) for n in rng.sample((1, 2, 3), rng.randint(0, 3))]),
        lambda: b"\0",
    ]

    def said(tag: int) -> bytes:
        if tag == 1:
            return log.int32(rng.choice((-2, -1, 1, 2)))
        if tag == 5:
            return rng.choice((b"\0", b"\1", b"\xff"))
        return rng.choice((lists[tag == 8], lists[2]))()

    def one() -> bytes:
        topic, number = rng.randrange(1, 3), rng.randrange(3)
        kind = rng.randrange(20)
        if kind == 0:
            return log.topic(f"topic-{topic}", topic)
        if kind < 3:
            return log.partition(number, topic, (1, 2), rng.choice(((), (1, 2))))
        if kind == 3:
            return rng.choice(
                (log.remove_topic(topic), log.frame_record(28, 0, log.text("") + b"\0"))
            )
        if kind == 4:
            return log.frame_record(rng.choice((23, 24, 25)), 0, b"\0")
        if kind == 5:
            return rng.choice((log.NO_OP, b"\1\5", b"\1\x63\0", b""))
        tags = sorted(rng.sample((0, 1, 2, 3, 4, 5, 6, 7, 8), rng.randrange(4)))
        body = log.int32(number) + log.uuid(topic)
        body += log.tag_fields(*((tag, said(tag)) for tag in tags))
        made = log.frame_record(5, rng.choice((0, 1, 2, 2, 2, 3)), body)
        return damaged(rng, made) if kind == 6 else made

    data, offset = b"", 0
    for _ in range(rng.randrange(1, 12)):
        records = [one() for _ in range(rng.randrange(1, 12))]
        data += log.log_of(records, log.LONG_AGO + rng.randrange(-50, 50) + offset, offset)
        offset += len(records) + (rng.random() < 0.05)
    return data


@pytest.mark.fuzz
def test_folded_changes_equal_single_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(SEED)
    path = tmp_path / "__cluster_metadata-0"
    path.mkdir()
    for _ in range(LOGS * 3):
        (path / f"{0:020d}.log").write_bytes(drawn_log(rng))
        until = rng.choice(
            (
                Until(),
                Until(offset=rng.randrange(60)),
                Until(time_ms=log.LONG_AGO + rng.randrange(-60, 90)),
            )
        )
        came_to = []
        for folds in (_fast.folded_changes, lambda: None):
            monkeypatch.setattr(kernels, "folded_changes", folds)
            replay = read_replay(str(path), until=until, whole=True)
            state = replay.state
            came_to.append(
                (
                    list(facts(state)),
                    replay.holes,
                    (state.next_offset, state.last_ms, state.complete, state.unknown),
                    (state.removed, state.last_of_removed, state.in_transaction),
                )
            )
        assert came_to[0] == came_to[1]
