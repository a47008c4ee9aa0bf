"""Count the instructions that each record takes, start-up aside, and record them.

    python tools/benchmarks/per_record.py --data DIRECTORY

of the log that `table.py` makes there: the difference between runs over 200,000 and 1,000,000
records, counted by valgrind. `table.py` writes what was recorded into its page.
"""

import argparse
import json
from pathlib import Path

from instructions import count

RECORDED = Path(__file__).with_suffix(".json")
FEW, MANY = 200_000, 1_000_000
#: The most that was set, by form. What has none must not get worse.
MOST = {"jsonl": 1400, "csv": None, "kafka": None}


def per_record(log: str, form: str) -> int:
    """Count one form."""
    words = ["dump", "--format", form, log, "--limit"]
    return round((count([*words, str(MANY)]) - count([*words, str(FEW)])) / (MANY - FEW))


def lines() -> list[str]:
    """Give the section of the page."""
    found = json.loads(RECORDED.read_text("utf-8"))
    rows = ["", "## Instructions for each record", ""]
    rows += ["| form | instructions | to reach | reached |", "| --- | --- | --- | --- |"]
    for form, figure in found.items():
        most = MOST[form]
        verdict = "" if most is None else "yes" if figure <= most else "no"
        rows.append(
            f"| {form} | {figure:,} | {'' if most is None else f'≤ {most:,}'} | {verdict} |"
        )
    return rows


def main() -> None:
    """Count each form of dump."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="where the data of table.py is")
    log = str(parser.parse_args().data / "v2none-0" / f"{0:020d}.log")
    found = {form: per_record(log, form) for form in MOST}
    RECORDED.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    print("\n".join(lines()))


if __name__ == "__main__":
    main()
