"""What the disks of an incident show, as the broker's own decoders read them, for `check.py`.

DumpLogSegments prints every record of the internal topics, and the batches of the others. From its
lines, names of files and checkpoints alone the events follow: nothing here is kdump's.
"""

import itertools
import json
import os
import re
import subprocess
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from incidents import NODES
from node_starts import class_path

METADATA, OFFSETS, STATE = "__cluster_metadata", "__consumer_offsets", "__transaction_state"
_DECODERS = {
    METADATA: "--cluster-metadata-decoder",
    OFFSETS: "--offsets-decoder",
    STATE: "--transaction-log-decoder",
}
_BATCH = re.compile(
    r"baseOffset: (\d+) lastOffset: (\d+) count: (-?\d+) .*?producerId: (-?\d+) "
    r"producerEpoch: (-?\d+) partitionLeaderEpoch: (-?\d+) isTransactional: (\w+) isControl: (\w+)"
    r".*? position: (\d+) (\w+): (-?\d+) "
)
_RECORD = re.compile(r"\| offset: (\d+) ")


class Batch(NamedTuple):
    """A line of a batch, and its records: offset, key, value, what else stands there."""

    base: int
    last: int
    count: int
    producer: int
    producer_epoch: int
    epoch: int
    transactional: bool
    control: bool
    position: int
    by_broker: bool
    at_ms: int
    path: str
    records: list[tuple[int, Any, Any, str]]


def tools() -> str | None:
    """Give the class path of DumpLogSegments of 4.4.0; None where it is not at hand."""
    if named := os.environ.get("KDUMP_KAFKA_TOOLS"):
        return named
    jars = class_path("4.4.0")
    clients = next(one for one in jars.split(":") if "/kafka-clients-4.4.0.jar" in one)
    jar = clients.replace("kafka-clients", "kafka-tools")
    return f"{jars}:{jar}" if Path(jar).exists() else None


def dump_logs(paths: list[Path], decoder: str | None = None) -> dict[Path, list[Batch]]:
    """Have the broker's classes print logs."""
    found: dict[Path, list[Batch]] = {path: [] for path in paths}
    if not paths:
        return found
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", str(tools())]
    command += ["org.apache.kafka.tools.DumpLogSegments", "--files", ",".join(map(str, paths))]
    command += [decoder] if decoder else []
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    path = paths[0]
    for line in done.stdout.splitlines():
        if line.startswith("Dumping "):
            path = Path(line[8:])
        elif at := _BATCH.match(line):
            base, last, count, producer, of, epoch, tx, control, position, kind, ms = at.groups()
            found[path].append(
                Batch(
                    int(base), int(last), int(count), int(producer), int(of), int(epoch),
                    tx == "true", control == "true", int(position), kind == "LogAppendTime",
                    int(ms), str(path), [],
                )
            )  # fmt: skip
        elif at := _RECORD.match(line):
            key, value = _json(line, " key: "), _json(line, " payload: ")
            found[path][-1].records.append((int(at[1]), key, value, line))
    return found


def _json(line: str, word: str) -> Any:
    at = line.find(word + "{")
    return None if at < 0 else json.JSONDecoder().raw_decode(line[at + len(word) :])[0]


