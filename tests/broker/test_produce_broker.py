"""Real brokers that salvaged records are produced to, while one side or the other is killed.

A broker writes a topic of many kinds of batches; its directory is salvaged into another topic of
the same broker. Whatever is killed, the same command at last ends with 0, and a consumer is handed
each record once, in order. KDUMP_FUZZ=long kills 200 times on each side (KDUMP_PRODUCE_KILLS says
otherwise). Needs `broker/` of KDUMP_SHARED and the extra `produce`.
"""

import csv
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from broker_box import Broker, Json
from long_runs import LONG, SEED
from patience import PATIENCE_SECONDS

pytest.importorskip("confluent_kafka", reason="no confluent-kafka: pip install 'kdump[produce]'")
pytestmark = pytest.mark.broker

KILLS = int(os.environ.get("KDUMP_PRODUCE_KILLS", "200" if LONG else "1"))
APPLY_KILLS = KILLS // 5
VERSIONS = ("4.4.0", "4.1.1", "2.8.2") if LONG else ("4.4.0",)
SOURCE = "orders"
_START_SECONDS = 3.0  # of a broker, on a machine that has little else to do
FOREVER = {"retention.ms": "-1"}
GROUPS = {"billing": 4321}
if LONG:  # as many as take a while to commit for
    GROUPS |= {f"group {number}, of many": 37 * number for number in range(400)}


class Cluster:
    """A broker with a topic in it, and a copy of its directory to salvage."""

    def __init__(self, tmp_path: Path, version: str = "4.4.0") -> None:
        self.broker = Broker(tmp_path / "data", version)
        self.folder = tmp_path
        self.broker.start()
        self.filled()
        self.expected = self.records(SOURCE)
        shutil.copytree(self.broker.directory, tmp_path / "copy")

    @property
    def address(self) -> str:
        return f"127.0.0.1:{json.loads(self.broker.run('status').stdout)['port']}"

    def ask(self, *operations: Json) -> list[Json]:
        answers = self.broker.ask(*operations)
        assert all(answer["ok"] for answer in answers), answers
        return answers

    def filled(self) -> None:
        rng = random.Random(SEED)
        self.ask({"op": "create_topic", "topic": SOURCE, "segmentBytes": 400_000,
                  "configs": FOREVER})  # fmt: skip
        operations: list[Json] = []
        for number in range(8):
            operations.append({
                "op": "produce", "topic": SOURCE, "count": rng.randrange(1000, 3000),
                "batch": rng.choice((1, 5, 50, 400)), "valueSize": [0, 300], "seed": number,
                "keySize": rng.choice((None, 0, [0, 12])), "headers": rng.choice((0, 0, 3)),
                "codec": rng.choice(("none", "gzip", "lz4", "snappy")),
                "timestamps": [1_600_000_000_000, rng.choice((0, 1, 1000))],
            })  # fmt: skip
            end = rng.choice(("abort", "commit"))
            operations.append({"op": "txn", "topic": SOURCE, "txn": "a", "count": 90, "end": end})
            operations.append({"op": "produce", "topic": SOURCE, "count": 30, "valueSize": None})
        operations += [
            {"op": "commit_offsets", "group": group, "offsets": [
                {"topic": SOURCE, "partition": 0, "offset": offset}]}
            for group, offset in GROUPS.items()
        ]  # fmt: skip
        self.ask(*operations)

    def records(self, topic: str) -> list[Any]:
        (answer,) = self.ask({"op": "consume", "topic": topic, "from": 0, "records": 1_000_000,
                              "isolation": "read_committed", "timeout": 120})  # fmt: skip
        return answer["records"]

    def target(self, name: str, **configs: object) -> list[str]:
        """Make a topic, and give the command that produces to it."""
        settings = {key.replace("_", "."): str(one) for key, one in configs.items()}
        self.ask({"op": "create_topic", "topic": name, "configs": FOREVER | settings})
        (self.folder / f"{name}.map").write_text(f"{SOURCE},{name}\n")
        return [
            sys.executable, "-m", "kdump", "produce", "--topic", SOURCE,
            "--topic-map", str(self.folder / f"{name}.map"), "--bootstrap-server", self.address,
            "--resume", str(self.folder / f"{name}.state"), "--groups", str(self.folder / "copy"),
        ]  # fmt: skip

    def assert_whole(self, name: str) -> None:
        found = self.records(name)
        assert [bare(one) for one in found] == [bare(one) for one in self.expected]
        assert [one["offset"] for one in found] == list(range(len(found)))
        moved = self.moved(name)
        assert [moved[one["offset"]] for one in self.expected] == list(range(len(found)))

    def translated(self, group: str) -> int:
        """Give the first record at or behind the offset that a group committed."""
        offsets = [one["offset"] for one in self.expected]
        return bisect_left(offsets, GROUPS[group])

    def committed(self, name: str) -> dict[str, int]:
        """Ask what groups committed in a topic."""
        (answer,) = self.ask({"op": "describe_groups", "groups": list(GROUPS)})
        return {
            one["group"]: at["offset"]
            for one in answer["groups"] for at in one["offsets"] if at["topic"] == name
        }  # fmt: skip

    def moved(self, name: str) -> dict[int, int]:
        """Read the offset map."""
        moved: dict[int, int] = {}
        with (self.folder / f"{name}.state.offsets.csv").open(encoding="utf-8") as file:
            for row in csv.DictReader(file):
                assert (row["topic"], row["partition"]) == (name, "0")
                for number in range(int(row["records_count"])):
                    moved[int(row["old"]) + number] = int(row["new"]) + number
        return moved


