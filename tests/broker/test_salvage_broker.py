"""Real brokers on what was salvaged: a consumer is handed the records there were, one by one.

A broker writes topics, in each format that it can write; three copies of its directory are broken,
each elsewhere; what is salvaged of them is started on, as partitions that are put back and as a
data directory of its own. KDUMP_FUZZ=long takes ten topics of each of four brokers. Needs `broker/`
of KDUMP_SHARED.
"""

import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from broker_box import Broker, Json
from long_runs import LONG, SEED

from kdump.broker.versions import read_broker_version
from kdump.engine.salvage.options import SalvageOptions
from kdump.engine.salvage.run import salvage
from kdump.findings.rows import Row

pytestmark = pytest.mark.broker

VERSIONS = ("4.4.0", "4.1.1", "2.8.2", "0.10.2.2") if LONG else ("4.4.0",)
COPIES = 3
TOPICS = [f"orders{number}" for number in range(10 if LONG else 1)]
#: What `message.format.version` may say, beside that of the broker itself: magic 0, 1 and 2.
FORMATS = {"0.10.2.2": ("0.9.0", None), "2.8.2": ("0.9.0", "0.10.0", None)}


@pytest.fixture(params=VERSIONS)
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    found = Broker(tmp_path / "data", request.param)
    yield found
    found.run("kill")


def fill_topic(broker: Broker, topic: str, rng: random.Random) -> None:
    written = rng.choice(FORMATS.get(broker.version, (None,)))
    configs = {} if written is None else {"message.format.version": written}
    operations: list[Json] = [
        {"op": "create_topic", "topic": topic, "segmentBytes": 60_000, "configs": configs}
    ]
    for number in range(4):
        operations.append({
            "op": "produce", "topic": topic, "count": rng.randrange(200, 900),
            "batch": rng.choice((1, 5, 50)), "valueSize": [20, 300], "seed": number,
            "codec": rng.choice(("none", "gzip", "lz4", "snappy")),
        })  # fmt: skip
        if not broker.version.startswith("0.") and written is None:
            end = rng.choice(("abort", "commit"))
            operations.append({"op": "txn", "topic": topic, "txn": "a", "count": 9, "end": end})
    answers = broker.ask(*operations)
    assert all(answer["ok"] for answer in answers), answers


def consume_all(broker: Broker) -> list[Any]:
    found = []
    isolations = ("read_uncommitted", "read_committed")
    for topic in TOPICS:
        for isolation in isolations[:1] if broker.version.startswith("0.") else isolations:
            asked = {"op": "consume", "topic": topic, "from": 0, "records": 1_000_000,
                     "isolation": isolation}  # fmt: skip
            (answer,) = broker.ask(asked)
            assert answer["ok"], answer
            found.append((topic, answer.get("count"), answer["records"]))
            assert answer["records"]
    return found


def break_copies(source: Path, tmp_path: Path, rng: random.Random) -> list[Path]:
    """Copy the directory and break each copy where no other is broken."""
    copies = [tmp_path / f"copy{number}" for number in range(COPIES)]
    for copy in copies:
        shutil.copytree(source, copy)
    for topic in TOPICS:
        logs = sorted((source / f"{topic}-0").glob("*.log"))
        rng.shuffle(logs)
        for number, log in enumerate(logs):
            break_log(copies[number % COPIES] / f"{topic}-0" / log.name, rng)
    return copies


def break_log(at: Path, rng: random.Random) -> None:
    match rng.randrange(4):
        case 0:
            at.unlink()
        case 1:
            with at.open("r+b") as file:
                file.truncate(at.stat().st_size // 3)
        case 2:
            with at.open("r+b") as file:
                file.seek(rng.randrange(at.stat().st_size))
                file.write(rng.randbytes(4096))
        case 3:
            at.rename(at.with_name(f"{at.name}.deleted"))


def test_broker_serves_salvaged_records(broker: Broker, tmp_path: Path) -> None:
    rng = random.Random(f"{broker.version} {SEED}")
    broker.start()
    for topic in TOPICS:
        fill_topic(broker, topic, rng)
    expected = consume_all(broker)
    assert broker.run("stop").returncode == 0
    copies = break_copies(broker.directory, tmp_path, rng)
    out = tmp_path / "salvaged"
    options = SalvageOptions(
        out=str(out), broker_version=read_broker_version(broker.version), topic_configs=False
    )
    options = options._replace(selection=options.selection._replace(topic="orders*"))
    rows = list(salvage(list(map(str, copies)), options))
    assert len(rows) == len(TOPICS)
    for row in rows:
        assert isinstance(row, Row)
        assert (row.fields["lost"], row.fields["conflicts"]) == ([], []), row

    put_back(out, broker.directory)
    broker.start()
    assert consume_all(broker) == expected
    assert_taken_as_it_was(broker)

    other = Broker(out, broker.version)
    try:
        done = other.run("start", "--version", broker.version, "--takeover",
                         "--owner", str(os.getpid()))  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert consume_all(other) == expected
        assert_taken_as_it_was(other)
    finally:
        other.run("kill")


def assert_taken_as_it_was(broker: Broker) -> None:
    for odd in ("orders.*-0.*rebuilding index", "orders.*-0.*[Cc]orrupt"):
        answer = broker.run("log", "--count", "--grep", odd)
        assert answer.stdout.strip() == "0", answer.stdout


def put_back(out: Path, data: Path) -> None:
    """Do what the manual says, with the broker stopped."""
    steps = f"""
        mkdir {data}.old
        mv {data}/orders*-0 {data}.old/
        cp -a {out}/orders*-0 {data}/
        rm -f {data}/.kafka_cleanshutdown
        chown -R --reference={data} {data}/orders*-0
    """
    subprocess.run(["bash", "-ec", steps], check=True)
