"""Directories broken at random, started by the broker's own classes and predicted by ours."""

import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from oracle import Oracle
from partitions import target_of

from kdump.broker.settings import Settings
from kdump.broker.shutdown_state import Stop
from kdump.engine.predict.recovery import load, predict_partition

INTERVAL = 256  # small, so that index entries are made that may fall
NOW = 1_700_000_000_000
BROKER = (4, 1)
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
PROFILES = (
    ("tiny", 30000),
    ("mixed-v0", 30000),
    ("mixed-v1", 30000),
    ("mixed-v2", 30000),
    ("mixed-all", 30000),
    ("leader-v2", 30000),
    ("logappend", 30000),
    ("txn", 30000),
    ("txn", 30000),
    ("compacted", 30000),
    ("outoforder-time", 30000),
    ("restarts", 30000),
    ("huge-offsets", 30000),
    ("group-offsets", 30000),
    ("txn-state", 30000),
)
Damage = Callable[[Path, random.Random], None]


def batches(data: bytes) -> list[tuple[int, int]]:
    """(position, size) of each entry, as their own sizes say."""
    found = []
    position = 0
    while position + 12 <= len(data):
        size = 12 + int.from_bytes(data[position + 8 : position + 12], "big", signed=True)
        if size < 26 or position + size > len(data):
            break
        found.append((position, size))
        position += size
    return found


def _log(directory: Path, rng: random.Random) -> tuple[Path, bytearray, list[tuple[int, int]]]:
    logs = [path for path in sorted(directory.glob("*.log")) if path.stat().st_size]
    path = logs[-1] if rng.random() < 0.4 else rng.choice(logs)
    data = bytearray(path.read_bytes())
    return path, data, batches(data)


def flip(directory: Path, rng: random.Random) -> None:
    path, data, _ = _log(directory, rng)
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def flip_header(directory: Path, rng: random.Random) -> None:
    path, data, found = _log(directory, rng)
    position, _ = rng.choice(found)
    data[position + rng.randrange(23)] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def shift_base_offset(directory: Path, rng: random.Random) -> None:
    path, data, found = _log(directory, rng)
    for position, _ in rng.sample(found, min(len(found), rng.choice((1, 1, 1, 3)))):
        (base,) = struct.unpack_from(">q", data, position)
        by = rng.choice((-100, -1, 1, 2, 100, 1 << 31, 1 << 33, -(1 << 31), -base))
        struct.pack_into(">q", data, position, max(-(1 << 63), min(base + by, (1 << 63) - 1)))
    path.write_bytes(data)


def raise_last_base_offsets(directory: Path, rng: random.Random) -> None:
    """From some batch on all offsets are too far up for the segment: it has to be split."""
    path, data, found = _log(directory, rng)
    start = rng.randrange(len(found))
    by = rng.choice((1 << 31, 1 << 32, (1 << 31) - 50))
    for position, _ in found[start:]:
        (base,) = struct.unpack_from(">q", data, position)
        struct.pack_into(">q", data, position, base + by)
    path.write_bytes(data)


def change_size(directory: Path, rng: random.Random) -> None:
    path, data, found = _log(directory, rng)
    position, size = rng.choice(found)
    sizes = (-5, 0, 10, 13, 14, 20, 48, 49, size - 13, size, size + 100, 1 << 20, (1 << 31) - 1)
    struct.pack_into(">i", data, position + 8, rng.choice(sizes))
    path.write_bytes(data)


def cut(directory: Path, rng: random.Random) -> None:
    path, data, found = _log(directory, rng)
    at = rng.randrange(len(data))
    if rng.random() < 0.4:
        position, size = rng.choice(found)
        at = min(position + rng.choice((0, 7, 12, 17, 18, 40, 61, size - 1)), len(data))
    path.write_bytes(data[:at])


def zero_tail(directory: Path, rng: random.Random) -> None:
    path, data, _ = _log(directory, rng)
    path.write_bytes(data + bytes(rng.choice((5, 17, 18, 100, 4096))))


def garbage_tail(directory: Path, rng: random.Random) -> None:
    path, data, _ = _log(directory, rng)
    path.write_bytes(data + rng.randbytes(rng.choice((5, 17, 18, 30, 200))))


