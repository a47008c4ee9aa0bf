"""Start a real broker on a node's directories as they lie, and read from its log what came of it.

Unlike the program that starts brokers, nothing is formatted, mended or taken over before.
"""

import importlib.machinery
import importlib.util
import io
import lzma
import os
import re
import shutil
import signal
import subprocess
import tarfile
import time
from functools import cache, lru_cache
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import maven_brokers
from broker_box import Broker, program

from kdump.storage.properties import java_properties

_STARTED = re.compile(r"Kafka Server started|\[?(?:KafkaServer id=|Kafka Server )\d+\]?,? started")
_FATAL = re.compile(
    r"(?:^| )(?:FATAL|ERROR) .*(?:[Ff]atal|FATAL|Exiting Kafka|Prepare to shutdown|"
    r"[Ss]hutdown broker|Encountered|Stopping serving logs in dir|Unexpected|Disk error|Shutdown)"
)
_THROWN = re.compile(r"^(?:Caused by: )?((?:[a-z_]\w*\.)+[A-Z]\w*(?:\$\w+)*)(?:: (.*))?$")
#: What is thrown, and logged, in the course of any start, or as it is taken back.
_PASSING = re.compile(
    r"No replica for partition|NotController|active controller appears|RaftManager\.apiVersions\(\)"
)
_FAILED = re.compile(r"Stopping serving logs in dir (\S+)")
#: Nodes that brokers left, and what came of starting them when something was changed.
NODES = Path(__file__).parents[1] / "broker/nodes"


@cache
def box() -> ModuleType:
    """Load the program that starts brokers, for its class paths and ports."""
    loader = importlib.machinery.SourceFileLoader("broker_program", str(program()))
    spec = importlib.util.spec_from_loader("broker_program", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


class Node:
    """The directories of a broker that is stopped, and its settings; `directory` holds them all."""

    def __init__(self, directory: Path, version: str) -> None:
        self.directory = directory
        self.version = version
        self.kraft = version.startswith(("3.", "4."))
        self.settings = dict(
            java_properties((directory / "d1.broker/server.properties").read_text())
        )
        self.cluster = self.meta().get("cluster.id")
        self.run_before: list[str] = []  # a program that the broker is run by
        self.held: list[subprocess.Popen[bytes]] = []

    def release(self) -> None:
        """End what holds a lock."""
        for process in self.held:
            process.communicate()

    @property
    def first(self) -> Path:
        return self.directory / "d1"

    @property
    def second(self) -> Path:
        return self.directory / "d2"

    @property
    def metadata(self) -> Path:
        return self.first / "__cluster_metadata-0"

    @property
    def server_properties(self) -> Path:
        return self.directory / "d1.broker/server.properties"

    def meta(self, directory: Path | None = None) -> dict[str, str]:
        return dict(java_properties(((directory or self.first) / "meta.properties").read_text()))

    def write_meta(self, changed: dict[str, str | None], directory: Path | None = None) -> None:
        kept = {n: v for n, v in (self.meta(directory) | changed).items() if v is not None}
        text = "".join(f"{name}={value}\n" for name, value in kept.items())
        ((directory or self.first) / "meta.properties").write_text(text)

    def write_settings(self) -> None:
        text = "".join(f"{name}={value}\n" for name, value in self.settings.items())
        self.server_properties.write_text(text)

    def copy(self, to: Path) -> "Node":
        """Copy all of it; settings name the copy."""
        shutil.copytree(self.directory, to)
        node = Node(to, self.version)
        old, new = str(self.directory), str(to)
        node.settings = {name: text.replace(old, new) for name, text in node.settings.items()}
        node.write_settings()
        return node


class Start(NamedTuple):
    """What came of a start; `sentences` are those of what was thrown, the fatal one first."""

    outcome: str
    status: int | None
    sentences: list[str]
    log: str
    offline: list[str]  # the names of the data directories that failed


@lru_cache(4)  # nodes follow each other by release
def _archive(path: Path) -> tuple[tarfile.TarFile, list[tarfile.TarInfo], dict[str, bytes]]:
    """Open an archive, and give its members, and of large ones what comes before zeros."""
    with lzma.open(path) as file:
        archive = tarfile.open(fileobj=io.BytesIO(file.read()))  # noqa: SIM115
    members, written = archive.getmembers(), {}
    for member in members:
        if member.size >= 1 << 20:
            stored = archive.extractfile(member)
            assert stored is not None
            written[member.name] = stored.read().rstrip(b"\0")
    return archive, members, written


def unpack_node(version: str, directories: int, to: Path, *, full: bool = False) -> Node:
    """Unpack a node that a broker of this version left, cleanly stopped.

    `full`: with segments, producers and transactions; a release without such a node is given one
    of 2.4.1 or 3.3.2 to upgrade.
    """
    kind = "full" if full else "one" if directories == 1 else "two"
    path = NODES / f"{version}-{kind}.tar.xz"
    if not path.exists():
        path = NODES / f"{'2.4.1' if version.startswith('2.') else '3.3.2'}-{kind}.tar.xz"
    archive, members, written = _archive(path)
    for member in members:
        if member.name not in written:
            archive.extract(member, to, filter="fully_trusted")  # ours; other filters are slow
        else:  # an index that a broker allocated: the zeros at its end become a hole
            (to / member.name).write_bytes(written[member.name])
            os.truncate(to / member.name, member.size)
            os.utime(to / member.name, (member.mtime, member.mtime))
    node = Node(to, version)
    node.settings = {name: re.sub("@(?=/)", str(to), text)
                     for name, text in node.settings.items()}  # fmt: skip
    node.write_settings()
    return node


def seed(directory: Path, version: str, *, directories: int = 1, stop: str = "stop") -> Node:
    """Let a new broker write a topic, and stop it."""
    dirs = [directory / f"d{number + 1}" for number in range(directories)]
    broker = Broker(dirs[0], version)
    more = [f"--dir={each}" for each in dirs[1:]]
    if version.startswith("4."):
        more.append("--set=metadata.log.max.record.bytes.between.snapshots=100")
    done = broker.run("start", "--version", version, "--owner", str(os.getpid()), *more)
    assert done.returncode == 0, done.stderr
    broker.ask(
        {"op": "create_topic", "topic": "orders", "partitions": 4},
        {"op": "produce", "topic": "orders", "count": 50},
    )
    broker.run(stop)
    return Node(directory, version)


def class_path(version: str) -> str:
    """Give the class path of a release: that of the program, or from Maven."""
    known = version in box().KINDS
    return str(box().build(version)) if known else maven_brokers.class_path(version)


def start(node: Node, *, seconds: float = 60, end: signal.Signals = signal.SIGKILL) -> Start:
    """Start the node's broker, wait until it is up or has ended, and end it by a signal."""
    program_ = box()
    ports, locks = [], []
    for _ in range(2):
        port, lock = program_.take_port(None, ())
        ports.append(str(port))
        locks.append(lock)
    text = node.server_properties.read_text()
    before = dict.fromkeys(re.findall(r"127\.0\.0\.1:(\d+)", text))
    for old, new in zip(before, ports, strict=False):
        text = text.replace(f"127.0.0.1:{old}", f"127.0.0.1:{new}")
    node.server_properties.write_text(text)
    state = node.server_properties.parent
    jvm = {"broker.ttl": 300, "broker.owner": os.getpid(), "kafka.logs.dir": state}
    if node.kraft:
        simple = "org.slf4j.simpleLogger."
        jvm |= {f"{simple}defaultLogLevel": "info", f"{simple}showThreadName": "false",
                f"{simple}logFile": "System.out", f"{simple}showShortLogName": "true"}  # fmt: skip
    else:
        zk = dict(java_properties(text))["zookeeper.connect"].rpartition(":")[2]
        jvm |= {"log4j.configuration": f"file:{program().parent}/log4j.properties",
                "broker.zk.port": zk, "broker.zk.dir": state / "zookeeper"}  # fmt: skip
        # A broker of 0.10 cannot draw an id of its own on a new Java.
        jvm["broker.cluster"] = node.cluster or "kdumpkdumpkdumpkdumpkA"
    command = [*node.run_before, *program_.java("NONE", "-Xmx400m -XX:+UseSerialGC "
               "-XX:TieredStopAtLevel=1 -Xshare:auto"), *([] if node.kraft else program_.OPENS),
               *(f"-D{name}={value}" for name, value in jvm.items()),
               "-cp", class_path(node.version), "Boot",
               str(node.server_properties)]  # fmt: skip
    path = state / "start.log"
    with path.open("w") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=state,
            start_new_session=True,
        )  # fmt: skip
    until, outcome = time.monotonic() + seconds, "hangs"
    while time.monotonic() < until:
        ended = process.poll() is not None
        said = path.read_text("utf-8", "replace")
        if _STARTED.search(said):
            outcome = "starts"
            break
        if ended:
            outcome = "refuses"
            break
        time.sleep(0.1)
    if outcome == "starts":  # what a start leaves to its threads may end it yet
        time.sleep(1.0)
        if process.poll() is not None:
            outcome = "refuses"
    status = process.poll()
    if status is None:
        os.killpg(process.pid, end)
        process.wait(seconds)
    for lock in locks:
        lock.close()
    said = path.read_text("utf-8", "replace")
    failed = {Path(at).name for at in _FAILED.findall(said)}
    return Start(outcome, status, sentences_in(said), said, sorted(failed))


