"""Random damage in directories of the broker's own append code: the way past it that is advised.

`find_offset` of Kafka 4.1.1 judges: from the offset advised on, every fetch lands on the batch that
holds the next record the damage left whole; just below it, no fetch does. KDUMP_FUZZ=long takes
2,000 damages; KDUMP_FUZZ_COUNT any number, KDUMP_FUZZ_SEED others.
"""

import random
import shutil
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from long_runs import LONG, SEED, how_many
from oracle import Oracle, oracle
from partitions import target_of

from kdump.engine.advice.advisor import add_advice
from kdump.engine.verify.options import VerifyOptions
from kdump.engine.verify.run import verify
from kdump.findings.finding import Finding
from kdump.replay.releases import Releases
from kdump.storage.file_records import DEFAULT_LIMIT

pytestmark = pytest.mark.oracle

_COUNT = how_many(60, 2000)
DAMAGES = 20  # of each directory
PROFILES = (
    "mixed-v0", "mixed-v1", "mixed-v2", "mixed-all", "leader-v0", "leader-v1", "leader-v2",
    "txn", "compacted", "tiny",
)  # fmt: skip
HEAD = 21  # bytes of a batch that its checksum does not cover, and the checksum
Json = dict[str, Any]


class StartFailedError(Exception):
    """The broker does not start on these files, or has not the memory that they ask for."""


class Batch(NamedTuple):
    """A batch as it was before the damage; `records` are the offsets consumers are handed."""

    segment: int
    position: int
    size: int
    base: int
    last: int
    records: list[int]


def make_directory(asked: Oracle, parent: Path, number: int) -> tuple[Path, Json]:
    rng = random.Random(f"served directory {number}")
    profile = PROFILES[number % len(PROFILES)]
    options: Json = {
        "indexIntervalBytes": str(rng.choice((200, 4096, 4096, 30_000))),
        "segmentBytes": str(rng.choice((32 << 10, 200 << 10, 1 << 20))),
        "batches": str(rng.choice((60, 150, 300))),
    }
    directory = parent / f"{profile}-0"
    asked.ask("make", profile=profile, seed=number, dir=directory, options=options, close="clean")
    if rng.random() < 0.2:  # an index that tells nothing, as one of a broker with no room had
        rng.choice(sorted(directory.glob("*.index"))).write_bytes(b"")
    return directory, options


def batches_of(asked: Oracle, directory: Path) -> list[Batch]:
    found = []
    for log in sorted(directory.glob("*.log")):
        records = asked.ask("records", file=log, maxHex=0)["records"]
        offsets: dict[int, list[int]] = {}
        for record in records:
            offsets.setdefault(record["position"], []).append(record["offset"])
        for batch in asked.ask("batches", file=log)["batches"]:
            handed = [] if batch["isControl"] else offsets.get(batch["position"], [])
            found.append(
                Batch(
                    int(log.stem),
                    batch["position"],
                    batch["sizeInBytes"],
                    batch["baseOffset"],
                    batch["lastOffset"],
                    handed,
                )
            )
    return found


def damage(rng: random.Random, log: Path, known: list[Batch]) -> tuple[int, int]:
    """Overwrite some bytes of a log; where a batch's head is touched, its checksum is too."""
    data = bytearray(log.read_bytes())
    length = min(int(2 ** rng.uniform(0, 16)), len(data))
    start = rng.randrange(len(data) - length + 1)
    end = start + length
    for batch in known:
        inside = batch.segment == int(log.stem) and batch.position < end
        if inside and end < batch.position + HEAD:
            end = min(batch.position + HEAD, len(data))
    old = bytes(data[start:end])
    kind = rng.choice(("noise", "noise", "zeros", "ones", "flip", "header"))
    if kind == "noise":
        data[start:end] = rng.randbytes(end - start)
    elif kind in ("zeros", "ones"):
        data[start:end] = (b"\0" if kind == "zeros" else b"\xff") * (end - start)
    elif kind == "flip":
        data[start:end] = bytes(byte ^ 1 << rng.randrange(8) for byte in old)
    else:  # a header of elsewhere in the log, and noise
        data[start:end] = rng.randbytes(end - start)
        head = min(20, end - start)
        other = rng.choice(known).position
        data[start : start + head] = data[other : other + head].ljust(head, b"\0")
    log.write_bytes(data)
    return start, end


def findings_of(directory: Path) -> list[Finding]:
    items = verify([str(directory)], VerifyOptions())
    return [item for item in items if isinstance(item, Finding)]


def starts_whole(told: Finding, whole: list[Batch], log: bytes) -> bool:
    """Whether what follows is a batch: an inner message that lies there plain is sound, too."""
    assert told.position is not None
    end = told.position + (told.size_bytes or 0)
    return end >= len(log) or any(
        (batch.segment, batch.position) == (told.segment, end) for batch in whole
    )


