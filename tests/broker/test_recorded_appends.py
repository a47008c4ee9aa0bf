"""What leaders and followers of 14 releases make of random sets is what was recorded.

The sets are drawn as those that brokers and their classes are asked about
(`test_append_oracle.py`, `test_append_broker.py`). `recorded_appends.txt` has of each its seed, and
what is stored or why it is refused. The seeds are those that reach what hardly another one does,
and a few more. To record anew: KDUMP_RECORD=1 pytest -n0 THIS_FILE.
"""

import gzip
import os
import random
from pathlib import Path

import builders as b
import produced_sets
import pytest
from each import most_cases
from produced_sets import HOUR_MS, NOW_MS, draw_set
from producer_codecs import xerial

from kdump.broker import versions as v
from kdump.broker.append_producers import KnownProducer, check_producers
from kdump.broker.append_set import ProducedSet, RefusedError, Topic
from kdump.broker.appending import Answer, append, append_as_follower
from kdump.broker.appending_old import append_old
from kdump.broker.settings import Settings
from kdump.broker.versions import has, text_of
from kdump.record.rewriter import TooManyBytesError

RECORDED = Path(__file__).with_name("recorded_appends.txt")
VERSIONS = (
    *((0, 7, 2), (0, 8, 0), (0, 8, 2, 2), (0, 9, 0, 1), (0, 10, 0, 1), (0, 10, 1, 1)),
    *((0, 10, 2, 2), (0, 11, 0, 3), (1, 0, 2), (1, 1, 1), (2, 0, 1), (2, 4, 1), (2, 8, 2)),
    *((3, 6, 2), (4, 1, 1), (4, 4, 0)),
)
FORMATS = ("0.9.0", "0.10.0", "0.11.0", "2.0")


def draw_pre08_set(rng: random.Random, depth: int = 0) -> bytes:
    """Draw messages of 0.7, some of them broken, and wrappers."""
    found = b""
    for _ in range(rng.choice((1, 1, 2, 4))):
        codec = rng.choice((1, 2)) if depth < 2 and rng.random() < 0.3 else 0
        pack = (bytes, gzip_stored, xerial)[codec]
        value = pack(draw_pre08_set(rng, depth + 1)) if codec else rng.randbytes(rng.randrange(60))
        magic = rng.choice((0, 1, 1, 1)) if not codec else 1
        one = bytearray(b.pre08_message(value, magic=magic, attributes=codec))
        if rng.random() < 0.15:
            one[rng.randrange(len(one))] ^= 1 << rng.randrange(8)
        found += one
    return found if rng.random() < 0.9 else found[: rng.randrange(len(found))]


def draw_producers_set(rng: random.Random) -> bytes:
    """Draw a batch of one of two producers, which may begin anywhere, in any epoch."""
    count = rng.choice((1, 2))
    control = rng.random() < 0.15
    attributes = b.TRANSACTIONAL if rng.random() < 0.4 else 0
    records = [b.record(at, key=b"k") for at in range(count)]
    if control:
        count, attributes, records = (
            1,
            b.CONTROL | b.TRANSACTIONAL,
            [b.control_record(rng.randrange(2), bytes(6))],
        )
    return b.batch(
        records,
        base_timestamp=NOW_MS,
        producer_id=rng.choice((7, 7, 7, 8)),
        producer_epoch=rng.choice((0, 0, 1, 2)),
        base_sequence=-1 if control else rng.choice((0, 0, 1, 2, 3, 2**31 - 1)),
        attributes=attributes,
    )


def break_inside(rng: random.Random, data: bytes) -> bytes:
    """Change a byte behind the header of the first entry, whose checksum is right again."""
    changed, magic = bytearray(data), data[16] if len(data) > 16 else 9
    size = int.from_bytes(data[8:12], "big") + 12
    first = 21 if magic == 2 else 16
    if magic > 2 or size > len(data) or size <= first + 2:
        return data
    changed[rng.randrange(first + 1, size)] = rng.choice((0, 1, 127, 255, rng.randrange(256)))
    crc = (b.crc32c if magic == 2 else b.crc32)(bytes(changed[first:size]))
    changed[first - 4 : first] = crc.to_bytes(4, "big")
    return bytes(changed)


def gzip_stored(data: bytes) -> bytes:
    """Write a gzip stream that all releases of zlib write alike."""
    return gzip.compress(data, 0, mtime=0)


def answers(seed: int) -> str:
    """Send two sets to a topic, one of them perhaps twice; say what came of each."""
    rng = random.Random(seed)
    version = rng.choice(VERSIONS)
    follower = has(version, v.MESSAGE_TIMESTAMPS) and rng.random() < 0.15
    data, config = draw_set(rng)
    if not has(version, v.FORMATS_FIXED) and has(version, v.MESSAGE_TIMESTAMPS):
        config["message.format.version"] = rng.choice(FORMATS)
    if rng.random() < 0.3:
        config["segment.bytes"] = "120"
    if rng.random() < 0.3:
        name = "difference" if not has(version, v.BEFORE_AND_AFTER) else "after"
        config[f"message.timestamp.{name}.max.ms"] = str(HOUR_MS)
    topic = Topic.of(
        version, Settings().of_topic(config), NOW_MS, rng.choice((1 << 26, 1 << 26, 90))
    )
    known: dict[int, KnownProducer] = {}
    end, told = 0, []
    sets = [data, rng.choice((data, draw_set(rng).data))]
    if has(version, v.PRODUCER_STATE) and rng.random() < 0.3:
        sets = [draw_producers_set(rng) for _ in range(5)]
    elif rng.random() < 0.3:
        sets = [break_inside(rng, one) for one in sets]
    if not has(version, v.COUNTED_OFFSETS):
        sets = [draw_pre08_set(rng), draw_pre08_set(rng)]
    for one in sets:
        sent, answer = ProducedSet(one, version), Answer(end)
        try:
            if follower:
                append_as_follower(sent, topic, answer)
            elif has(version, v.MESSAGE_TIMESTAMPS):
                append(sent, topic, answer)
            else:
                append_old(sent, topic, answer)
            if answer.entries and has(version, v.PRODUCER_STATE):
                check_producers(sent, answer, known, version, follower=follower)
        except RefusedError as refused:
            told.append(str(refused))
        except TooManyBytesError:
            told.append("over the limit")
        else:
            steps = " ".join(step for step, _ in answer.steps)
            shown = 7 if answer.rewritten else 9  # how well a library compresses is its own matter
            runs = [tuple(run)[:shown] for run in answer.stored]
            told.append(f"{answer.duplicate_of or ''}{runs} {steps}")
            end = answer.next_offset if answer.duplicate_of is None else end
    role = "follower" if follower else "leader"
    return f"{text_of(version)} {role}\t" + "\t".join(told)


def read_recorded() -> dict[int, str]:
    lines = RECORDED.read_text("utf-8").splitlines()
    return {int(seed): told for seed, _, told in (line.partition("\t") for line in lines)}


def test_answers_are_those_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    packers = produced_sets.PACKERS
    monkeypatch.setattr(produced_sets, "PACKERS", (packers[0], gzip_stored, *packers[2:]))
    recorded = read_recorded()
    if "KDUMP_RECORD" in os.environ:
        lines = (f"{seed}\t{answers(seed)}\n" for seed in recorded)
        RECORDED.write_text("".join(lines), "utf-8")
        pytest.skip("they are recorded")
    some = [*recorded.items()][: most_cases(Path(__file__))]
    assert {seed: answers(seed) for seed, _ in some} == dict(some)
