"""Batches taken many at a time come to what they come to one by one, whatever the copies are.

KDUMP_FUZZ=long takes 1,000 cases.
"""

import random
from pathlib import Path
from typing import Any

import pytest
from comparing import Batch, batches, replica
from long_runs import SEED, how_many
from salvaging import break_batch, build_salvage

from kdump.engine.salvage.copies import Copy
from kdump.engine.salvage.merge import Merge

_COUNT = how_many(6, 1000)


def _logs(rng: random.Random) -> list[list[Batch | bytes]]:
    """Copies of one log that is compacted here and there; each is damaged, short or apart."""
    log: list[Batch] = []
    for epoch in range(1, rng.randrange(2, 5)):
        start = log[-1].last + 1 if log else 0
        kind: dict[str, Any] = rng.choice([{}, {}, {"producer_id": 7 + epoch}])
        log += batches(
            start, start + rng.randrange(20, 200), epoch, size=rng.randrange(1, 4), **kind
        )
    kept = [one for one in log if rng.random() < 0.9]
    copies: list[list[Batch | bytes]] = []
    for _ in range(rng.randrange(2, 4)):
        part: list[Batch | bytes] = list(kept[rng.choice([0, 0, rng.randrange(9)]) :])
        if rng.random() < 0.5 and len(part) > 1:
            del part[rng.randrange(1, len(part)) :]
        for _ in range(rng.choice([0, 0, 1, 3])):
            at = rng.randrange(len(part))
            one = part[at]
            if isinstance(one, Batch):
                other = one._replace(items=tuple(i._replace(value=b"?") for i in one.items))
                part[at] = rng.choice([break_batch(one), other, one._replace(epoch=one.epoch + 9)])
        if rng.random() < 0.3:
            del part[rng.randrange(len(part))]
        copies.append(part)
    return copies


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(SEED, SEED + _COUNT))
def test_parallel_merge_equals_sequential_merge(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(f"abreast {seed}")
    logs = _logs(rng)
    cuts = [rng.randrange(1, 50) for _ in logs]
    paths = [
        replica(tmp_path, f"copy{n}", log, segments={0, cut} if cut < len(log) else {0})
        for n, (log, cut) in enumerate(zip(logs, cuts, strict=True))
    ]
    served: list[int] = []
    together = Merge._serve_all

    def counted(merge: Merge, same: Any) -> Any:
        served.append(same[0].batch_count)
        return together(merge, same)

    monkeypatch.setattr(Merge, "_serve_all", counted)
    (tmp_path / "again").mkdir()
    found = build_salvage(tmp_path, *paths, prefer="longest")
    were_taken = sum(served)
    served.clear()
    monkeypatch.setattr(Copy, "_is_plain", lambda *_: False)
    assert build_salvage(tmp_path / "again", *paths, prefer="longest") == found
    assert not served
    if seed == SEED:
        assert were_taken > 10