def sentences_in(said: str) -> list[str]:
    """Give the message of each exception in a log, the one that was called fatal first."""
    found: list[str] = []
    fatal: list[str] = []
    is_fatal = False
    for line in said.splitlines():
        if re.search(r"(?:^| )(?:INFO|WARN|ERROR|FATAL) ", line):
            is_fatal = _FATAL.search(line) is not None
        thrown = _THROWN.match(line)
        if thrown is not None and not _PASSING.search(line):
            (fatal if is_fatal else found).append(thrown[2] or thrown[1])
    return list(dict.fromkeys([*fatal, *found]))


def is_same_sentence(foretold: str, sentences: list[str]) -> bool:
    """Whether a foretold sentence is the first that a broker threw.

    Which of two directories was loaded first is left to threads; an enumeration to its hashes; the
    ports of the node were others.
    """
    if not sentences:
        return False
    foretold, real = (
        re.sub(r"(?<=127\.0\.0\.1:)\d+", "PORT", said.strip()) for said in (foretold, sentences[0])
    )
    if foretold.endswith(" Found"):
        return real.startswith(foretold)
    if foretold.startswith("Duplicate log director"):
        return sorted(re.findall(r"[\w/~-]+", foretold)) == sorted(re.findall(r"[\w/~-]+", real))
    return foretold.splitlines()[0] == real


def read_rare_starts(kind: str) -> set[tuple[str, str]]:
    """Name the starts that reach code which hardly any other start reaches: these are always tried.

    Each line has `node` or `full` (of a node with partitions), the release, and what was changed.
    """
    lines = (NODES / "rare_starts.tsv").read_text("utf-8").splitlines()
    found = (line.split("\t") for line in lines)
    return {(name, version) for of, version, name in found if of == kind}
