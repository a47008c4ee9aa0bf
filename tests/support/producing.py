"""A partition with transactions, made by hand, and what the checks of producers say of it."""

import random
import struct
from collections.abc import Collection, Iterable
from pathlib import Path

import builders

from kdump.broker.settings import Settings
from kdump.engine.checks.folding import fold
from kdump.engine.checks.framing import Framing
from kdump.engine.checks.leader_epochs import LeaderEpochs
from kdump.engine.checks.producers import Producers
from kdump.engine.checks.transactions import ControlBatches
from kdump.engine.reading.partition_scan import PartitionScan
from kdump.engine.reading.scan import scan
from kdump.findings.finding import Finding
from kdump.storage.targets import Selection, Target, resolve

TIME = 1_700_000_000_000
ABORT, COMMIT = 0, 1
NONE = -1

# producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch,
# first offset of the open transaction
Entry = tuple[int, int, int, int, int, int, int, int]


def run_checks(
    path: Path,
    *,
    left_out: Collection[int] = (),
    quick: bool = False,
    settings: Settings | None = None,
) -> list[Finding]:
    """Run the checks of framing, producers and epochs over every partition of a path.

    `left_out` are base offsets of segments that are not read.
    """
    found: list[Finding] = []
    for target in resolve([str(path)], Selection(retired=True), listed=False):
        assert isinstance(target, Target), target
        if target.log is None:
            continue
        partition = PartitionScan(
            target,
            directory=target.log_dir(),
            settings=settings or Settings(),
            quick=quick,
            leave_out=lambda base, _: () if base in left_out else None,
        )
        checks = [
            Framing(partition),
            ControlBatches(partition),
            Producers(partition),
            LeaderEpochs(partition),
        ]
        found.extend(fold(scan(partition, checks)))
        assert not partition.errors, partition.errors
    return found


def only(path: Path) -> Finding:
    """Return the one finding there is."""
    (found,) = run_checks(path)
    return found


def codes(path: Path) -> list[str]:
    """Name what the checks find."""
    return [one.code for one in run_checks(path)]


def data(
    base: int,
    producer: int = NONE,
    sequence: int = NONE,
    *,
    count: int = 1,
    epoch: int = 0,
    transactional: bool = False,
    leader_epoch: int = 0,
    timestamp: int | None = None,
    extra: int = 0,
) -> bytes:
    """Write a data batch; its timestamp is its offset in seconds behind TIME."""
    return builders.batch(
        [builders.record(number) for number in range(count)],
        base_offset=base,
        producer_id=producer,
        producer_epoch=epoch if producer >= 0 else NONE,
        base_sequence=sequence,
        attributes=(builders.TRANSACTIONAL if transactional else 0) | extra,
        leader_epoch=leader_epoch,
        base_timestamp=TIME + 1000 * base if timestamp is None else timestamp,
    )


def marker(
    base: int, producer: int, kind: int, *, epoch: int = 0, timestamp: int | None = None
) -> bytes:
    """Write a transaction marker of leader epoch 0."""
    return builders.marker(
        kind,
        base_offset=base,
        producer_id=producer,
        producer_epoch=epoch,
        timestamp=TIME + 1000 * base if timestamp is None else timestamp,
    )


def aborted_index(*entries: tuple[int, int, int, int]) -> bytes:
    """Write a transaction index: producer id, first offset, last offset, last stable offset."""
    return b"".join(struct.pack(">hqqqq", 0, *entry) for entry in entries)


def snapshot(*entries: Entry) -> bytes:
    """Write a producer snapshot."""
    covered = struct.pack(">i", len(entries))
    covered += b"".join(struct.pack(">qhiqiqiq", *entry) for entry in entries)
    return struct.pack(">hI", 1, builders.crc32c(covered)) + covered


def epochs(*entries: tuple[int, int]) -> str:
    """Write a leader-epoch-checkpoint."""
    lines = [f"{epoch} {start}" for epoch, start in entries]
    return "\n".join(["0", str(len(lines)), *lines, ""])


