"""Random damage for every reader: no traceback, no hang, bounded memory; twins agree.

A short campaign with a fixed seed on every run. `KDUMP_FUZZ=long` takes 100,000 inputs, those made
from the corpora among them where KDUMP_SHARED is; `KDUMP_FUZZ_COUNT` any number, `KDUMP_FUZZ_SEED`
others, `KDUMP_FUZZ_JOBS` other than two processes, or one for the short campaign. What fails is
written to `KDUMP_FUZZ_KEEP`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest
from fuzz import campaign, cases
from fuzz.seeds import Seeds, all_seeds
from long_runs import LONG, SEED, how_many

from kdump import kernels

_PURE = kernels.NAME == "pure"
_COUNT = how_many(100 if _PURE else 120, 100_000)
# A short campaign starts as few processes as it can: a start is as much as sixty inputs.
_JOBS = int(os.environ.get("KDUMP_FUZZ_JOBS", "2" if LONG else "1"))

pytestmark = [
    pytest.mark.fuzz,
    pytest.mark.skipif(sys.platform != "linux", reason="memory is measured by /proc"),
]
_COMPILED_ONLY = pytest.mark.skipif(_PURE, reason="held to the compiled kernel's speed")


@cache
def inputs() -> Seeds:
    return all_seeds(with_corpora=LONG)


def run(kind: str, numbers: Iterable[int], trap_bytes: int = cases.TRAP_BYTES) -> None:
    some = list(numbers)
    tasks = [campaign.Task(kind, SEED, some[job::_JOBS], trap_bytes, LONG) for job in range(_JOBS)]
    seeds = inputs()
    outcome = campaign.run(tasks, seeds, _JOBS)
    if kept := os.environ.get("KDUMP_FUZZ_KEEP"):
        for failure in outcome.failures:
            campaign.keep(failure, seeds, Path(kept))
    assert not outcome.failures, "\n".join(campaign.report(outcome.failures))


def test_random_damage() -> None:
    run("random", range(_COUNT))


def test_former_failures_are_survived() -> None:
    # Bombs are held to the compiled kernel's speed and memory.
    everything = cases.regression_cases()
    run("regressions", [at.number for at in everything if not (_PURE and "bomb" in at.family)])


@_COMPILED_ONLY
def test_traps_that_cost_more_than_their_bytes() -> None:
    """Files made so that a reader that is quadratic anywhere does not come to an end."""
    run("traps", range(len(cases.TRAPS)), 1 << 20 if LONG else 1 << 13)


@_COMPILED_ONLY
@pytest.mark.skipif(not LONG, reason="takes minutes; KDUMP_FUZZ=long asks for it")
def test_decompression_bombs() -> None:
    run("bombs", [case.number for case in cases.bomb_cases()])
