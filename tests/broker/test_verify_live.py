"""verify beside a real broker that is written to, rolls, compacts and deletes: nothing but notes.

Half a minute; under KDUMP_FUZZ=long the loop alone takes a minute. Looks are counted, not timed: a
look takes less than a tenth of a second, an answer of a broker on a busy machine up to ten seconds.
"""

import json
import os
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import broker_box
import pytest
from long_runs import LONG
from patience import PATIENCE_SECONDS

from kdump.engine.verify.options import VerifyOptions
from kdump.engine.verify.run import verify
from kdump.engine.verify.state import VerifyState
from kdump.engine.work.pipeline import ONE_BY_ONE, Workers
from kdump.findings.finding import Finding, Severity
from kdump.findings.rows import Row
from kdump.storage.directory_facts import facts_of

#: How often all kinds of looks are taken, and how long the broker is written to meanwhile.
ROUNDS = 70 if LONG else 8
SECONDS = 10 * ROUNDS
SETTINGS = {
    "log.cleaner.backoff.ms": 200,
    "log.retention.check.interval.ms": 400,
    "log.segment.delete.delay.ms": 300,
    "log.flush.offset.checkpoint.interval.ms": 700,
    "log.flush.start.offset.checkpoint.interval.ms": 700,
}
CLEANED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "500",
    "delete.retention.ms": "100",
    "file.delete.delay.ms": "300",
}
DELETED = {"retention.bytes": "150000", "file.delete.delay.ms": "300"}


