"""Sets that were sent to old brokers, wrong ones among them, against what they answered."""

import json
import lzma
import re
import struct
import zlib
from typing import Any

import pytest
from corpus import find_expected, names
from produce_requests import ERRORS

from kdump.broker.append_set import ProducedSet, RefusedError, Topic
from kdump.broker.appending import Answer, append
from kdump.broker.appending_old import append_old
from kdump.broker.settings import Settings
from kdump.broker.versions import MESSAGE_TIMESTAMPS, Version, has

SETS = [one for one in ("v07-072", "v0-0822", "v0-0901", "v1-01022") if names("old")] or ["none"]
NOW_MS = 1_795_345_822_397
NEVER_FLUSHED = 30  # bytes of a wrapper without messages, which 0.7 shows with the next message
CONFIGS = {
    "bad": {"max.message.bytes": "20000"},
    "badkey": {},
    "badc": {"cleanup.policy": "compact", "message.timestamp.difference.max.ms": "3600000"},
}


def sent_bytes(one: dict[str, Any], version: Version) -> bytes:
    """The bytes that were sent; of long ones only the first are recorded, and the last repeated."""
    match = re.match("[0-9a-f]*", one["sent_hex"])
    assert match is not None
    data = bytes.fromhex(match[0])
    missing = one["sent_bytes"] - len(data)
    if not missing:
        return data
    data += data[-1:] * missing
    if version[:2] == (0, 7):
        return data
    return data[:12] + struct.pack(">I", zlib.crc32(data[16:])) + data[16:]


@pytest.mark.parametrize("name", SETS)
def test_recorded_appends_are_reproduced(name: str) -> None:
    recorded = json.loads(
        lzma.decompress(find_expected(f"old/{name}.clean.answers.json.xz").read_bytes())
    )
    version = tuple(map(int, recorded["version"].split(".")))
    different = []
    for one in recorded["bad_appends"]:
        topic_name = one.get("topic", "old")
        if topic_name == "no-such-topic-here":
            continue
        config = CONFIGS.get(topic_name, {"max.message.bytes": "60000"})
        topic = Topic.of(version, Settings().of_topic(config), NOW_MS, 1 << 26)
        (end,), (end_after,) = one["log_end_before"], one["log_end_after"]
        answer = Answer(end)
        error = None
        try:
            data = ProducedSet(sent_bytes(one, version), version)
            (append if has(version, MESSAGE_TIMESTAMPS) else append_old)(data, topic, answer)
        except RefusedError as refused:
            error, answer.next_offset = refused.error, end
        if "answer" in one:
            same = error == ERRORS[one["answer"]["error"]] and answer.next_offset == end_after
        else:  # 0.7 answers nothing: it closes the connection, or does not
            unflushed = {"gzip of nothing": -NEVER_FLUSHED, "attributes 0x40": NEVER_FLUSHED}
            shown = answer.next_offset + unflushed.get(one["case"], 0)
            is_closed = error not in (None, "MessageSizeTooLargeException")
            same = is_closed == bool(one["connection"]) and shown == end_after
        if not same:
            different.append((one["case"], error, answer.next_offset, one.get("answer"), end_after))
    assert not different
    assert len(recorded["bad_appends"]) > 15