def repeat_batches(directory: Path, rng: random.Random) -> None:
    path, data, found = _log(directory, rng)
    first = rng.randrange(len(found))
    last = min(len(found) - 1, first + rng.choice((0, 0, 1, 5)))
    end = found[last][0] + found[last][1]
    piece = data[found[first][0] : end]
    at = rng.choice((end, len(data), rng.choice(found)[0]))
    data[at:at] = piece
    path.write_bytes(data)


def append_to_itself(directory: Path, rng: random.Random) -> None:
    path, data, _ = _log(directory, rng)
    path.write_bytes(data + data)


def remove_batch(directory: Path, rng: random.Random) -> None:
    path, data, found = _log(directory, rng)
    position, size = rng.choice(found)
    del data[position : position + size]
    path.write_bytes(data)


def swap_batches(directory: Path, rng: random.Random) -> None:
    path, data, found = _log(directory, rng)
    parts = [bytes(data[position : position + size]) for position, size in found]
    one, other = rng.randrange(len(parts)), rng.randrange(len(parts))
    parts[one], parts[other] = parts[other], parts[one]
    path.write_bytes(b"".join(parts))


def move_batch_between_segments(directory: Path, rng: random.Random) -> None:
    _, data, found = _log(directory, rng)
    position, size = rng.choice(found)
    path, other, places = _log(directory, rng)
    at = rng.choice((len(other), rng.choice(places)[0]))
    other[at:at] = data[position : position + size]
    path.write_bytes(other)


def delete_files(directory: Path, rng: random.Random) -> None:
    kinds = rng.choice((("index",), ("timeindex",), ("txnindex",), ("snapshot",), ("log",)))
    files = [path for kind in kinds for path in sorted(directory.glob(f"*.{kind}"))]
    if kinds == ("log",):
        files = files[1:]
    for path in rng.sample(files, min(len(files), rng.choice((1, 1, len(files))))):
        path.unlink()


def exchange_names(directory: Path, rng: random.Random) -> None:
    kind = rng.choice(("log", "index", "timeindex", "snapshot"))
    files = sorted(directory.glob(f"*.{kind}"))
    if len(files) > 1:
        one, other = rng.sample(files, 2)
        kept = one.read_bytes()
        one.write_bytes(other.read_bytes())
        other.write_bytes(kept)


def leave_suffix(directory: Path, rng: random.Random) -> None:
    """As after a crash in a cleaner's swap: files of a segment renamed, or copies left."""
    base = rng.choice(sorted(directory.glob("*.log"))).stem
    suffix = rng.choice((".swap", ".swap", ".cleaned", ".deleted"))
    copied = rng.random() < 0.5
    for path in sorted(directory.glob(f"{base}.*")):
        if path.suffix == ".snapshot" or rng.random() < 0.1:
            continue
        if copied:
            shutil.copy(path, f"{path}{suffix}")
        else:
            path.rename(f"{path}{suffix}")


def break_index(directory: Path, rng: random.Random) -> None:
    files = [
        path
        for kind in ("index", "timeindex", "txnindex", "snapshot")
        for path in sorted(directory.glob(f"*.{kind}"))
        if path.stat().st_size
    ]
    if not files:
        return
    path = rng.choice(files)
    data = bytearray(path.read_bytes())
    how = rng.randrange(5)
    if how == 0:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif how == 1:
        del data[rng.randrange(len(data)) :]
    elif how == 2:
        data[:] = bytes(len(data))
    elif how == 3:
        data += bytes(rng.choice((3, 8, 24, 4096)))
    else:
        data[:] = rng.randbytes(len(data))
    path.write_bytes(data)


DAMAGES: tuple[Damage, ...] = (
    flip,
    flip_header,
    shift_base_offset,
    raise_last_base_offsets,
    change_size,
    cut,
    zero_tail,
    garbage_tail,
    repeat_batches,
    append_to_itself,
    remove_batch,
    swap_batches,
    move_batch_between_segments,
    delete_files,
    exchange_names,
    leave_suffix,
    break_index,
)