def bare(record: dict[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in record.items() if name not in ("offset", "leaderEpoch")}


@pytest.fixture(scope="module", params=VERSIONS)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> (
    Iterator[Cluster]
):  # fmt: skip
    found = Cluster(tmp_path_factory.mktemp("cluster"), request.param)
    yield found
    found.broker.run("kill")


def done(command: list[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_produced_records_equal_the_originals(cluster: Cluster) -> None:
    command = cluster.target("back")
    first = done(command)
    assert first.returncode == 0, first.stderr
    row, summary = map(json.loads, first.stdout.splitlines())
    assert summary["outcomes"] == {"planned": len(GROUPS)}
    produced = row["produced"]
    assert produced["records_count"] == len(cluster.expected)
    assert produced["aborted_count"] + produced["control_count"] > 0
    assert (
        produced["records_count"] + produced["aborted_count"] + produced["control_count"]
        == (row["records_count"])
    )
    cluster.assert_whole("back")
    plan = (cluster.folder / "back.state.groups.csv").read_text("utf-8")
    assert plan == f"billing,back,0,{cluster.translated('billing')}\n"
    again = done(command)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout.splitlines()[0])["produced"]["found_count"] == len(
        cluster.expected
    )
    cluster.assert_whole("back")


def test_lossy_settings_are_refused(cluster: Cluster) -> None:
    for name, settings, told in (
        ("short", {"retention_ms": 86_400_000}, "retention.ms=-1"),
        ("young", {"message_timestamp_before_max_ms": 1000}, "message.timestamp.before.max.ms"),
        ("small", {"max_message_bytes": 200}, "max.message.bytes"),
    ):
        refused = done(cluster.target(name, **settings))
        assert refused.returncode == 5, refused.stderr
        assert told in refused.stderr
    planned = done([*cluster.target("there"), "--dry-run"])
    assert planned.returncode == 0, planned.stderr
    assert cluster.records("there") == []
    command = cluster.target("another")
    (cluster.folder / "another.map").write_text(f"{SOURCE},nowhere\n")
    missing = done(command)
    assert missing.returncode == 5
    assert "kafka-topics.sh" in missing.stderr


def test_foreign_producer_is_noticed(cluster: Cluster) -> None:
    command = [*cluster.target("shared"), "--rate", "300KiB"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        wait_for_first_offset(cluster.folder / "shared.state")
        running.send_signal(signal.SIGSTOP)  # on a busy machine it would be through by then
        cluster.ask({"op": "produce", "topic": "shared", "count": 3})
        running.send_signal(signal.SIGCONT)
        assert running.stderr is not None
        told = running.stderr.read()
    assert running.returncode == 5, told
    assert "No other producer" in told
    assert done(command).returncode == 5


@pytest.mark.skipif(not LONG, reason="its own productions, several times: KDUMP_FUZZ=long")
def test_offsets_of_groups_are_committed_once(cluster: Cluster) -> None:
    """Kdump is killed while it commits, and a member is at work in one of the groups."""
    from confluent_kafka import Consumer

    command = [*cluster.target("gone"), "--apply-groups"]
    assert done([one for one in command if one != "--apply-groups"]).returncode == 0
    assert cluster.committed("gone") == {}
    wanted = {group: cluster.translated(group) for group in GROUPS}
    began = time.monotonic()
    done([*command, "--dry-run"])
    took = time.monotonic() - began
    rng, killed, amid = random.Random(SEED), 0, 0
    while killed < APPLY_KILLS:
        state, aims = cluster.folder / "gone.state", rng.random() < 0.6
        known, until = state.read_bytes(), time.monotonic() + took * rng.uniform(0.7, 2.2)
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as one:
            while one.poll() is None and (aims or time.monotonic() < until):
                if aims and state.read_bytes() != known:  # it commits now
                    time.sleep(rng.random() * 0.3)
                    break
                time.sleep(0.002)
            if one.poll() is None:
                one.kill()
                killed += 1
                amid += b'"is_done": false' in state.read_bytes().partition(b'"groups"')[2]
        if one.returncode == 0:  # to begin anew
            assert cluster.committed("gone") == wanted
            content = json.loads(state.read_text())
            del content["groups"]
            state.write_text(json.dumps(content))
            earlier = {"op": "commit_offsets", "offsets": [
                {"topic": "gone", "partition": 0, "offset": 1}]}  # fmt: skip
            cluster.ask(*(earlier | {"group": group} for group in GROUPS))
        else:
            assert one.returncode == -9
    last = done(command)
    assert last.returncode == 0, last.stderr
    assert cluster.committed("gone") == wanted
    rows = [json.loads(line) for line in last.stdout.splitlines()][1:-1]
    assert {row["group"]: row["offset"] for row in rows} == wanted
    cluster.ask({"op": "commit_offsets", "group": "billing", "offsets": [
        {"topic": "gone", "partition": 0, "offset": wanted["billing"] + 5}]})  # fmt: skip
    assert done(command).returncode == 0  # what went on from there is not sent back
    assert cluster.committed("gone")["billing"] == wanted["billing"] + 5
    command = [*cluster.target("alive"), "--apply-groups"]
    protocol = "consumer" if cluster.broker.version in ("4.4.0", "4.1.1") else "classic"
    consumer = Consumer({
        "bootstrap.servers": cluster.address, "group.id": "billing", "group.protocol": protocol
    })  # fmt: skip
    try:
        consumer.subscribe([SOURCE])
        until = time.monotonic() + PATIENCE_SECONDS
        while not consumer.assignment():
            consumer.poll(0.1)
            assert time.monotonic() < until
        refused = done(command)
    finally:
        consumer.close()
    assert refused.returncode == 5, refused.stderr
    assert "group billing: has active members" in refused.stderr
    others = {group: one for group, one in wanted.items() if group != "billing"}
    assert cluster.committed("alive") == others
    assert done(command).returncode == 0
    assert cluster.committed("alive") == wanted
    told = f"{killed} kills, {amid} of them while offsets were committed"
    print(f"{cluster.broker.version}: {told}")


@pytest.mark.skipif(not LONG, reason="a broker of its own: KDUMP_FUZZ=long")
def test_produce_works_with_tls_and_sasl(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    try:
        secure = secure_cluster(cluster, tmp_path)
        (tmp_path / "client.properties").write_text(
            "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
            f'sasl.jaas.config={_LOGIN} username="ann" password="se;cret";\n'
            f"ssl.truststore.type=PEM\nssl.truststore.location={tmp_path}/cert.pem\n"
        )
        command = cluster.target("secure")
        command[command.index("--bootstrap-server") + 1] = secure
        told = done([*command, "--client-properties", str(tmp_path / "client.properties")])
        assert told.returncode == 0, told.stderr
        cluster.assert_whole("secure")
        for wrong in ("se;cret", "PEM\nssl.truststore.location"):
            text = (tmp_path / "client.properties").read_text()
            changed = text.replace(wrong, "wrong" if wrong == "se;cret" else "PEM\n#")
            (tmp_path / "wrong.properties").write_text(changed)
            (tmp_path / "secure.state").unlink(missing_ok=True)
            told = done([*command, "--client-properties", str(tmp_path / "wrong.properties")])
            assert told.returncode == 1, told.stderr
            assert secure in told.stderr
        cluster.assert_whole("secure")
    finally:
        cluster.broker.run("kill")


_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def secure_cluster(cluster: Cluster, path: Path) -> str:
    """Start the broker again with a listener of TLS that asks for a login; give its address."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
         "-keyout", str(path / "key.pem"), "-out", str(path / "cert.pem")],
        check=True, capture_output=True,
    )  # fmt: skip
    both = (path / "key.pem").read_text() + (path / "cert.pem").read_text()
    (path / "broker.pem").write_text(both)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    properties = cluster.broker.directory.with_name("data.broker") / "server.properties"
    given = dict(line.split("=", 1) for line in properties.read_text().splitlines() if "=" in line)
    assert cluster.broker.run("stop").returncode == 0
    told = f'{_LOGIN} user_ann="se;cret";'
    cluster.broker.start(
        listeners=f"{given['listeners']},SECURE://127.0.0.1:{port}",
        advertised_listeners=f"{given['advertised.listeners']},SECURE://localhost:{port}",
        listener_security_protocol_map=(
            f"{given['listener.security.protocol.map']},SECURE:SASL_SSL"
        ),
        listener_name_secure_ssl_keystore_type="PEM",
        listener_name_secure_ssl_keystore_location=path / "broker.pem",
        listener_name_secure_sasl_enabled_mechanisms="PLAIN",
        listener_name_secure_plain_sasl_jaas_config=told,
    )
    return f"localhost:{port}"


def wait_for(path: Path) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not path.exists():
        assert time.monotonic() < until
        time.sleep(0.02)


def wait_for_first_offset(state: Path) -> None:
    """Wait until kdump knows where its first record goes; the file itself is made before that."""
    until = time.monotonic() + PATIENCE_SECONDS
    while not (state.exists() and json.loads(state.read_bytes())["partitions"]):
        assert time.monotonic() < until
        time.sleep(0.02)


def content_of(state: Path) -> bytes | None:
    return state.read_bytes() if state.exists() else None


@pytest.mark.fuzz
def test_killing_kdump_loses_and_repeats_nothing(cluster: Cluster) -> None:
    rng = random.Random(SEED)
    killed = rounds = 0
    while killed < KILLS:
        name = f"ours{rounds}"
        command = [*cluster.target(name), "--rate", "2MiB"]
        state = cluster.folder / f"{name}.state"
        while True:
            known = content_of(state)
            with subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
            ) as running:
                # To be killed at any moment, but as a rule after it sent more: else a machine
                # on which a start takes long would have it killed before each time.
                if known is None or rng.random() < 0.8:
                    while running.poll() is None and content_of(state) == known:
                        time.sleep(0.02)
                try:
                    running.wait(rng.uniform(0, 1.5))
                except subprocess.TimeoutExpired:
                    running.kill()
                    killed += 1
                assert running.stderr is not None
                told = running.stderr.read()
            if running.returncode == 0:
                break
            assert running.returncode == -9, told
        cluster.assert_whole(name)
        rounds += 1
    print(f"{cluster.broker.version}: {killed} kills of kdump in {rounds} productions")


@pytest.mark.fuzz
def test_killing_the_broker_loses_and_repeats_nothing(cluster: Cluster) -> None:
    rng = random.Random(SEED)
    killed = rounds = resumed = 0
    slowness = 1.0  # where starts take long, so does all that is to be killed in the midst of
    while killed < KILLS:
        name = f"theirs{rounds}"
        command = [*cluster.target(name), "--rate", "250KiB" if LONG else "1MiB"]
        while True:
            # It may have had to take another port.
            command[command.index("--bootstrap-server") + 1] = cluster.address
            with subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
            ) as running:
                wait_for(cluster.folder / f"{name}.state")
                while running.poll() is None:
                    time.sleep(rng.choice((4, 12)) * rng.random() * slowness)
                    cluster.broker.run("kill")
                    killed += 1
                    began = time.monotonic()
                    cluster.broker.start()
                    slowness = max(1.0, (time.monotonic() - began) / _START_SECONDS)
                assert running.stderr is not None
                told = running.stderr.read()
            if running.returncode == 0:
                break
            assert running.returncode == 1, told
            resumed += 1
        cluster.assert_whole(name)
        rounds += 1
    told = f"{killed} kills of the broker in {rounds} productions, {resumed} of them resumed"
    print(f"{cluster.broker.version}: {told}")
