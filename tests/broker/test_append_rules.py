"""What brokers of neighboring releases made of sets in which their answers differ."""

from typing import Any

import builders as b
from each import each

from kdump.broker.append_set import CLOSES, ProducedSet, RefusedError, Topic
from kdump.broker.appending import Answer, StoredRun, append
from kdump.broker.settings import Settings
from kdump.broker.versions import Version

NOW_MS = 1_700_000_000_000
END = 9
V0_10_0, V0_10_1, V0_10_2 = (0, 10, 0, 1), (0, 10, 1, 1), (0, 10, 2, 2)
GZIP = {"compression.type": "gzip"}
OLD_FORMAT = GZIP | {"message.format.version": "0.9.0"}
PLAIN = {"compression.type": "uncompressed"}


def store(data: bytes, version: Version, config: dict[str, str]) -> Any:
    """Send a set; return the one entry that is stored, or the error."""
    topic = Topic.of(version, Settings().of_topic(config), NOW_MS, 1 << 20)
    answer = Answer(END)
    try:
        append(ProducedSet(data, version), topic, answer)
    except RefusedError as refused:
        return "closed" if CLOSES in refused.reason else refused.error
    (one,) = answer.stored
    return one


def message(at: int = 0, **fields: Any) -> bytes:
    return b.message(at, **{"timestamp": NOW_MS + at} | fields)


def wrapper(*inner: bytes, offset: int | None = None, **fields: Any) -> bytes:
    at = len(inner) - 1 if offset is None else offset
    return b.wrapper(inner, at, **{"timestamp": NOW_MS - 50} | fields)


def damage(data: bytes) -> bytes:
    """Break the last block of a stream."""
    return data[:10] + b"\xff" * (len(data) - 10)


ERRORS: list[tuple[bytes, dict[str, str], dict[Version, str | None]]] = [
    (
        wrapper(message(magic=0)), GZIP,
        {V0_10_0: "UNKNOWN_SERVER_ERROR", V0_10_1: "CORRUPT_MESSAGE"},
    ),
    (
        wrapper(message(), compress=lambda plain: damage(b.gzip_bytes(plain))), GZIP,
        {V0_10_1: "CORRUPT_MESSAGE", V0_10_2: "UNKNOWN_SERVER_ERROR"},
    ),
    (
        wrapper(message(timestamp=-7), message(1)), OLD_FORMAT,
        {V0_10_1: None, V0_10_2: "UNKNOWN_SERVER_ERROR"},
    ),
    (
        b.batch([b.record(0), b.record(1)], last_offset_delta=5, base_timestamp=NOW_MS), PLAIN,
        {(1, 0, 2): None, (1, 1): "CORRUPT_MESSAGE", (2, 4): "INVALID_RECORD"},
    ),
    (
        b.batch([b.record(0)], base_timestamp=NOW_MS) + b.batch([b.record(0)], magic=99)[:40],
        PLAIN, {(1, 1, 1): None, (2, 0): "closed", (2, 8): "CORRUPT_MESSAGE"},
    ),
]  # fmt: skip


@each(("data", "config", "expected"), ERRORS)
def test_refused_appends_have_the_error_of_the_broker(
    data: bytes, config: dict[str, str], expected: dict[Version, str | None]
) -> None:
    found = {version: store(data, version, config) for version in expected}
    assert expected == {
        version: None if isinstance(one, StoredRun) else one for version, one in found.items()
    }


def test_wrapper_with_cut_stream_is_stored_at_a_used_offset() -> None:
    cut = wrapper(message(), magic=0, compress=lambda plain: b.gzip_bytes(plain)[:14])
    for version in (V0_10_0, V0_10_1):
        one = store(cut, version, GZIP | {"message.timestamp.type": "LogAppendTime"})
        assert (one.last_offset, one.magic, one.size_bytes) == (END - 1, 0, len(cut))
    assert store(cut, V0_10_2, GZIP) == "UNKNOWN_SERVER_ERROR"


def test_time_of_a_kept_wrapper() -> None:
    sent = wrapper(message(), message(1))
    times = {
        version: store(sent, version, GZIP).max_timestamp_ms
        for version in (V0_10_0, V0_10_1, V0_10_2)
    }
    assert times == {V0_10_0: NOW_MS - 50, V0_10_1: NOW_MS + 1, V0_10_2: NOW_MS + 1}
    at_zero = wrapper(message(), message(1), offset=0)
    assert store(at_zero, V0_10_0, GZIP).max_timestamp_ms == NOW_MS + 1
    kept, rewritten = (store(at_zero, version, GZIP) for version in (V0_10_2, V0_10_1))
    assert kept.size_bytes == len(at_zero)
    assert (rewritten.first_offset, rewritten.last_offset) == (END, END + 1)
