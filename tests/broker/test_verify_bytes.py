"""One byte of a real log changed: what a checksum covers is found where it is, and only that.

What no checksum covers (base offset, length, leader epoch, magic) is found by what it contradicts,
or belongs to a table of changes that cannot be known from logs and indexes. 500 changes on every
run; KDUMP_FUZZ=long takes 20,000, KDUMP_FUZZ_COUNT any number, from KDUMP_FUZZ_SEED on.
"""

import os
import random
import shutil
from collections import Counter
from pathlib import Path

import corpus
from long_runs import SEED, how_many
from segments import check_logs, without_notes

from kdump import kernels
from kdump.kernels.columns import RecordBatches

COUNT = how_many(500, 20_000)
A_PARTITION = 25  # changes to one copy

SETS = (
    "modern/data/clean",
    "modern/data/killed",
    "old/mixed-282.clean",
    "old/v0-0822.clean",
    "old/v1-01022.clean",
)
COVERED, OFFSET, SIZE, EPOCH, MAGIC = "covered", "offset", "size", "epoch", "magic"

# What may go unseen, and why. A leader epoch contradicts nothing that logs and indexes hold.
UNSEEN = {
    EPOCH: "no checksum covers it, and only the epoch checkpoint knows better",
    OFFSET: "still rises: it moved into a gap of a compacted log, or the last batch moved up",
}


def sources() -> list[Path]:
    found = []
    for name in SETS:
        for log in sorted(corpus.corpus(name).rglob("*.log")):
            directory = log.parent
            if directory.name.startswith("bad") or directory.name.endswith(("-delete", "-stray")):
                continue
            size = sum(path.stat().st_size for path in directory.glob("*.log"))
            if 200 < size < 200_000 and directory not in found:
                found.append(directory)
    return found


def area_of(batches: RecordBatches, row: int, position: int) -> str:
    """Say what field of its batch a byte belongs to."""
    at = position - batches.position(row)
    if at < 8:
        return OFFSET
    if at < 12:
        return SIZE
    if batches.layout(row) == 2:
        return EPOCH if at < 16 else MAGIC if at == 16 else COVERED
    return COVERED


def place(batches: RecordBatches, row: int) -> tuple[int, int]:
    return batches.position(row), batches.size_bytes(row)


def check_each_change(directory: Path, draw: random.Random, seen: Counter[tuple[str, str]]) -> None:
    """Change one byte, look, and put it back."""
    logs = [log for log in sorted(directory.glob("*.log")) if log.stat().st_size]
    log = draw.choices(logs, [path.stat().st_size for path in logs])[0]
    status = log.stat()
    whole = log.read_bytes()
    batches = kernels.walk(whole, 0, len(whole), 0, -1, True, 1 << 20)[0]
    row = draw.randrange(batches.count)
    start, size = place(batches, row)
    position = start + draw.randrange(21 if draw.random() < 0.5 else size)
    if position >= start + size:
        return
    byte = whole[position] ^ draw.choice([1 << draw.randrange(8), draw.randrange(1, 256)])
    log.write_bytes(whole[:position] + bytes([byte]) + whole[position + 1 :])
    os.utime(log, ns=(status.st_atime_ns, status.st_mtime_ns))
    found = without_notes(check_logs(directory))
    log.write_bytes(whole)
    os.utime(log, ns=(status.st_atime_ns, status.st_mtime_ns))

    area = area_of(batches, row, position)
    said = f"{log} byte {position} {whole[position]:02x} -> {byte:02x}: {found}"
    there = [one for one in found if one.path == str(log) and one.position == start]
    if area in (COVERED, SIZE, MAGIC):
        assert len(found) == 1, said
        assert len(there) == 1, said
        seen[area, "found"] += 1
    elif there:
        assert len(found) == 1, said
        seen[area, "found"] += 1
    elif found:
        # By an index entry, or at a neighbour: of two that contradict each other it is unknown
        # which is wrong, where neither joins on to what is around.
        assert area == OFFSET, said
        seen[area, "found elsewhere"] += 1
    else:
        assert area in UNSEEN, said
        seen[area, "unseen"] += 1


def test_changed_byte_is_found(tmp_path: Path) -> None:
    every = sources()
    draw = random.Random(SEED)
    seen: Counter[tuple[str, str]] = Counter()
    for _ in range(-(-COUNT // A_PARTITION)):
        directory = draw.choice(every)
        copy = tmp_path / directory.name
        shutil.copytree(directory, copy)
        assert not without_notes(check_logs(copy))
        for _ in range(A_PARTITION):
            check_each_change(copy, draw, seen)
        shutil.rmtree(copy)
    print(dict(sorted(seen.items())))
    assert {area for area, _ in seen} == {COVERED, OFFSET, SIZE, EPOCH, MAGIC}
    assert not seen[EPOCH, "found"]
    if COUNT >= 500:
        offsets = sum(count for (area, _), count in seen.items() if area == OFFSET)
        assert seen[OFFSET, "found"] > 0.9 * offsets
        assert seen[OFFSET, "unseen"] < 0.05 * offsets
