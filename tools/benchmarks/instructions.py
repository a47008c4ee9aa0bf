"""Count the instructions of ten commands with valgrind, and compare them with those recorded.

    python tools/benchmarks/instructions.py [--record]

Instructions do not depend on how busy a machine is, but on Python and on the compiler: with
another build of Python than the recorded one nothing is compared, and without valgrind nothing is
counted. More than 5 % above is a failure; where that is meant, record anew.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECORDED = Path(__file__).with_suffix(".json")
DIRECTORY = "sample-data/clean/4.1.1/d1"
PARTITION = f"{DIRECTORY}/orders.lz4-0"
COMMANDS = {
    "help": ["--help"],
    "find-offset": ["find-offset", "1", PARTITION],
    "find-time": ["find-time", "latest", PARTITION],
    "verify": ["verify", PARTITION],
    "verify a directory": ["verify", DIRECTORY],
    "dump as JSON Lines": ["dump", "--format", "jsonl", DIRECTORY],
    "dump as CSV": ["dump", "--format", "csv", DIRECTORY],
    "dump in Kafka's form": ["dump", "--format", "kafka", PARTITION],
    "cluster": ["cluster", "--format", "jsonl", DIRECTORY],
    "groups": ["groups", "--format", "jsonl", DIRECTORY],
}
MOST = 1.05


def count(words: list[str]) -> int:
    """Count the instructions of one run; the second, as the first may compile modules."""
    entry = "from kdump.cli import main; main()"
    tool = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(ROOT)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", entry, *words]
    subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, check=False)
    done = subprocess.run(
        [*tool, *command], env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )
    found = re.search(r"Collected : (\d+)", done.stderr)
    if found is None:
        raise SystemExit(f"{words[0]}: valgrind counted nothing: {done.stderr[-300:]}")
    return int(found[1])


def main() -> None:
    """Record the counts, or compare them with those that were recorded."""
    if shutil.which("valgrind") is None:
        print("valgrind is not installed: instructions are not counted")
        return
    counts = {}
    recorded = {} if "--record" in sys.argv else json.loads(RECORDED.read_text("utf-8"))
    if recorded and recorded["python"] != sys.version:
        print(f"recorded with Python {recorded['python']}: instructions are not compared")
        return
    above = []
    for name, words in COMMANDS.items():
        counts[name] = count(words)
        before = recorded.get("instructions", {}).get(name, counts[name])
        ratio = counts[name] / before
        print(f"{name:22} {counts[name]:14,} {ratio:6.3f}", flush=True)
        if ratio > MOST:
            above.append(name)
    if not recorded:
        made = {"python": sys.version, "instructions": counts}
        RECORDED.write_text(json.dumps(made, indent=1) + "\n", "utf-8")
    elif above:
        raise SystemExit(f"more than 5 % above what was recorded: {', '.join(above)}")


if __name__ == "__main__":
    main()
