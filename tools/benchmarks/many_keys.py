"""Measure what very many keys cost: `duplicates --by key` and `placement`.

    python tools/benchmarks/many_keys.py --keys 10000000 --directory /tmp/keys

Each key comes once, but for one in a thousand, which comes again on the other partition; ten
million records are 1 GiB. Prints processor time, also for each record, and the most memory that a
process held, and fails above 512 MiB.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests/support"))
import builders

MOST_MIB = 512
BATCH = 1000
SEGMENT = 1_000_000
TIME = 1_700_000_000_000
VALUE = b"v" * 80


def generate(root: Path, keys: int) -> int:
    """Write two partitions; return how many keys come twice."""
    repeated = range(0, keys, 1000)
    # Of a record only the key differs from batch to batch: what stands around it is made once.
    same = b"key-%012d" % 0
    around = [builders.record(at, at, same, VALUE).split(same) for at in range(BATCH)]
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


def measure_run(keys: int, *arguments: str) -> str:
    """Run kdump, print what it cost, and give its first line."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(["kdump", *arguments], stdout=subprocess.PIPE, check=True, env=os.environ)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    mib = after.ru_maxrss / 1024
    each = seconds / keys * 1e6
    print(f"{' '.join(arguments[:3])}: {seconds:.1f} s, {each:.2f} µs a record, {mib:.0f} MiB")
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
    records = given.keys + twice
    for by in ("key", "key,value"):
        asked = "duplicates", "--by", by, "--format=jsonl", str(root)
        found = json.loads(measure_run(records, *asked))
        assert found["groups"] == found["groups_across_partitions"] == twice, found
    for partitioner in ("any", "murmur2"):
        asked = "placement", "--partitioner", partitioner, "--format=jsonl", str(root)
        placed = json.loads(measure_run(records, *asked))
        assert (placed["keys"], placed["keys_moved"]) == (given.keys, twice), placed


if __name__ == "__main__":
    main()
