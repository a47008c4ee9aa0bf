"""Random damage for every reader: no traceback, no hang, bounded memory; twins agree.

A short campaign with a fixed seed on every run. `KDUMP_FUZZ=long` takes 100,000 inputs;
`KDUMP_FUZZ_COUNT` any number, `KDUMP_FUZZ_SEED` others.
"""

from __future__ import annotations

import os
import sys

import pytest
from fuzz import campaign, cases
from fuzz.seeds import all_seeds

from kdump import kernels

_LONG = os.environ.get("KDUMP_FUZZ") == "long"
_SHORT = 150 if kernels.NAME == "pure" else 500
_COUNT = int(os.environ.get("KDUMP_FUZZ_COUNT", "100000" if _LONG else _SHORT))
_SEED = int(os.environ.get("KDUMP_FUZZ_SEED", "1"))
_JOBS = 2
_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="memory is measured by /proc")


def _run(kind: str, numbers: list[int], trap_bytes: int = cases.TRAP_BYTES) -> None:
    tasks = [campaign.Task(kind, _SEED, numbers[job::_JOBS], trap_bytes) for job in range(_JOBS)]
    outcome = campaign.run(tasks, all_seeds(with_corpora=False), _JOBS)
    assert not outcome.failures, "\n".join(campaign.report(outcome.failures))


@_LINUX
@pytest.mark.fuzz
def test_random_damage() -> None:
    _run("random", list(range(_COUNT)))


@_LINUX
@pytest.mark.fuzz
@pytest.mark.skipif(kernels.NAME == "pure", reason="held to the compiled kernel's speed")
def test_traps_for_slow_searches() -> None:
    """Files made so that a search that looks twice at every byte does not end."""
    _run("traps", list(range(len(cases.TRAPS))), 1 << 16)
