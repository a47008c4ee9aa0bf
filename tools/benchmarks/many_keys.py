"""Measure what very many keys cost: `duplicates --by key` and `placement --partitioner`.

    python tools/benchmarks/many_keys.py --keys 10000000 --directory /tmp/keys

Each key comes once, but for one in a thousand, which comes again on the other partition. Prints
seconds and the most memory that a process held, and fails above 512 MiB.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests/support"))
import builders

MOST_MIB = 512
BATCH = 1000
SEGMENT = 1_000_000
TIME = 1_700_000_000_000


def generate(root: Path, keys: int) -> int:
    """Write two partitions; return how many keys come twice."""
    repeated = range(0, keys, 1000)
    # Of a record only the key differs from batch to batch: what stands around it is made once.
    same = b"key-%012d" % 0
    around = [builders.record(at, at, same, b"v").split(same) for at in range(BATCH)]
    for partition, numbers in enumerate((range(keys), repeated)):
        directory = root / f"keys-{partition}"
        directory.mkdir(parents=True)
        for base in range(0, len(numbers), SEGMENT):
            with (directory / f"{base:020}.log").open("wb") as log:
                for first in range(base, min(base + SEGMENT, len(numbers)), BATCH):
                    part = numbers[first : first + BATCH]
                    records = [
                        b"%skey-%012d%s" % (before, number, behind)
                        for (before, behind), number in zip(around, part, strict=False)
                    ]
                    log.write(
                        builders.batch(records, base_offset=first, base_timestamp=TIME + first)
                    )
    return len(repeated)


def measured(*arguments: str) -> str:
    """Run kdump, print what it cost, and give its first line."""
    started = time.monotonic()
    done = subprocess.run(["kdump", *arguments], stdout=subprocess.PIPE, check=True, env=os.environ)
    mib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"{' '.join(arguments[:3])}: {time.monotonic() - started:.0f} s, {mib:.0f} MiB")
    assert mib <= MOST_MIB, f"more than {MOST_MIB} MiB"
    return done.stdout.decode().partition("\n")[0]


def main() -> None:
    """Generate where nothing is there yet, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=10_000_000)
    parser.add_argument("--directory", type=Path, required=True)
    given = parser.parse_args()
    root = given.directory / str(given.keys)
    twice = len(range(0, given.keys, 1000)) if root.exists() else generate(root, given.keys)
    found = json.loads(measured("duplicates", "--by", "key", "--format=jsonl", str(root)))
    assert found["groups"] == found["groups_across_partitions"] == twice, found
    placed = json.loads(
        measured("placement", "--partitioner", "murmur2", "--format=jsonl", str(root))
    )
    assert (placed["keys"], placed["keys_moved"]) == (given.keys, twice), placed


if __name__ == "__main__":
    main()
