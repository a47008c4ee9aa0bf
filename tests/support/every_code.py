"""The view of findings on a session of Spark, for every code of the catalogue, beside `verify`."""

import os
from collections import Counter
from pathlib import Path
from typing import Any

from damaged_catalogue import MAKERS, NEEDS_ROOT, DamagedInput
from findings_rows import rows_of, verify_rows


def make_damages(root: Path) -> dict[str, DamagedInput]:
    """Make a damaged directory for each code, all that can be made here."""
    made = {}
    for code, make in MAKERS.items():
        if code == NEEDS_ROOT and os.geteuid():
            continue
        (root / code).mkdir(parents=True)
        made[code] = make(root / code)
    return made


def at_once(made: dict[str, DamagedInput], *, deep: bool) -> DamagedInput:
    """Give all that need no settings as one."""
    plain = (one for one in made.values() if one.server_properties is None)
    return DamagedInput([path for one in plain for path in one.paths], deep=deep)


def on_spark(spark: Any, damaged: DamagedInput) -> list[dict[str, Any]]:
    """Give the rows of the view."""
    options = {"deep": str(damaged.deep), "decompressLimit": str(damaged.decompress_limit)}
    more = {
        "serverProperties": damaged.server_properties,
        "tier": damaged.tier,
        "tierKey": damaged.tier_key,
    }
    options |= {name: given for name, given in more.items() if given is not None}
    reader = spark.read.format("kdump").options(view="findings", **options)
    return [row.asDict() for row in reader.load([*map(str, damaged.paths)]).collect()]


def count_differing(spark: Any, root: Path, *, one_by_one: bool = False) -> tuple[int, list[str]]:
    """Say how many codes were compared, and where view and command differ."""
    made = make_damages(root)
    asked = {"all": at_once(made, deep=False), "all, deep": at_once(made, deep=True)}
    asked |= {
        code: one for code, one in made.items() if one_by_one or one.server_properties is not None
    }
    codes: Counter[str] = Counter()
    odd = []
    for name, one in asked.items():
        command = rows_of(verify_rows(one))
        codes.update(dict(row)["code"] for row in command)
        if command != rows_of(on_spark(spark, one)):
            odd.append(name)
    return len(codes), odd