class Broker:
    """A broker on a directory of its own, and one client."""

    def __init__(self, program: Path, directory: Path) -> None:
        self._program = program
        self.directory = directory
        settings = [f"--set={name}={value}" for name, value in SETTINGS.items()]
        owner = ["--owner", str(os.getpid()), "--ttl", "300"]
        started = self._do("start", "--version", "4.1.1", *owner, *settings)
        if started.returncode:
            pytest.skip(f"no broker starts here: {(started.stderr.splitlines() or ['?'])[0]}")
        self.client = subprocess.Popen(
            [str(program), "client", "--dir", str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _do(self, *words: str) -> "subprocess.CompletedProcess[str]":
        command = [str(self._program), words[0], "--dir", str(self.directory), *words[1:]]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def ask(self, op: str, **members: Any) -> dict[str, Any]:
        assert self.client.stdin is not None
        assert self.client.stdout is not None
        self.client.stdin.write(json.dumps({"op": op, **members}) + "\n")
        self.client.stdin.flush()
        answer: dict[str, Any] = json.loads(self.client.stdout.readline())
        assert answer["ok"], answer
        return answer

    def close(self) -> None:
        assert self.client.stdin is not None
        assert self.client.stdout is not None
        self.client.stdin.close()
        self.client.wait(30)
        self.client.stdout.close()
        self._do("kill")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    running = Broker(broker_box.program(), tmp_path_factory.mktemp("live") / "data")
    yield running
    running.close()


def busy(broker: Broker) -> None:
    """Let the broker be written to in every way at once."""
    ask = broker.ask
    ask("create_topic", topic="plain", segmentBytes=20_000, configs=DELETED)
    ask("create_topic", topic="compact", segmentBytes=15_000, configs=CLEANED)
    ask("create_topic", topic="both", segmentBytes=15_000, configs={**CLEANED, **DELETED,
        "cleanup.policy": "compact,delete"})  # fmt: skip
    ask("create_topic", topic="trimmed", segmentBytes=20_000, configs={})
    reserved = {"preallocate": "true", **DELETED}
    ask("create_topic", topic="reserved", segmentBytes=20_000, configs=reserved)
    ask("create_topic", topic="transactions", segmentBytes=20_000, configs={})
    few_keys = {"keySize": 1, "batch": 5}
    for topic, members in (
        ("plain", {"codec": "lz4", "idempotent": True}),
        ("compact", few_keys),
        ("both", few_keys),
        ("trimmed", {"codec": "zstd"}),
        ("reserved", {}),
    ):
        ask("load", topic=topic, name=topic, seconds=SECONDS, rate=400, **members)


#: The ways to look: whether a state is kept, and who works.
LOOKS: tuple[tuple[VerifyOptions, bool, Workers], ...] = (
    (VerifyOptions(), False, ONE_BY_ONE),
    (VerifyOptions(deep=True), False, ONE_BY_ONE),
    (VerifyOptions(), True, ONE_BY_ONE),
    (VerifyOptions(quick=True), False, ONE_BY_ONE),
    (VerifyOptions(), False, Workers(2)),
    (VerifyOptions(predict=True), False, ONE_BY_ONE),
    # Slow enough for much to happen.
    (VerifyOptions(), False, Workers(bytes_per_second=2_000_000)),
)


def _told(item: object, options: VerifyOptions) -> str:
    asked = {name: value for name, value in options._asdict().items() if value}
    if isinstance(item, Finding):
        place = f"{item.path} at {item.position}, offset {item.offset}"
        return f"{asked}: {item.code} {place}: {item.message}"
    return f"{asked}: {item}"


def test_only_notes_on_a_busy_broker(broker: Broker) -> None:
    busy(broker)
    told: list[str] = []
    notes: Counter[str] = Counter()
    state = b""
    segments: Counter[str] = Counter()
    trimmed = 0
    for options, with_state, driver in LOOKS * ROUNDS:
        trimmed += 150
        answer = broker.ask("list_offsets", topic="trimmed", at=["latest"])
        if answer["offsets"][0]["offset"] > trimmed:
            broker.ask("delete_records", topic="trimmed", before=trimmed)
        for end in ("commit", "abort", "open"):
            # A broker aborts one that stays open after a minute: it is a new one each time.
            txn = f"{end}{trimmed}" if end == "open" else end
            broker.ask("txn", topic="transactions", txn=txn, count=20, end=end)
        kept = VerifyState.read(state, int(time.time())) if with_state else None
        for item in verify([str(broker.directory)], options, state=kept, driver=driver):
            if isinstance(item, Row):
                summary = item.fields
            elif isinstance(item, Finding) and item.severity is Severity.NOTE:
                notes[item.code] += 1
            else:
                told.append(_told(item, options))
        if kept is not None:
            state = b"".join(kept.lines())
        segments["seen"] += int(str(summary["segments"]))
    assert not told, "\n".join(told)
    # The broker did what it was to do: it rolled, cleaned and deleted.
    assert segments["seen"] / (len(LOOKS) * ROUNDS) > 15
    assert _comes_true(lambda: _first_base(broker, "plain") > 0)
    answer = broker.ask("list_offsets", topic="trimmed", at=["latest"])
    broker.ask("delete_records", topic="trimmed", before=answer["offsets"][0]["offset"])
    assert _comes_true(lambda: _first_base(broker, "trimmed") > 0)


def _first_base(broker: Broker, topic: str) -> int:
    return min(int(path.stem) for path in (broker.directory / f"{topic}-0").glob("*.log"))


def _comes_true(condition: Callable[[], bool]) -> bool:
    """Give a broker on a busy machine some time."""
    ends = time.monotonic() + PATIENCE_SECONDS
    while not condition() and time.monotonic() < ends:
        time.sleep(0.2)
    return condition()


def test_running_broker_is_detected_by_its_lock(broker: Broker) -> None:
    assert facts_of(str(broker.directory)).locked is True


def test_hanging_transaction_needs_a_running_broker(broker: Broker, tmp_path: Path) -> None:
    """A second is what a transaction may take here; the log of the copy is as old."""
    broker.ask("create_topic", topic="waiting", configs={})
    broker.ask("txn", topic="waiting", txn="w", count=3, end="open")
    settings = tmp_path / "server.properties"
    settings.write_text(f"log.dirs={tmp_path}/none\ntransaction.max.timeout.ms=1000\n")
    time.sleep(1.5)
    copy = tmp_path / "waiting-0"
    shutil.copytree(broker.directory / "waiting-0", copy)
    codes = {}
    for directory in (broker.directory / "waiting-0", copy):
        options = VerifyOptions(server_properties=str(settings))
        told = [item for item in verify([str(directory)], options) if isinstance(item, Finding)]
        codes[directory] = {item.code for item in told if item.code.startswith("transaction-")}
    assert codes == {
        broker.directory / "waiting-0": {"transaction-hanging"},
        copy: {"transaction-open"},
    }
