"""Three real KRaft nodes, each broker and controller, that are frozen, copied, cut and started.

A copy of all directories at a moment is what a loss of power leaves: every file as the page cache
had it, and behind what was flushed it may be cut back.
"""

import os
import random
import signal
import subprocess
import time
from pathlib import Path

from maven_brokers import class_path
from node_starts import box

NODES = (1, 2, 3)
CLUSTER = "threeNodesAAAAAAAAAAAA"
_METADATA = "__cluster_metadata-0"
_SETTINGS = """\
node.id={node}
process.roles={roles}
log.dirs={directory}
controller.listener.names=CONTROLLER
{quorum}
listeners={listeners}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
offsets.topic.replication.factor=3
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
controller.quorum.election.timeout.ms=300
controller.quorum.fetch.timeout.ms=1000
controller.quorum.election.backoff.max.ms=300
replica.lag.time.max.ms=2000
auto.leader.rebalance.enable=false
log.index.size.max.bytes=65536
log.retention.check.interval.ms=3600000
"""
_TIERED = """\
remote.log.storage.system.enable=true
remote.log.storage.manager.class.name=FolderTier
remote.log.storage.manager.impl.prefix=rsm.config.
rsm.config.dir={}
remote.log.metadata.manager.listener.name=PLAINTEXT
rlmm.config.remote.log.metadata.topic.replication.factor=3
rlmm.config.remote.log.metadata.topic.num.partitions=1
remote.log.manager.task.interval.ms=1000
log.retention.check.interval.ms=2000
log.initial.task.delay.ms=1000
"""


class ThreeNodes:
    """A cluster of three in a directory: `n1` to `n3` are data directories.

    `dynamic`: the voters are in the log (KIP-853), else in the settings. `tier`: the folder that is
    the brokers' remote storage. `versions` has nodes of another version than `version`.
    """

    def __init__(
        self, directory: Path, version: str, *, dynamic: bool = False, tier: Path | None = None
    ) -> None:
        self.directory = directory
        self.version = version
        self.versions: dict[int, str] = {}
        self.dynamic = dynamic
        self.tier = tier
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        self._ports: dict[tuple[int, str], int] = {}
        self._locks = []
        for node in NODES:
            for what in ("controller", "broker"):
                port, lock = box().take_port(None, ())
                self._ports[node, what] = port
                self._locks.append(lock)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{self._ports[node, 'broker']}" for node in NODES)

    def data(self, node: int) -> Path:
        return self.directory / f"n{node}"

    def log(self, node: int) -> Path:
        return self.directory / f"n{node}.log"

    def format(self) -> None:
        """Make directories as for a new cluster."""
        ids = ",".join(
            f"{node}@127.0.0.1:{self._ports[node, 'controller']}:directory{node}AAAAAAAAAAAA"
            for node in NODES
        )
        for node in NODES:
            self.storage_tool(
                node, "-t", CLUSTER, *(("--initial-controllers", ids) if self.dynamic else ())
            )

    def storage_tool(self, node: int, *words: str) -> None:
        """Format the directory of one node."""
        tool = "kafka.tools.StorageTool"
        self._java(node, "controller,broker", tool, "format", *words, "-c").communicate()

    def start(self, node: int, roles: str = "broker,controller") -> None:
        self.running[node] = self._java(node, roles, "kafka.Kafka")

    def _java(self, node: int, roles: str, *words: str) -> "subprocess.Popen[bytes]":
        listeners = [f"CONTROLLER://127.0.0.1:{self._ports[node, 'controller']}"]
        if "broker" in roles:
            listeners.append(f"PLAINTEXT://127.0.0.1:{self._ports[node, 'broker']}")
        where = ",".join(f"127.0.0.1:{self._ports[each, 'controller']}" for each in NODES)
        voters = ",".join(f"{each}@127.0.0.1:{self._ports[each, 'controller']}" for each in NODES)
        settings = self.directory / f"n{node}.properties"
        text = _SETTINGS.format(
            node=node, roles=roles, directory=self.data(node), listeners=",".join(listeners),
            quorum=f"controller.quorum.bootstrap.servers={where}" if self.dynamic
            else f"controller.quorum.voters={voters}",
        )  # fmt: skip
        if "broker" not in roles:
            text = "".join(
                line for line in text.splitlines(True) if not line.startswith("inter.broker")
            )
        settings.write_text(text + (_TIERED.format(self.tier) if self.tier else ""))
        simple = "org.slf4j.simpleLogger."
        jvm = {f"{simple}defaultLogLevel": "info", f"{simple}showThreadName": "false",
               f"{simple}logFile": "System.out", "kafka.logs.dir": self.directory}  # fmt: skip
        command = [
            *box().java("NONE", "-Xmx300m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto"),
            *(f"-D{name}={value}" for name, value in jvm.items()),
            "-cp", _class_path(self.versions.get(node, self.version)), *words, str(settings),
        ]  # fmt: skip
        with self.log(node).open("w") as log:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.directory,
                start_new_session=True,
            )  # fmt: skip

    def kill(self, *nodes: int) -> None:
        for node in nodes or tuple(self.running):
            process = self.running.pop(node, None)
            if process is not None:
                process.send_signal(signal.SIGKILL)
                process.wait()

    def close(self) -> None:
        self.kill()
        for lock in self._locks:
            lock.close()

    def frozen(self, to: Path) -> None:
        """Copy the directories of all at one moment."""
        to.mkdir(parents=True)
        for process in self.running.values():
            process.send_signal(signal.SIGSTOP)
        while not all(map(_is_stopped, self.running.values())):
            time.sleep(0.01)
        try:
            for node in NODES:
                subprocess.run(
                    ["cp", "-a", "--sparse=always", self.data(node), to / f"n{node}"], check=True
                )
        finally:
            for process in self.running.values():
                process.send_signal(signal.SIGCONT)

    def leader(self, seconds: float = 40) -> int | None:
        """Wait until one of those that run leads the metadata quorum, and name it."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for node in self.running:
                if "Completed transition to Leader" in self.log(node).read_text("utf-8", "replace"):
                    return node
            time.sleep(0.1)
        return None


def _class_path(version: str) -> str:
    """Give the class path of a version: of the program, or from Maven."""
    path: str = box().build(version) if version in box().KINDS else class_path(version)
    return path


def _is_stopped(process: "subprocess.Popen[bytes]") -> bool:
    """Whether no thread of a process runs any more."""
    return all(
        (task / "stat").read_text().rpartition(")")[2].split()[0] == "T"
        for task in Path(f"/proc/{process.pid}/task").iterdir()
    )


def cut_back(path: Path, draw: random.Random) -> None:
    """Take from the end of the newest log of a partition what was perhaps not flushed."""
    log = max(path.glob("*.log"), default=None)
    if log is None:  # it was just made
        return
    size = log.stat().st_size
    what = draw.random()
    if what < 0.3:
        return
    most = size if what > 0.95 else min(size, 4000)
    os.truncate(log, size - draw.randint(0, most))