class Case:
    """One directory, what was done to it, and how it is started."""

    def __init__(self, judge: Oracle, seed: int, root: Path) -> None:
        rng = random.Random(f"recovery {seed}")
        self.seed = seed
        self.judge = judge
        self.root = root
        root.mkdir(exist_ok=True)
        self.directory = root / "t-0"
        profile, segment_bytes = rng.choice(PROFILES)
        options: dict[str, Any] = {
            "segmentBytes": segment_bytes,
            "batches": rng.choice((4, 20, 60)),
            "indexIntervalBytes": INTERVAL,
        }
        if rng.random() < 0.3:
            options["crash"] = True
        judge.make(profile, seed % 40, self.directory, **options)
        self.done = [profile]
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            if not any(path.stat().st_size for path in self.directory.glob("*.log")):
                break
            damage = rng.choice(DAMAGES)
            self.done.append(damage.__name__)
            try:
                damage(self.directory, rng)
            except (IndexError, ValueError):
                self.done[-1] += " (nothing there)"
        self.start: dict[str, Any] = {"clean": rng.random() < 0.3}
        bases = sorted(int(path.stem) for path in self.directory.glob("*.log"))
        if bases and rng.random() < 0.4:
            self.start["recoveryPoint"] = rng.choice(bases) + rng.choice((0, 1))
        if bases and rng.random() < 0.15:
            self.start["logStartOffset"] = rng.choice((bases[-1] + 5, bases[-1] + 10**6, 3))
        self._finish()

    @classmethod
    def of(cls, judge: Oracle, root: Path, logs: dict[int, bytes], **start: Any) -> "Case":
        """A directory of these logs by base offset, and no other file."""
        case = cls.__new__(cls)
        case.seed, case.judge, case.root, case.directory = -1, judge, root, root / "t-0"
        case.done, case.start = ["by hand"], {"clean": False, **start}
        case.directory.mkdir()
        for base, data in logs.items():
            (case.directory / f"{base:020}.log").write_bytes(data)
        case._finish()
        return case

    def _finish(self) -> None:
        (self.directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}\n")
        self._checkpoints()

    def _checkpoints(self) -> None:
        if self.start["clean"]:
            (self.root / ".kafka_cleanshutdown").write_bytes(b"")
        for name, key in (
            ("recovery-point-offset-checkpoint", "recoveryPoint"),
            ("log-start-offset-checkpoint", "logStartOffset"),
        ):
            if key in self.start:
                (self.root / name).write_text(f"0\n1\nt 0 {self.start[key]}\n")

    def __str__(self) -> str:
        return f"seed {self.seed}: {', '.join(self.done)}; {self.start}"

    def broker(self) -> dict[str, Any]:
        """What the broker's classes do: `refused`, or the log end and the logs afterwards."""
        answer = self.judge.answer(
            "recover",
            dir=self.directory,
            delete=[],
            indexIntervalBytes=INTERVAL,
            now=NOW,
            **self.start,
        )
        if not answer["ok"]:
            return {"refused": f"{answer['error']['class']}: {answer['error']['message']}"}
        result = answer["result"]
        return {
            "log_end": result["logEndOffset"],
            "logs": {
                int(name[:-4]): entry["size"]
                for name, entry in result["files"].items()
                if name.endswith(".log")
            },
            "log": answer.get("broker_log"),
        }

    def ours(self) -> dict[str, Any]:
        """The same from our prediction."""
        target = target_of(self.directory, listed=False)
        settings = Settings(index_interval_bytes=INTERVAL)
        fields = predict_partition(target, BROKER, settings).fields
        if fields["outcome"] in ("refuses-to-start", "out-of-memory"):
            return {"refused": fields["reason"], "fields": fields}
        assert target.log is not None
        stop = Stop(
            self.start["clean"],
            self.start.get("recoveryPoint", 0),
            self.start.get("logStartOffset", 0),
        )
        loading = load(target.log, BROKER, settings, stop)
        after = loading.segments
        return {
            "split": loading.split,
            "log_end": fields["log_end_after"],
            "logs": {
                base: segment.size_bytes for base, segment in (after | loading.hidden).items()
            },
            "fields": fields,
        }
