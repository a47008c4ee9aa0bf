"""Plans of `why --free`, carried out by a real broker: what was promised is what is freed."""

import json
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
from long_runs import LONG
from patience import PATIENCE_SECONDS

from kdump.engine.why.options import WhyOptions
from kdump.engine.why.run import why
from kdump.engine.why.volumes import FreeRequest
from kdump.findings.rows import Row
from kdump.storage.targets import Selection

pytestmark = pytest.mark.broker

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
    """Topics that keep everything, that are pinned by a record ahead, one that is compacted, and
    one of several partitions, the last of whose records are much younger than the others."""
    draw = random.Random(case)
    now = time.time_ns() // 1_000_000
    shapes: list[tuple[str, dict[str, str], list[int]]] = [
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
            {"op": "create_topic", "topic": topic, "segmentBytes": 9000, "configs": configs}
        )
        asked.extend(
            {
                "op": "produce", "topic": topic, "count": draw.randint(20, 90), "batch": 5,
                "idempotent": True, "timestamps": [at, 1],
            }
            for at in times
        )  # fmt: skip
    wide = f"wide.{case}"
    limits = draw.choice(({"retention.ms": "-1"}, {"retention.ms": str(400 * DAY_MS)}))
    last = draw.choice((20, 90))  # where they fill segments, no age tells these from the active one
    asked.append(
        {"op": "create_topic", "topic": wide, "partitions": 3, "segmentBytes": 9000,
         "configs": limits}
    )  # fmt: skip
    asked.extend(
        {
            "op": "produce", "topic": wide, "partition": partition, "count": count, "batch": 5,
            "timestamps": [at, 1],
        }
        for partition in range(3)
        for count, at in ((draw.randint(100, 300), now - 95 * DAY_MS), (last, now - 5 * DAY_MS))
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


def operation(command: str) -> dict[str, Any]:
    """Make of a step's command what the client does for it; it sets what others delete."""
    words = shlex.split(command)
    if words[0] == "kafka-configs.sh":
        what, change = words[-2:]
        name, _, value = change.partition("=")
        assert what == ("--add-config" if value else "--delete-config")
        topic = words[words.index("--entity-name") + 1]
        return {"op": "alter_topic", "topic": topic, "configs": {name: value or "-1"}}
    (wanted,) = json.loads(words[-1])["partitions"]
    return {
        "op": "delete_records", "topic": wanted["topic"], "partition": wanted["partition"],
        "before": wanted["offset"],
    }  # fmt: skip


def losses(step: dict[str, Any]) -> list[dict[str, Any]]:
    """Say what a step promises of each partition."""
    return list(step["partitions"] or [step])


@pytest.mark.parametrize("case", range(CASES))
def test_steps_free_the_promised_bytes(broker: Broker, case: int) -> None:
    fill(broker, case)
    time.sleep(1.5)  # what goes by itself is gone, and the checkpoints are written
    asked = random.Random(case).choice([20_000, 60_000, 10**9, 10**9])
    now = time.time_ns() // 1_000_000
    options = WhyOptions(now, Selection(topic=f"*.{case}"), free=(FreeRequest(asked),))
    rows = [row for row in why([str(broker.directory)], options) if isinstance(row, Row)]
    steps: list[dict[str, Any]] = [row.fields for row in rows if row.row == "plan-step"]
    assert steps
    assert all(step["command"] for step in steps)
    assert not any(str(step["topic"]).startswith("keyed") for step in steps)
    promised: Counter[Path] = Counter()
    ends: Counter[Path] = Counter()
    for step in steps:
        for one in losses(step):
            directory = broker.directory / f"{step['topic']}-{one['partition']}"
            promised[directory] += one["frees_bytes"]
            ends[directory] = max(ends[directory], one["loses_to"])
    befores = {directory: held(directory) for directory in promised}
    for answer in broker.ask(*(operation(step["command"]) for step in steps)):
        assert answer["ok"], answer
    until = time.monotonic() + PATIENCE_SECONDS
    for directory, before in befores.items():
        while freed(directory, before) != promised[directory] and time.monotonic() < until:
            time.sleep(0.1)
        assert freed(directory, before) == promised[directory], steps
        first = min(int(path.stem) for path in directory.glob("*.log"))
        assert ends[directory] == first - 1
    undone = [operation(step["undo"]) for step in steps if step["undo"]]
    # All of a topic's partitions lie here, so that where all may go one limit does it.
    assert any(one["topic"] == f"wide.{case}" for one in undone) or asked < 10**9
    for answer in broker.ask(*undone):
        assert answer["ok"], answer
    planned = rows[-1].fields["planned_bytes"]
    assert planned == sum(step["frees_bytes"] for step in steps)
    if asked < 10**9:
        assert int(str(planned)) >= asked
