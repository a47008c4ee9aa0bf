"""Plans of `why --free`, carried out by a real broker: what was promised is what is freed."""

import json
import os
import random
import re
import shlex
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from broker_box import Broker

from kdump.engine.why.options import WhyOptions
from kdump.engine.why.run import why
from kdump.findings.rows import Row
from kdump.storage.targets import Selection

pytestmark = pytest.mark.broker

LONG = os.environ.get("KDUMP_FUZZ") == "long"
VERSIONS = ("4.1.1", "4.4.0") if LONG else ("4.1.1",)
CASES = 10 if LONG else 1
DAY_MS = 86_400_000
OF_A_SEGMENT = re.compile(r"\d{20}\.(log|index|timeindex|txnindex|snapshot)")


@pytest.fixture(scope="module", params=VERSIONS)
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    found = Broker(tmp_path_factory.mktemp("free") / "data", request.param)
    found.start(
        log_retention_check_interval_ms=500,
        log_initial_task_delay_ms=100,
        log_segment_delete_delay_ms=0,
        log_cleaner_enable="false",
        replica_high_watermark_checkpoint_interval_ms=200,
    )
    yield found
    found.run("kill")


def fill(broker: Broker, case: int) -> None:
    """Topics that keep everything, that are pinned by a record ahead, and one that is compacted."""
    draw = random.Random(case)
    now = time.time_ns() // 1_000_000
    shapes: list[tuple[str, dict[str, str], list[int]]] = [
        ("spread", {"retention.ms": "-1"}, [now - 30 * DAY_MS + at for at in range(9)]),
        ("kept", {"retention.ms": "-1"}, [now - 90 * DAY_MS] * 6),
        ("young", {"retention.ms": str(30 * DAY_MS)}, [now - 9 * DAY_MS + at for at in range(5)]),
        ("pinned", {"retention.ms": str(7 * DAY_MS)}, [now + 9 * DAY_MS, *[now - 20 * DAY_MS] * 4]),
        ("sized", {"retention.bytes": "100000000", "retention.ms": "-1"}, [now - DAY_MS] * 4),
        ("keyed", {"cleanup.policy": "compact"}, [now - 50 * DAY_MS] * 4),
    ]
    asked: list[dict[str, Any]] = []
    for name, configs, times in shapes:
        topic = f"{name}.{case}"
        asked.append(
            {"op": "create_topic", "topic": topic, "segmentBytes": 9000, "configs": configs,
             "partitions": 3 if name == "spread" else 1}
        )  # fmt: skip
        asked.extend(
            {
                "op": "produce", "topic": topic, "count": draw.randint(20, 90), "batch": 5,
                "idempotent": True, "timestamps": [at, 1],
                "partition": number % 3 if name == "spread" else 0,
            }
            for number, at in enumerate(times)
        )  # fmt: skip
    for answer in broker.ask(*asked):
        assert answer["ok"], answer


def held(directory: Path) -> dict[str, int]:
    """Give the files of segments, less what is reserved in the indexes of the active one."""
    sizes = {}
    for path in directory.iterdir():
        if OF_A_SEGMENT.fullmatch(path.name):
            data = path.read_bytes()
            entry = {".index": 8, ".timeindex": 12}.get(path.suffix, 1)
            written = len(data.rstrip(b"\0")) if entry > 1 else len(data)
            sizes[path.name] = -(-written // entry) * entry
    return sizes


def freed(directory: Path, before: dict[str, int]) -> int:
    """Add up what is gone: a roll makes files as well."""
    return sum(size for name, size in before.items() if not (directory / name).exists())


def operation(step: dict[str, Any]) -> dict[str, Any]:
    """Make of a step's command what the client does for it."""
    (wanted,) = json.loads(shlex.split(step["command"])[-1])["partitions"]
    return {"op": "delete_records", "topic": wanted["topic"], "partition": wanted["partition"],
            "before": wanted["offset"]}  # fmt: skip


def alteration(words: list[str]) -> dict[str, Any]:
    """Make of a command of kafka-configs what the client does for it."""
    topic, name, value = words[words.index("--entity-name") + 1], *words[-1].split("=")
    return {"op": "alter_topic", "topic": topic, "configs": {name: value}}


@pytest.mark.parametrize("case", range(CASES))
def test_steps_free_what_they_promise(broker: Broker, case: int) -> None:
    fill(broker, case)
    time.sleep(1.5)  # what goes by itself is gone, and the checkpoints are written
    asked = random.Random(case).choice([20_000, 60_000, 10**9])
    now = time.time_ns() // 1_000_000
    options = WhyOptions(now, Selection(topic=f"*.{case}"), free_bytes=asked)
    rows = [row for row in why([str(broker.directory)], options) if isinstance(row, Row)]
    all_steps: list[dict[str, Any]] = [row.fields for row in rows if row.row == "plan-step"]
    steps = [step for step in all_steps if step["in_place_of"] is None]
    assert steps
    assert all(step["command"] for step in steps)
    assert not any(str(step["topic"]).startswith("keyed") for step in steps)
    promised: Counter[Path] = Counter()
    for step in steps:
        promised[broker.directory / f"{step['topic']}-{step['partition']}"] += step["frees_bytes"]
    befores = {directory: held(directory) for directory in promised}
    orders: set[int] = set()
    operations = []
    for step in all_steps if case % 2 == 0 else ():  # retention in place of what it stands for
        if step["in_place_of"] is not None:
            promised_here = [one for one in steps if one["order"] in step["in_place_of"]]
            assert step["frees_bytes"] == sum(one["frees_bytes"] for one in promised_here)
            orders |= set(step["in_place_of"])
            operations.append(alteration(shlex.split(step["command"])))
    operations += [operation(step) for step in steps if step["order"] not in orders]
    for answer in broker.ask(*operations):
        assert answer["ok"], answer
    until = time.monotonic() + 20
    for directory, before in befores.items():
        while freed(directory, before) != promised[directory] and time.monotonic() < until:
            time.sleep(0.1)
        assert freed(directory, before) == promised[directory], steps
        first = min(int(path.stem) for path in directory.glob("*.log"))
        names = {f"{step['topic']}-{step['partition']}": step["loses_to"] for step in steps}
        ends = [end for name, end in names.items() if name == directory.name]
        assert max(ends) == first - 1
    planned = rows[-1].fields["planned_bytes"]
    assert planned == sum(step["frees_bytes"] for step in steps)
    if asked == 10**9 and case % 2 == 0:
        assert orders
    if asked < 10**9:
        assert int(str(planned)) >= asked
