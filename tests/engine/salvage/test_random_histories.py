"""Copies whose leader epochs went apart at random: the newest history wins, whole, and no other.

Leaders follow each other; each copy has a part of what they wrote, one goes on with records that
the next leader never saw. Batches are broken at random. KDUMP_FUZZ=long takes 2,000 cases.
"""

import random
from pathlib import Path

import pytest
from comparing import Batch, Item, batches, replica
from long_runs import SEED, how_many
from salvaging import break_batch, build_salvage, data_of, epochs_file

_COUNT = how_many(20, 2000)


def draw_log(rng: random.Random) -> list[Batch]:
    """What leaders of rising epochs wrote."""
    log: list[Batch] = []
    epoch = rng.randrange(3)
    for _ in range(rng.randrange(2, 6)):
        start = log[-1].last + 1 if log else 0
        log += batches(start, start + rng.randrange(5, 60), epoch, size=rng.randrange(1, 8))
        epoch += rng.randrange(1, 3)
    return log


def draw_unseen(log: list[Batch], rng: random.Random) -> tuple[list[Batch], list[Batch]]:
    """What a leader had before the next one took over, and wrote without being heard."""
    changes = [at for at in range(1, len(log)) if log[at].epoch != log[at - 1].epoch]
    at = rng.choice(changes)
    start = log[at].base
    tail = batches(start, start + rng.randrange(1, 80), log[at - 1].epoch, size=5)
    other = [
        batch._replace(items=tuple(Item(one.offset, one.key, b"unseen") for one in batch.items))
        for batch in tail
    ]
    return log[:at], other


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(SEED, SEED + _COUNT))
def test_newest_history_is_served_completely(seed: int, tmp_path: Path) -> None:
    rng = random.Random(f"histories {seed}")
    log = draw_log(rng)
    starts = {batch.epoch: batch.base for batch in reversed(log)}
    end = log[-1].last + 1
    files = {
        "replication-offset-checkpoint": f"0\n1\norders 0 {end}\n",
        **epochs_file(*sorted(starts.items())),
    }
    whole: set[int] = set()

    def copy(name: str, part: list[Batch], files: dict[str, str], *, spared: int = -1) -> Path:
        broken_ones = {n for n in range(len(part)) if rng.random() < 0.2} - {spared}
        whole.update(n for n, one in enumerate(part) if n not in broken_ones and one in log)
        data = [break_batch(one) if n in broken_ones else one for n, one in enumerate(part)]
        cuts = {rng.randrange(len(part)) for _ in range(3)} if part else set()
        return replica(tmp_path, name, data, files=files, segments=cuts)

    leader = copy("leader", log, files, spared=len(log) - 1)
    behind = copy("behind", log[: rng.randrange(1, len(log))], {})
    kept, other = draw_unseen(log, rng)
    apart = copy("apart", [*kept, *other], {})
    paths = [leader, behind, apart]
    rng.shuffle(paths)
    fields, data = build_salvage(tmp_path, *paths)
    assert data == data_of([one for n, one in enumerate(log) if n in whole])
    assert fields["conflicts"] == []
    lost = {at for low, high in fields["lost"] for at in range(low, high + 1)}
    gone = {
        at for n, one in enumerate(log) if n not in whole for at in range(one.base, one.last + 1)
    }
    assert lost == gone
    assert all(str(apart / "orders-0") == one["path"] for one in fields["diverged"])
