"""Random histories of transactional producers, for the oracle to write with the broker's code."""

import random
from typing import Any

Json = dict[str, Any]
START_MS = 1_700_000_000_000


def recipe(seed: int, directory: object, *, compacted: bool = False, crash: bool = False) -> Json:
    """Make a recipe: interleaved transactions, rolls, restarts, deleted records, compaction.

    Operations that the broker's code refuses are passed over.
    """
    rng = random.Random(seed)
    history = _History(rng)
    for _ in range(rng.choice((30, 80, 200))):
        history.step(compacted=compacted)
    return {
        "dir": str(directory),
        "seed": seed,
        "clock": START_MS,
        "engine": "follower",
        "indexIntervalBytes": 256,
        "segmentBytes": 1 << 20,
        "config": {"cleanup.policy": "compact", "delete.retention.ms": "50"} if compacted else {},
        "keepGoing": True,
        "close": "crash" if crash else "clean",
        "ops": history.ops,
    }


class _History:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.ops: list[Json] = []
        self.now = START_MS
        self.epoch = 0
        self.open: set[int] = set()
        self.producer_epochs: dict[int, int] = {}

    def step(self, *, compacted: bool) -> None:
        rng = self.rng
        self.now += rng.randrange(1, 2000)
        pick = rng.random()
        if pick < 0.55:
            self.append()
        elif pick < 0.82:
            self.marker()
        elif pick < 0.90:
            self.ops.append({"op": "roll"})
        elif pick < 0.93:
            close = rng.choice(("clean", "crash"))
            self.ops.append({"op": "clock", "ms": self.now})
            self.ops.append({"op": "reopen", "close": close, "clean": close == "clean"})
        elif pick < 0.95:
            self.epoch += rng.randrange(1, 3)
        elif pick < 0.97 and compacted:
            self.ops.append({"op": "clock", "ms": self.now})
            self.ops.append({"op": "compact"})
        elif pick < 0.98 and not compacted:
            self.ops.append({"op": "log_start", "offset": rng.randrange(60)})
        elif pick < 0.985 and not compacted:
            self.ops.append({"op": "truncate", "offset": rng.randrange(200)})
            self.epoch += 1
            self.open.clear()

    def append(self) -> None:
        rng = self.rng
        op: Json = {
            "op": "append",
            "magic": 2,
            "codec": rng.choice(("none", "lz4")),
            "count": rng.randrange(1, 6),
            "keySize": [1, 2],
            "keySpace": 6,
            "valueSize": rng.choice((3, 60)),
            "tsBase": self.now,
            "tsStep": 3,
            "rseed": rng.randrange(1 << 30),
            "epoch": self.epoch,
        }
        if rng.random() < 0.1:
            op["gap"] = rng.randrange(1, 5)
        if rng.random() < 0.85:
            producer = rng.randrange(1, 6)
            op["pid"] = producer
            op["pepoch"] = self.producer_epochs.get(producer, 0)
            op["txn"] = producer in self.open or producer < 5
            if op["txn"]:
                self.open.add(producer)
        self.ops.append(op)

    def marker(self) -> None:
        rng = self.rng
        some = sorted(self.open) or [rng.randrange(1, 6)]
        producer = rng.choice(some) if rng.random() < 0.95 else rng.randrange(1, 6)
        if rng.random() < 0.2:  # as transactions of version 2 do
            self.producer_epochs[producer] = self.producer_epochs.get(producer, 0) + 1
        self.open.discard(producer)
        self.ops.append(
            {
                "op": "marker",
                "pid": producer,
                "pepoch": self.producer_epochs.get(producer, 0),
                "commit": rng.random() < 0.5,
                "ts": self.now,
                "epoch": self.epoch,
                "coordinatorEpoch": rng.randrange(3),
            }
        )
