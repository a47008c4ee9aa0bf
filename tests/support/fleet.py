"""Ten brokers of one cluster, each with a data directory, of which three are damaged."""

import struct
from pathlib import Path

import damage
from directories import DataDirectory, write_segment
from offsets_log import START_MS, Log, commit

BROKERS = 10
#: Each partition of `orders` has this log end, on three brokers from the one of its number on.
LOG_END, PARTITIONS, REPLICAS = 20, 5, 3
OFFSETS = "__consumer_offsets-0"
COMMITTED = {"orders-0": 7, "orders-1": 20, "orders-2": 12}


def replicas_of(partition: int) -> list[int]:
    """Name the brokers that have a partition."""
    return [(partition + step) % BROKERS for step in range(REPLICAS)]


def make_fleet(root: Path, *, damaged: bool = True) -> list[Path]:
    """Make the directories; broker 1 lost a bit, 3 a segment, and 6 a line of a checkpoint."""
    made = [
        DataDirectory(root / f"b{node}" / "data", node=node, number=node) for node in range(BROKERS)
    ]
    for partition in range(PARTITIONS):
        for node in replicas_of(partition):
            made[node].partition("orders", partition)
    for node in range(5, BROKERS):
        made[node].partition("payments", node - 5, topic_id=8)
    log = Log()
    for place, offset in COMMITTED.items():
        log.add(commit("billing", place, offset))
    for node in replicas_of(4):
        at = made[node].partition("__consumer_offsets", 0, (0,), topic_id=9)
        write_segment(at, 0, b"".join(log.batches), next_offset=len(COMMITTED))
        entry = struct.pack(">qi", START_MS + 1000 * len(COMMITTED), len(COMMITTED) - 1)
        (at / f"{0:020}.timeindex").write_bytes(entry)
        made[node].offsets["__consumer_offsets", 0] = len(COMMITTED)
    for one in made:
        one.stop()
    if damaged:
        bit = made[1].path / "orders-1" / f"{0:020}.log"
        bit.write_bytes(damage.flip(bit.read_bytes(), 200))
        for file in (made[3].path / "orders-2").glob(f"{10:020}.*"):
            file.unlink()
        with (made[6].path / "recovery-point-offset-checkpoint").open("a") as file:
            file.write("no line\n")
    return [one.path for one in made]
