"""No count and no advice is absurd: random damage on logs of every format, and all that is said.

What a log held is known from before the damage, and bounds every number that verify states of it;
where an offset changed to one that its neighbours allow, the bytes that may hold records do:
in findings, in the forecast, in the table, for Nagios, Prometheus and by topic. KDUMP_FUZZ=long
takes 1,500 directories; KDUMP_FUZZ_COUNT any number, KDUMP_FUZZ_SEED others.
"""

import json
import random
import re
import struct
from pathlib import Path

import pytest
import recoveries
from commands import run
from long_runs import SEED, how_many
from oracle import Oracle, oracle
from recoveries import Damage, batches

from kdump.engine.reading.damage import RECORDS_A_BYTE
from kdump.storage.offsets import MESSAGES_A_BYTE

pytestmark = pytest.mark.oracle

_COUNT = how_many(40, 1500)
_PROFILES = ("tiny", "leader-v0", "leader-v1", "leader-v2", "mixed-all", "txn", "compacted")
_PROFILES += ("restarts", "huge-offsets", "logappend")
_ABSURD = 10**13  # beyond any offset of these logs, and above their times in ms
_EVIDENCE = ("log-end-astray:", "offset-past-", "offset-not-rising:", "offset-below-base:")


def put_base_offset(directory: Path, rng: random.Random) -> None:
    path, data, found = recoveries._log(directory, rng)
    position, _ = found[-1] if rng.random() < 0.3 else rng.choice(found)
    (base,) = struct.unpack_from(">q", data, position)
    wild = rng.choice((rng.getrandbits(64) - (1 << 63), base ^ 1 << rng.randrange(63)))
    struct.pack_into(">q", data, position, wild)
    path.write_bytes(data)


def end_inside_a_base_offset(directory: Path, rng: random.Random) -> None:
    path, data, found = recoveries._log(directory, rng)
    position, _ = found[-1] if rng.random() < 0.3 else rng.choice(found)
    end = position + rng.randrange(1, 9)
    start = max(0, end - rng.choice((1, 8, 100, 1000, 4096)))
    data[start:end] = rng.randbytes(end - start)
    path.write_bytes(data)


def overwrite(directory: Path, rng: random.Random) -> None:
    path, data, _ = recoveries._log(directory, rng)
    start = rng.randrange(len(data))
    end = min(start + rng.choice((1, 8, 100, 1000, 4096, 65536)), len(data))
    data[start:end] = rng.randbytes(end - start)
    path.write_bytes(data)


DAMAGES: tuple[Damage, ...] = (
    put_base_offset,
    end_inside_a_base_offset,
    overwrite,
    recoveries.flip_header,
    recoveries.change_size,
    recoveries.cut,
    recoveries.garbage_tail,
    recoveries.zero_tail,
)


def make_damaged(judge: Oracle, seed: int, root: Path) -> tuple[Path, str, int]:
    """Write a partition in a data directory, damaged; return it, what was done, and its log end."""
    rng = random.Random(f"counts {seed}")
    profile = rng.choice(_PROFILES)
    directory = root / "data" / "t-0"
    directory.parent.mkdir(parents=True)
    sizes = {"segmentBytes": rng.choice((60_000, 1_000_000)), "batches": rng.choice((10, 40))}
    judge.make(profile, seed % 60, directory, indexIntervalBytes=256, **sizes)
    end = 0
    for path in sorted(directory.glob("*.log")):
        data = path.read_bytes()
        for position, _ in batches(data):
            (base,) = struct.unpack_from(">q", data, position)
            delta = (
                struct.unpack_from(">i", data, position + 23)[0] if data[position + 16] == 2 else 0
            )
            end = max(end, base + delta + 1)
    done = [profile]
    for _ in range(rng.choice((1, 1, 2, 3))):
        damage = rng.choice(DAMAGES)
        done.append(damage.__name__)
        try:
            damage(directory, rng)
        except (IndexError, ValueError):
            done[-1] += " (nothing there)"
    known = f"version: 0\ntopic_id: {recoveries.TOPIC_ID}\n"
    (directory / "partition.metadata").write_text(known)
    if rng.random() < 0.5:
        (directory.parent / ".kafka_cleanshutdown").write_bytes(b"")
        done.append("clean")
    return directory, f"seed {seed}: {', '.join(done)}", end


def run_command(*arguments: str, command: str = "verify") -> str:
    result = run(command, *arguments)
    return result.stdout


def numbers(text: str) -> list[int]:
    return [int(found.replace(",", "")) for found in re.findall(r"-?\d[\d,]*", text)]


def wrong(directory: Path, end: int, textfile: Path) -> list[str]:
    """Give what is said that cannot be."""
    found = []
    start = min(int(path.stem) for path in directory.glob("*.log"))
    where = str(directory)
    held = sum(path.stat().st_size for path in directory.glob("*.log"))
    lines = run_command("--summary-by", "topic", "--format", "jsonl", where).splitlines()
    for line in lines + run_command("--format", "jsonl", where, command="predict").splitlines():
        row = json.loads(line)
        if row["row"] == "finding":
            counts = [row["lost_at_least"], row["lost_at_most"]]
            offsets = [row["next_offset"], row["offset"]]
            most = max(end - start, (row["size_bytes"] or 0) * RECORDS_A_BYTE)
            if row["code"] == "start-loses-records":  # as its recovery row says
                most = max(most, held * MESSAGES_A_BYTE)
            if any(count is not None and not 0 <= count <= most for count in counts):
                found.append(line)
            if any(offset is not None and abs(offset) > end + (1 << 31) for offset in offsets):
                found.append(line)
        elif row["row"] == "recovery":
            if not 0 <= (row["records_lost"] or 0) <= max(end - start, held * MESSAGES_A_BYTE):
                found.append(line)
            # A last batch that only leaves a gap, as compaction does, is given no lie.
            most = max(int(path.stem) for path in directory.glob("*.log")) + (1 << 31)
            if max(row["log_end_before"] or 0, row["first_lost_offset"] or 0) > most:
                found.append(line)
        elif any(abs(number) > _ABSURD for number in numbers(line)):
            found.append(line)
    nagios = run_command("--nagios", "--textfile", str(textfile), where)
    found += [nagios] if any(abs(number) > _ABSURD for number in numbers(nagios)) else []
    text = textfile.read_text()
    found += [text] if any(abs(number) > _ABSURD for number in numbers(text)) else []
    for paragraph in run_command("--format", "table", where).split("DAMAGE")[1:]:
        words = " ".join(paragraph.split())
        if not any(each in words for each in _EVIDENCE):  # which names what it found
            found += [words] if any(abs(each) > _ABSURD for each in numbers(words)) else []
    return found


@pytest.mark.parametrize("first", range(SEED, SEED + _COUNT, 20))
def test_counts_and_advice_match_the_broker(first: int, tmp_path: Path) -> None:
    judge = oracle()
    failures = []
    for seed in range(first, min(first + 20, SEED + _COUNT)):
        root = tmp_path / str(seed)
        directory, done, end = make_damaged(judge, seed, root)
        failures += [
            f"{done} (log end {end}): {each}" for each in wrong(directory, end, root / "m")
        ]
    assert not failures, "\n".join(failures)
