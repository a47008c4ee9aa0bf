"""What a leader and a follower store of random sets, against the broker's own classes (4.1.1)."""

import random
from typing import Any

import pytest
from long_runs import SEED, how_many
from oracle import oracle
from produced_sets import HOUR_MS, NAMES, NOW_MS, draw_set

from kdump.broker.append_set import ProducedSet, RefusedError, Topic
from kdump.broker.appending import Answer, append, append_as_follower
from kdump.broker.settings import Settings
from kdump.record.layout import FORMATS

pytestmark = pytest.mark.oracle
COUNT = how_many(250, 5000)
ERRORS = {
    "CorruptRecordException": "CORRUPT_MESSAGE",
    "InvalidRecordException": "INVALID_RECORD",
    "InvalidTimestampException": "INVALID_TIMESTAMP",
    "RecordTooLargeException": "MESSAGE_TOO_LARGE",
    "RecordBatchTooLargeException": "RECORD_LIST_TOO_LARGE",
    "UnsupportedForMessageFormatException": "UNSUPPORTED_FOR_MESSAGE_FORMAT",
    "UnexpectedAppendOffsetException": "UnexpectedAppendOffsetException",
    "OffsetsOutOfOrderException": "OffsetsOutOfOrderException",
}
#: Where records of a broken stream are wrong, too, which of the two is met first is not told.
BROKEN_STREAM = ("UNKNOWN_SERVER_ERROR", "INVALID_RECORD")
OF_FOLLOWERS = (
    "UnexpectedAppendOffsetException", "OffsetsOutOfOrderException", "RECORD_LIST_TOO_LARGE",
)  # fmt: skip
Json = dict[str, Any]


def error_of(answer: Json) -> str:
    error = answer["error"]
    name = error["class"].rpartition(".")[2]
    if name == "RecordValidationException":
        cause = error["cause"]
        name = (cause["class"] if isinstance(cause, dict) else str(cause).split(":")[0]).rpartition(
            "."
        )[2]
    return ERRORS.get(name, "UNKNOWN_SERVER_ERROR")


def runs_of(batches: list[Json]) -> list[list[Any]]:
    """Join plain entries that follow one another, as `StoredRun` has them."""
    runs: list[list[Any]] = []
    for one in batches:
        stamped = one["timestampType"] == "LogAppendTime"
        run = [
            one["baseOffset"], one["lastOffset"], 1, one["magic"], NAMES.index(one["codec"]),
            stamped, one["maxTimestamp"], one["sizeInBytes"],
        ]  # fmt: skip
        last = runs[-1] if runs else None
        if last and not run[4] and last[1] + 1 == run[0] and last[3:6] == run[3:6]:
            last[1:3] = run[1], last[2] + 1
            last[6:] = max(last[6], run[6]), last[7] + run[7]
        else:
            runs.append(run)
    return runs


def differs(answer: Json, got: Answer | RefusedError, *, follower: bool) -> bool:
    if follower and not answer["ok"] and error_of(answer) not in OF_FOLLOWERS:
        return False  # wrappers are opened to say which offsets are wrong, and to list them here
    if isinstance(got, RefusedError) or not answer["ok"]:
        error = got.error if isinstance(got, RefusedError) else None
        told = None if answer["ok"] else error_of(answer)
        is_broken = isinstance(got, RefusedError) and "codec-failed" in got.reason
        return error != told and not (is_broken and told in BROKEN_STREAM)
    runs = runs_of(answer["result"]["batches"])
    found = [list(one[:8]) for one in got.stored]
    begin = 1 if follower else 0  # of a wrapper only the last offset is known unopened
    if [run[begin:7] for run in runs] != [run[begin:7] for run in found]:
        return True
    exact = not got.rewritten
    return any(
        run[7] != mine[7] and (exact or abs(run[7] - mine[7]) > 8 + run[7] // 8)
        for run, mine in zip(runs, found, strict=True)
    )


def test_random_sets_are_stored_as_by_the_broker() -> None:
    classes = oracle()
    different, stored = [], 0
    for number in range(COUNT):
        rng = random.Random(SEED * 1_000_003 + number)
        data, config = draw_set(rng)
        config["message.timestamp.after.max.ms"] = str(HOUR_MS)
        if rng.random() < 0.3:
            config["message.timestamp.before.max.ms"] = str(HOUR_MS)
        magic, log_end, follower = rng.choice((0, 1, 2, 2)), rng.choice((0, 5)), rng.random() < 0.2
        told = classes.answer(
            "validate", hex=data.hex(), via="follower" if follower else "leader", magic=magic,
            config=config, now=NOW_MS, offset=log_end,
        )  # fmt: skip
        topic = Topic.of((4, 1, 1), Settings().of_topic(config), NOW_MS, 1 << 26)
        topic = topic._replace(format=FORMATS[magic])
        answer: Answer | RefusedError = Answer(log_end)
        assert isinstance(answer, Answer)
        try:
            if follower:
                append_as_follower(ProducedSet(data, topic.broker), topic, answer)
            else:
                append(ProducedSet(data, topic.broker), topic, answer, is_requested=False)
            stored += answer.entries
        except RefusedError as refused:
            answer = refused
        if differs(told, answer, follower=follower):
            shown = answer.stored if isinstance(answer, Answer) else str(answer)
            different.append(
                (number, follower, shown, told.get("error") or runs_of(told["result"]["batches"]))
            )
    assert not different
    assert stored > COUNT // 4