# Producer 7 aborts while 8's transaction is open, which ends in the second segment.
FIRST = [
    data(0, 7, 0, count=2, transactional=True),
    data(2, 8, 0, transactional=True),
    marker(3, 7, ABORT),
    data(4, 8, 1, transactional=True),
    data(5, 9, 0),
]
SECOND = [
    marker(6, 8, ABORT),
    data(7, 7, 2, transactional=True),
    marker(8, 7, COMMIT),
    data(9, 9, 1),
]
FIRST_INDEX = ((7, 0, 3, 2),)
SECOND_INDEX = ((8, 2, 6, 7),)
AT_SIX: tuple[Entry, ...] = (
    (7, 0, 1, 1, 1, TIME + 3000, 0, NONE),
    (8, 0, 1, 4, 0, TIME + 4000, NONE, 2),
    (9, 0, 0, 5, 0, TIME + 5000, NONE, NONE),
)
AT_TEN: tuple[Entry, ...] = (
    (7, 0, 2, 7, 0, TIME + 8000, 0, NONE),
    (8, 0, 1, 4, 0, TIME + 6000, 0, NONE),
    (9, 0, 1, 9, 0, TIME + 9000, NONE, NONE),
)


def write_log(
    parent: Path, segments: dict[int, Iterable[bytes]], *, log_start: int | None = None
) -> Path:
    """Write a partition of these segments, with epoch 0 from its first offset on."""
    path = parent / "orders-7"
    path.mkdir(exist_ok=True)
    for base, batches in segments.items():
        (path / f"{base:020}.log").write_bytes(b"".join(batches))
    (path / "leader-epoch-checkpoint").write_text(epochs((0, min(segments))))
    lines = [] if log_start is None else [f"orders 7 {log_start}"]
    text = "\n".join(["0", str(len(lines)), *lines, ""])
    (parent / "log-start-offset-checkpoint").write_text(text)
    return path


def check_batches(parent: Path, batches: Iterable[bytes]) -> list[Finding]:
    """Write a log of one segment, and return what the checks find."""
    return run_checks(write_log(parent, {0: batches}))


def write_sound(parent: Path) -> Path:
    """Write the two segments above, with all that belongs to them."""
    path = write_log(parent, {0: FIRST, 6: SECOND})
    index_of(path, 0).write_bytes(aborted_index(*FIRST_INDEX))
    index_of(path, 6).write_bytes(aborted_index(*SECOND_INDEX))
    snapshot_of(path, 6).write_bytes(snapshot(*AT_SIX))
    snapshot_of(path, 10).write_bytes(snapshot(*AT_TEN))
    return path


def index_of(path: Path, base: int) -> Path:
    """Name a segment's transaction index."""
    return path / f"{base:020}.txnindex"


def snapshot_of(path: Path, offset: int) -> Path:
    """Name a producer snapshot."""
    return path / f"{offset:020}.snapshot"


def log_of(path: Path, base: int) -> Path:
    """Name a segment's log."""
    return path / f"{base:020}.log"


def random_log(draw: random.Random) -> bytes:
    """Batches of a few producers, most of which go on as they should."""
    sequences: dict[int, int] = {}
    parts, offset = [], draw.choice([0, 7])
    for _ in range(draw.randrange(1, 30)):
        producer = draw.choice([-1, 1, 1, 2, 3])
        count = draw.randrange(1, 4)
        sequence = sequences.get(producer, draw.choice([0, 1, 5, 6, 7, 0x7FFFFFFD]))
        if draw.random() < 0.03:
            sequence += 1
        parts.append(
            builders.batch(
                [builders.record(delta) for delta in range(count)],
                base_offset=offset,
                producer_id=producer,
                producer_epoch=0 if draw.random() < 0.97 else 1,
                base_sequence=-1 if producer < 0 else sequence & 0x7FFFFFFF,
                attributes=draw.choice([0] * 40 + [0x10, 0x20]),
                max_timestamp=draw.randrange(100),
            )
        )
        sequences[producer] = (sequence + count) & 0x7FFFFFFF
        offset += count + (draw.random() < 0.03)
    return b"".join(parts)
