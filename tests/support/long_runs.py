"""How much generated tests do: fixed seeds and seconds, or minutes under KDUMP_FUZZ=long.

KDUMP_FUZZ_COUNT takes any number of inputs where a test counts them, KDUMP_FUZZ_SEED others.
CONTRIBUTING.md has a table of the long runs.
"""

import os

LONG = os.environ.get("KDUMP_FUZZ") == "long"
SEED = int(os.environ.get("KDUMP_FUZZ_SEED", "1"))


def how_many(short: int, long: int) -> int:
    """Give the number of inputs."""
    return int(os.environ.get("KDUMP_FUZZ_COUNT") or (long if LONG else short))