class Truth:
    """Reads the directories of those nodes of an incident whose disks are left."""

    def __init__(self, directory: Path, nodes: tuple[int, ...] = NODES) -> None:
        self.directory = directory
        self._nodes = nodes
        self.story = json.loads((directory / "story.json").read_text())
        self.events: list[dict[str, Any]] = []
        began = self.story["steps"][0]["from_ms"] - 600_000
        self._since = {
            int(node): [(max(begin, began), ahead) for begin, ahead in since]
            for node, since in self.story["clocks"].items()
        }
        self._controllers: dict[int, int] = {}
        self._leaders: dict[tuple[str, int, int], int] = {}
        self._changes: dict[tuple[str, int, int], tuple[int, int]] = {}
        self._names: dict[str, str] = {}
        self._before = 0

    def ahead(self, node: int) -> list[int]:
        """By how much a clock was ahead, one time after the other."""
        return [ahead for _, ahead in self._since[node]]

    def true_ms(self, node: int, at_ms: int) -> int:
        """When a clock showed a time; of two moments, the first behind what was told before."""
        since = self._since[node]
        ends = [begin for begin, _ in since[1:]] + [1 << 60]
        able = [
            at_ms - ahead
            for (begin, ahead), end in zip(since, ends, strict=True)
            if begin - 50 <= at_ms - ahead < end + 50
        ]
        later = [one for one in able if one >= self._before - 500] or able
        assert later, (node, at_ms, since)
        self._before = max(self._before, later[0])
        return later[0]

    def _add(
        self, words: str, subject: str, where: list[dict[str, Any]], clock: str = "none",
        of: int | None = None, at_ms: int | None = None, *, on: Iterable[int],
        node: int | None = None, required: bool = True, text: str = "",
        at: list[Any] | None = None,
    ) -> None:  # fmt: skip
        true = None if of is None or at_ms is None else self.true_ms(of, at_ms)
        self.events.append(
            {
                "id": len(self.events) + 1, "words": words.split("|"), "subject": subject,
                "where": where, "node": node, "clock": clock, "clock_of": of,
                "recorded_ms": at_ms, "true_ms": true, "required": required, "text": text,
                "at": at or [], "on": sorted(on),
            }
        )  # fmt: skip

    def write(self, to: Path) -> None:
        """Write `expected/` as the corpus has it."""
        logs = {node: self._logs(node) for node in self._nodes}
        self._metadata(self._joined(logs, METADATA))
        internal = [one for one in self._partitions(logs) if one[0] in (OFFSETS, STATE)]
        for topic, partition in internal:
            batches = self._joined(logs, topic, partition)
            self._before = 0
            (self._groups if topic == OFFSETS else self._transactions)(partition, batches)
        self._hanging(logs)
        for node in self._nodes:
            self._own(node, logs[node])
        expected = to / "expected"
        expected.mkdir(parents=True)
        _lines(expected / "events.jsonl", self.events)
        _lines(expected / "truth.jsonl", self._steps())
        offsets = {node: self.ahead(node)[-1] for node in NODES}
        possible = self._possible(logs)
        _lines(
            expected / "possible.jsonl",
            ({"ahead": pair[1], "of": pair[0], "ms": most} for pair, most in possible.items()),
        )
        (expected / "clocks.json").write_text(json.dumps({"offsets_ms": offsets}))

    def _logs(self, node: int) -> dict[tuple[str, int], list[Batch]]:
        root = self.directory / f"node-{node}"
        found: dict[tuple[str, int], list[Batch]] = {}
        by_decoder: dict[str | None, list[Path]] = defaultdict(list)
        for path in sorted(root.glob("*-*/*.log")):
            topic = path.parent.name.rpartition("-")[0]
            if not path.parent.name.endswith("-delete"):
                by_decoder[_DECODERS.get(topic)].append(path)
        for decoder, paths in by_decoder.items():
            for path, batches in dump_logs(paths, decoder).items():
                topic, _, partition = path.parent.name.rpartition("-")
                found.setdefault((topic, int(partition)), []).extend(batches)
        return found

    def _partitions(self, logs: dict[int, Any]) -> list[tuple[str, int]]:
        return sorted({one for node in logs for one in logs[node]})

    def _joined(
        self, logs: dict[int, Any], topic: str, partition: int = 0
    ) -> list[tuple[Batch, list[int]]]:
        """Give every batch once, with the nodes that have it."""
        on: dict[tuple[int, int], list[int]] = defaultdict(list)
        kept: dict[tuple[int, int], Batch] = {}
        for node in self._nodes:
            for batch in logs[node].get((topic, partition), ()):
                on[batch.base, batch.epoch].append(node)
                kept.setdefault((batch.base, batch.epoch), batch)
        return [(kept[one], on[one]) for one in sorted(kept)]

    # The metadata log.

    def _metadata(self, batches: list[tuple[Batch, list[int]]]) -> None:
        partitions: dict[tuple[str, int], dict[str, Any]] = {}
        brokers: dict[int, dict[str, Any]] = {}
        for batch, on in batches:
            for offset, _, value, line in batch.records:
                if led := _json(line, " LeaderChange: "):
                    self._controllers[batch.epoch] = led["leaderId"]
                of = self._controllers.get(batch.epoch)
                where = [{"topic": METADATA, "partition": 0, "offset": offset}]
                at = [[f"{METADATA}-0/{Path(batch.path).name}", batch.position]]
                add = partial(
                    self._add, where=where, clock="controller", of=of, at_ms=batch.at_ms, on=on,
                    at=at, text=line[line.find("payload") :][:200],
                )  # fmt: skip
                if led:
                    add("leader|epoch", f"{METADATA}-0")
                elif value is not None:
                    self._said(
                        value["type"], value["data"], partitions, brokers, (of, batch.at_ms), add
                    )

    def _said(
        self,
        kind: str,
        data: dict[str, Any],
        partitions: dict[Any, Any],
        brokers: Any,
        when: Any,
        add: Any,
    ) -> None:
        if kind == "TOPIC_RECORD":
            self._names[data["topicId"]] = data["name"]
            add("topic-create", data["name"])
        elif kind == "REMOVE_TOPIC_RECORD":
            add("topic-delete", self._names[data["topicId"]])
        elif kind == "PARTITION_RECORD":
            key = data["topicId"], data["partitionId"]
            partitions[key] = dict(data)
            self._led(data, data, when)
            add("leader|isr|topic-create", self._subject(key), required=False)
        elif kind == "PARTITION_CHANGE_RECORD":
            key = data["topicId"], data["partitionId"]
            self._changed(key, partitions[key], data, when, add)
        elif kind == "REGISTER_BROKER_RECORD":
            number = data["brokerId"]
            before = brokers.get(number)
            if before is not None and before["incarnation"] == data["incarnationId"]:
                return  # it says again who it is, as to another controller
            clean = before is None or before["down"]
            words = "start-clean|start-unclean" if before is None else (
                "start-clean" if clean else "start-unclean")  # fmt: skip
            brokers[number] = {"down": False, "fenced": False, "incarnation": data["incarnationId"]}
            add(words, str(number), node=number)
        elif kind in ("BROKER_REGISTRATION_CHANGE_RECORD", "FENCE_BROKER_RECORD",
                      "UNFENCE_BROKER_RECORD"):  # fmt: skip
            number = data.get("brokerId", data.get("id"))
            broker = brokers[number]
            fenced = data.get("fenced", {"F": 1, "U": -1}.get(kind[0], 0))
            if data.get("inControlledShutdown", 0) == 1:
                broker["down"] = True
                add("stop", str(number), node=number)
            elif fenced == 1:
                add("stop", str(number), required=not broker["down"], node=number)
                # One that is fenced again had been let go at once when it asked to stop.
                broker["down"] |= broker["fenced"]
                broker["fenced"] = True
            elif fenced == -1:
                broker["fenced"] = False
                add("start-clean|start-unclean", str(number), required=False, node=number)
        elif kind == "CONFIG_RECORD":
            name = data["resourceName"]
            add("config", name or "cluster")
        elif kind == "FEATURE_LEVEL_RECORD":
            add("feature", data["name"])
        elif kind == "CLIENT_QUOTA_RECORD":
            add("quota", data["entity"][0]["entityName"])
        elif kind == "ACCESS_CONTROL_ENTRY_RECORD":
            add("acl", data["principal"])

    def _subject(self, key: tuple[str, int]) -> str:
        return f"{self._names[key[0]]}-{key[1]}"

    def _led(self, partition: dict[str, Any], data: dict[str, Any], when: Any) -> None:
        epoch = partition["leaderEpoch"]
        self._changes[data["topicId"], data["partitionId"], epoch] = when
        self._leaders[data["topicId"], data["partitionId"], epoch] = partition["leader"]

    def _changed(
        self,
        key: tuple[str, int],
        before: dict[str, Any],
        data: dict[str, Any],
        when: Any,
        add: Any,
    ) -> None:
        subject = self._subject(key)
        lists = ("replicas", "addingReplicas", "removingReplicas")
        moved = [
            name for name in lists
            if data.get(name) is not None and data[name] != (before.get(name) or [])
        ]  # fmt: skip
        isr = data.get("isr")
        other_isr = isr is not None and set(isr) != set(before["isr"])
        leader = data.get("leader", -2)
        other_leader = leader not in (-2, before["leader"])
        for word, changed in (("leader", other_leader), ("isr", other_isr), ("reassign", moved)):
            if changed:
                add(word, subject)
        add("leader|isr|reassign|epoch", subject, required=False)
        for name in (*lists, "isr"):
            if data.get(name) is not None:
                before[name] = data[name]
        if leader != -2:
            before["leader"] = leader
            before["leaderEpoch"] += 1
            self._led(before, data, when)

    # The coordinators' topics.

    def _leader(self, topic: str, partition: int, epoch: int) -> int | None:
        ids = [one for one, name in self._names.items() if name == topic]
        return self._leaders.get((ids[-1], partition, epoch)) if ids else None

    def _records(
        self, topic: str, partition: int, batches: list[tuple[Batch, list[int]]]
    ) -> Iterator[tuple[Batch, Any, Any, Any]]:
        for batch, on in batches:
            of = self._leader(topic, partition, batch.epoch)
            for offset, key, value, _ in batch.records:
                where = [{"topic": topic, "partition": partition, "offset": offset}]
                at = [[f"{topic}-{partition}/{Path(batch.path).name}", batch.position]]

                tell = partial(
                    self._add, where=where, clock="coordinator", of=of, at_ms=batch.at_ms, on=on,
                    at=at,
                )  # fmt: skip
                yield batch, key, value, tell

    def _groups(self, partition: int, batches: list[tuple[Batch, list[int]]]) -> None:
        known: dict[tuple[str, str, int], int] = {}
        pending: dict[int, list[Any]] = defaultdict(list)
        for batch, key, value, add in self._records(OFFSETS, partition, batches):
            if batch.control:
                for name, offset, tell in pending.pop(batch.producer, ()):
                    self._committed(known, name, offset, tell, ends=batch.records[0][3])
                continue
            if key is None:
                continue
            data = key["data"]
            group = data.get("group", data.get("groupId"))
            if key["type"] in ("0", "1"):
                name = group, data["topic"], data["partition"]
                if value is None:
                    known.pop(name, None)
                elif batch.transactional:
                    pending[batch.producer].append((name, value["data"]["offset"], add))
                else:
                    self._committed(known, name, value["data"]["offset"], add)
            else:
                asked = key["type"] in ("2", "3", "5") and value is not None
                add("member|rebalance|group-empty", group, required=asked)

    def _committed(
        self, known: dict[Any, int], name: Any, offset: int, add: Any, ends: str = "COMMIT"
    ) -> None:
        if "COMMIT" not in ends.upper():
            return
        before = known.get(name)
        known[name] = offset
        text = f"{name[1]}-{name[2]} = {offset}"
        if before is not None and offset < before:
            add("commit-back", name[0], text=text)
        add("commit", name[0], required=before is None or offset >= before, text=text)

    def _transactions(self, partition: int, batches: list[tuple[Batch, list[int]]]) -> None:
        last: dict[str, tuple[str, Any]] = {}
        for _, key, value, add in self._records(STATE, partition, batches):
            if key is None:
                continue
            name = key["data"]["transactionalId"]
            if value is None:
                last.pop(name, None)
                continue
            status = value["data"]["transactionStatus"]
            again = last.get(name, ("",))[0] == status
            words = {
                "Ongoing": "transaction-begin", "Empty": "transaction-begin",
                "PrepareCommit": "transaction-commit", "CompleteCommit": "transaction-commit",
                "PrepareAbort": "transaction-abort", "CompleteAbort": "transaction-abort",
                "PrepareEpochFence": "transaction-abort",
            }.get(status)  # fmt: skip
            asked = status in ("Ongoing", "PrepareCommit", "PrepareAbort") and not again
            if words:
                add(words, name, required=asked, text=status)
            if not again:
                last[name] = status, add
        for name, (status, add) in last.items():
            if status == "Ongoing":
                add("transaction-hangs", name, required=False)

    # User topics, and what each node did for itself.

    def _hanging(self, logs: dict[int, Any]) -> None:
        for topic, partition in self._partitions(logs):
            if topic == METADATA:
                continue
            batches = self._joined(logs, topic, partition)
            open_: dict[int, tuple[Batch, list[int]]] = {}
            for batch, on in batches:
                if batch.control:
                    open_.pop(batch.producer, None)
                elif batch.transactional:
                    open_.setdefault(batch.producer, (batch, on))
            for batch, on in open_.values():
                where = [{"topic": topic, "partition": partition, "offset": batch.base}]
                self._add("transaction-hangs", "?", where, "client", on=on)

    def _own(self, node: int, logs: dict[tuple[str, int], list[Batch]]) -> None:
        root = self.directory / f"node-{node}"
        starts, cleaned = (
            _checkpoint(root / f"{name}-offset-checkpoint") for name in ("log-start", "cleaner")
        )
        snapshots = sorted(root.glob(f"{METADATA}-0/*.checkpoint"))
        where: list[dict[str, Any]] = [{"path": "meta.properties"}]
        where += [{"path": f"{METADATA}-0/{path.name}"} for path in snapshots[:1]]
        made = (root / "meta.properties").stat().st_mtime_ns // 1_000_000
        self._before = 0
        self._add("format", str(node), where, "file", node, made, on=[node], node=node)
        end = [{"path": ".kafka_cleanshutdown"}]
        self._add("stop", str(node), end, "file", node, on=[node], node=node, required=False)
        for (topic, partition), batches in logs.items():
            subject = f"{topic}-{partition}"
            paths = sorted((root / subject).glob("*.log"))
            bases = [int(path.stem) for path in paths]

            def add(
                words: str, offsets: Iterable[int], *paths: str, required: bool = True,
                topic: str = topic, partition: int = partition,
            ) -> None:  # fmt: skip
                where: list[dict[str, Any]] = [
                    {"topic": topic, "partition": partition, "offset": one} for one in offsets
                ]
                where += [{"path": f"{topic}-{partition}/{one}"} for one in paths]
                subject = f"{topic}-{partition}"
                self._add(words, subject, where, on=[node], node=node, required=required)

            for base in bases:
                add("roll", [base], required=base != bases[0])
            start = starts.get((topic, partition), 0)
            if bases and bases[0] > 0 and start <= bases[0]:
                add("retention", [bases[0]], f"{bases[0]:020}.log")
            if bases and start > bases[0]:
                add("delete", [start])
            clean = cleaned.get((topic, partition), 0)
            below = sum(max(one.count, 0) for one in batches if one.last < clean)
            if clean and below < clean - (bases[0] if bases else 0):
                add("clean", [clean, *bases])
            add("epoch", sorted({one.base for one in batches}), required=False)
            for path in sorted((root / subject).glob("*.deleted")):
                add("retention|clean|roll", [], path.name, required=False)
        for path in sorted(root.glob("*-delete")):
            topic = path.name.rpartition(".")[0].rpartition("-")[0]
            where = [{"path": path.name}]
            self._add("topic-delete", topic, where, on=[node], node=node, required=False)

    def _possible(self, logs: dict[int, Any]) -> dict[tuple[int, int], int]:
        """By how much a clock is ahead of another at most, by records alone."""
        most: dict[tuple[int, int], int] = {}

        def tie(first: int | None, first_ms: int, second: int | None, second_ms: int) -> None:
            if first is not None and second is not None and first != second:
                gap = second_ms - first_ms
                most[first, second] = min(gap, most.get((first, second), gap))

        ends: dict[tuple[int, int], dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
        for topic, partition in self._partitions(logs):
            joined = self._joined(logs, topic, partition)
            before: Batch | None = None
            for batch, _ in joined:
                if not (batch.by_broker or batch.control or topic.startswith("__")):
                    continue
                of = self._by(topic, partition, batch.epoch)
                producer = batch.producer, batch.producer_epoch
                if before is None or before.epoch != batch.epoch:
                    if before is not None:
                        tie(self._by(topic, partition, before.epoch), before.at_ms, of, batch.at_ms)
                    ids = [one for one, name in self._names.items() if name == topic]
                    said = self._changes.get((*ids[-1:], partition, batch.epoch))
                    if said is not None:
                        tie(*said, of, batch.at_ms)
                before = batch
                if batch.control and topic != METADATA:
                    ends[producer]["marker"].append((of, batch.at_ms))
                for _, key, value, _ in batch.records if topic == STATE else ():
                    if key is not None and value is not None:
                        said = value["data"]
                        producer = said["producerId"], said["producerEpoch"]
                        ends[producer][said["transactionStatus"][:7]].append((of, batch.at_ms))
        for found in ends.values():
            if len(found["Prepare"]) == len(found["Complet"]) == 1:
                for marker in found["marker"]:
                    tie(*found["Prepare"][0], *marker)
                    tie(*marker, *found["Complet"][0])
        for over, first, second in itertools.product(NODES, repeat=3):
            if first != second and (first, over) in most and (over, second) in most:
                gap = most[first, over] + most[over, second]
                most[first, second] = min(gap, most.get((first, second), gap))
        return most

    def _by(self, topic: str, partition: int, epoch: int) -> int | None:
        known = self._controllers.get(epoch)
        return known if topic == METADATA else self._leader(topic, partition, epoch)

    def _steps(self) -> Iterator[dict[str, Any]]:
        """Find the events of every step of the story."""
        times = sorted(
            (event["true_ms"], event["id"]) for event in self.events if event["true_ms"] is not None
        )
        for number, step in enumerate(self.story["steps"], 1):
            found: list[int] = []
            for words, subject in step["shows"]:
                low = bisect_left(times, (step["from_ms"] - 100, 0))
                high = bisect_left(
                    times,
                    (step["to_ms"] + 60_000 * (step["kind"] in ("start", "kill")) + 15_000, 0),
                )
                able = [
                    one
                    for _, one in itertools.islice(times, low, high)
                    if set(words.split("|")) & set(self.events[one - 1]["words"])
                    and subject == self.events[one - 1]["subject"]
                ]
                able.sort(key=lambda one: not self.events[one - 1]["required"])
                found += able[:1]
                if not able:
                    found = []
                    break
            yield {
                "n": number, **{name: step[name] for name in ("kind", "subject")},
                "events": found, "places": [self.events[one - 1]["where"][0] for one in found],
                "true_from_ms": step["from_ms"], "true_to_ms": step["to_ms"],
                "scored": bool(found), "missing": bool(step["shows"]) and not found,
            }  # fmt: skip


def _checkpoint(path: Path) -> dict[tuple[str, int], int]:
    found = {}
    for line in path.read_text().splitlines()[2:] if path.exists() else ():
        topic, partition, offset = line.rsplit(" ", 2)
        found[topic, int(partition)] = int(offset)
    return found


def _lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