def find_landing(asked: Oracle, directory: Path, offset: int, how: Json) -> tuple[int, int] | None:
    """Say where the broker lands; None where it fails or has nothing."""
    answer = asked.ask("find_offset", dir=directory, offset=offset, maxSize=1, **how)
    side = answer["segments" if how.get("unified") is False else "unified"]
    if how.get("unified") is not False and "logEndOffset" not in side:
        raise StartFailedError  # a start reads damage where it needs the state of producers
    if "OutOfMemoryError" in str(side.get("error")):
        raise StartFailedError  # noise inside a wrapper is a size; with more memory it reads on
    fetch = side.get("fetch")
    if "error" in side or fetch is None or not fetch["size"] or not fetch.get("firstBatch"):
        return None
    return fetch["segment"], fetch["position"]


def offsets_from(rng: random.Random, whole: list[Batch], first: int) -> Iterator[int]:
    """Draw offsets at, in and around batches; near the first all that there are, in a long run."""
    near = [batch for batch in whole if batch.last >= first]
    if LONG:
        yield from range(first, first + 40)
    for batch in near[:12]:
        yield from {batch.base, batch.last, (batch.base + batch.last) // 2}
    for batch in rng.sample(near, min(len(near), 12)):
        yield from {batch.base, batch.last}


def check_finding(
    asked: Oracle, rng: random.Random, directory: Path, whole: list[Batch], told: Finding, how: Json
) -> list[str]:
    """Hold one finding against the broker."""
    wrong: list[str] = []
    lasts = [batch.last for batch in whole]

    def right(offset: int) -> bool:
        batch = whole[bisect_left(lasts, offset)]
        return find_landing(asked, directory, offset, how) == (batch.segment, batch.position)

    first = told.next_offset
    assert first is not None
    behind = [at for batch in whole for at in batch.records if at >= first]
    if told.served_from is None:
        if told.skipped_by_seek != len(behind):
            wrong.append(f"{told.skipped_by_seek} skipped, not {len(behind)}")
        if any(right(batch.base) for batch in whole[-3:] if batch.base >= first):
            wrong.append("the last batches are served")
        return wrong
    between = [at for at in behind if at < told.served_from]
    if told.skipped_by_seek != len(between):
        wrong.append(f"{told.skipped_by_seek} skipped, not {len(between)}")
    wrong += [
        f"{offset} is not served"
        for offset in {told.served_from, *offsets_from(rng, whole, told.served_from)}
        if told.served_from <= offset <= lasts[-1] and not right(offset)
    ]
    if between and right(between[-1]):
        wrong.append(f"{between[-1]} is served already")
    return wrong


def differences(asked: Oracle, parent: Path, number: int) -> tuple[int, list[str]]:
    """Damage directory `number` in some ways; give how many ways past were told, and mistakes."""
    sound, options = make_directory(asked, parent, number)
    known = batches_of(asked, sound)
    rng = random.Random(f"served {number}")
    found: list[str] = []
    advice = 0
    for trial in range(DAMAGES):
        directory = parent / str(trial) / sound.name
        shutil.copytree(sound, directory)
        logs = [log for log in sorted(directory.glob("*.log")) if log.stat().st_size]
        log = rng.choice(logs)
        before = log.read_bytes()
        start, end = damage(rng, log, known)
        after = log.read_bytes()
        whole = [
            batch
            for batch in known
            if batch.segment != int(log.stem)
            or after[batch.position : batch.position + batch.size]
            == before[batch.position : batch.position + batch.size]
        ]
        findings = findings_of(directory)
        for running in (True, False):
            how: Json = {"indexIntervalBytes": options["indexIntervalBytes"]}
            if running:
                how["unified"] = False
            target = target_of(directory)
            for told in add_advice(
                target, findings, Releases((4, 1)), DEFAULT_LIMIT, running=running
            ):
                if told.served_by is None or not starts_whole(told, whole, after):
                    continue
                try:
                    wrong = check_finding(asked, rng, directory, whole, told, how)
                except StartFailedError:
                    break
                advice += 1
                found += [
                    f"directory {number} ({sound.name}, {options}) trial {trial}, {log.name} "
                    f"{start}-{end}, running {running}: {each}\n  {told}"
                    for each in wrong
                ]
        shutil.rmtree(directory.parent)
    return advice, found


@pytest.mark.parametrize("number", range(SEED, SEED + max(1, _COUNT // DAMAGES)))
def test_broker_serves_from_the_predicted_offset(tmp_path: Path, number: int) -> None:
    advice, found = differences(oracle(), tmp_path, number)
    assert found == []
    assert advice
