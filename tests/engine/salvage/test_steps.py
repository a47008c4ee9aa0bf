"""The commands around a salvage: what is kept, how a topic is created, and what comes later."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kdump.broker.settings import Settings
from kdump.engine.salvage import steps as module
from kdump.engine.salvage.copies import Copy, CopySource, Item
from kdump.engine.salvage.options import SalvageOptions
from kdump.engine.salvage.targets import MissingTopic
from kdump.replay.former_topics import METADATA_LOG, ZOOKEEPER, FormerTopic
from kdump.storage import lock

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
DELETED = "{}." + "0" * 32 + "-delete"


def item(*directories: Path, size_bytes: int = 100) -> Item:
    found = [CopySource(str(each), str(each), "orders", 0) for each in directories]
    return Item("p", "orders", 0, tuple(found), size_bytes)


def fields(rows: Any) -> list[dict[str, Any]]:
    return [dict(row.fields) for row in rows]


def test_files_about_to_be_deleted_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    gone = [data / DELETED.format(f"orders-{number}") for number in range(3)]
    for each in (*gone, data / "orders-7"):
        each.mkdir(parents=True)
    changed_ms = [each.stat().st_ctime_ns // 1_000_000 for each in gone]
    options = SalvageOptions()
    items = [item(*gone[:2], data / "orders-7"), item(gone[2])]
    assert fields(module.keep_steps(items, options)) == []  # nobody ever worked on it
    assert module.list_kept_folders(items) == []
    (data / ".lock").touch()
    kept = tmp_path / "data.kdump-kept"
    command = f"mkdir -p {kept} && cp -al {gone[0]} {gone[1]} {gone[2]} {kept}/"
    what = f"-delete directories in {data}: 3"
    held = [False]
    monkeypatch.setattr(lock, "is_held", lambda _: held[0])
    assert fields(module.keep_steps(items, options)) == [
        {
            "step": "keep",
            "command": command,
            "text": f"{what}. The next start of the broker deletes them. To keep them, create "
            "hard links:",
            "before_ms": None,
        }
    ]
    held[0] = True
    clock = SimpleNamespace(time=lambda: (min(changed_ms) + 55_500) / 1000)
    monkeypatch.setattr(module, "time", clock)
    text = (
        f"{what}. The broker deletes them {{}} s after the topic (log.segment.delete.delay.ms), "
        "the first in about {} s. To keep them, create hard links first, even while the broker "
        "runs:"
    )
    (row,) = fields(module.keep_steps(items, options))
    assert (row["command"], row["before_ms"]) == (command, min(changed_ms) + 60_000)
    assert row["text"] == text.format(60, 4)
    properties = tmp_path / "server.properties"
    for given, delay_ms, told in (
        ("log.segment.delete.delay.ms=90500", 90_500, (90.5, 35)),
        ("log.segment.delete.delay.ms=1500", 1500, (1.5, 0)),
        ("log.segment.delete.delay.ms=-1", 60_000, (60, 4)),
        ("other=1", 60_000, (60, 4)),
    ):
        properties.write_text(given)
        asked = SalvageOptions(server_properties=str(properties))
        (row,) = fields(module.keep_steps(items, asked))
        assert (row["before_ms"], row["text"]) == (min(changed_ms) + delay_ms, text.format(*told))
    monkeypatch.setattr(module, "_name_kept_folder", lambda where: f"{where}/.kdump-kept")
    (row,) = fields(module.keep_steps(items, options))
    assert row["command"].startswith(f"mkdir -p {data}/.kdump-kept && cp -al ")
    assert row["text"] == text.format(60, 4)[:-1] + (
        f", and move {data}/.kdump-kept away before the broker starts again:"
    )
    monkeypatch.undo()
    monkeypatch.setattr(lock, "is_held", lambda _: False)
    for each in gone[:2]:
        (kept / each.name).mkdir(parents=True)
    (row,) = fields(module.keep_steps(items, options))
    assert row["command"] == f"mkdir -p {kept} && cp -al {gone[2]} {kept}/"
    (kept / gone[2].name).mkdir()
    assert fields(module.keep_steps(items, options)) == []
    assert module.list_kept_folders([item(data / "orders-7")]) == []
    assert module.list_kept_folders([*items, item(Path("s3://b") / gone[0].name)]) == [str(kept)]
    assert module._change_ms(str(gone[1])) == changed_ms[1]
    before_ms = int(module.time.time() * 1000)
    assert 0 <= module._change_ms(str(tmp_path / "gone")) - before_ms < 60_000


def test_folder_of_another_file_system_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    devices = {"/mnt": 1, "/mnt/disk": 2, "/mnt/disk/data": 2}

    def stat(path: str) -> Any:
        if path not in devices:
            raise FileNotFoundError
        return SimpleNamespace(st_dev=devices[path])

    monkeypatch.setattr(module.os, "stat", stat)
    monkeypatch.setattr(module.os.path, "realpath", lambda path: path)
    assert module._name_kept_folder("/mnt/disk") == "/mnt/disk/.kdump-kept"
    assert module._name_kept_folder("/mnt/disk/data") == "/mnt/disk/data.kdump-kept"
    assert module._name_kept_folder("/mnt/gone") == "/mnt/gone.kdump-kept"


class Bench:
    """Creates topics of which so much is known; the oldest record of a copy is of some days ago."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.former = FormerTopic()
        self.broker = Settings()
        self.days: Sequence[float] = (1,)
        self.size_bytes = 100
        self.near: list[tuple[list[str], list[str], str | None]] = []
        self.topic_id: str | None = None

        def former_topic(topic: str, topic_id: str | None, near: Any, others: Any) -> FormerTopic:
            assert topic == "orders"
            self.near.append((list(near), list(others), topic_id))
            return self.former

        def topic_settings(*_: object, **more: object) -> Any:
            return SimpleNamespace(of=lambda *_: self.broker)

        monkeypatch.setattr(module, "former_topic", former_topic)
        monkeypatch.setattr(module, "topic_settings", topic_settings)
        monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: NOW_MS / 1000))

    def created(self, **options: Any) -> tuple[str, str, list[str]]:
        """Give the settings that the command has, the text and what comes afterwards."""
        copies = [
            SimpleNamespace(
                found=CopySource("/data/orders-0", "/data/orders-0", "orders", 0),
                path="/data/orders-0",
                topic_id=self.topic_id,
                first_times=lambda: [NOW_MS - int(one * DAY_MS) for one in self.days],
            )
        ]
        source = ("new", item(Path("/data/orders-0"), size_bytes=self.size_bytes), copies)
        afterwards: list[str] = []
        asked = SalvageOptions(produce="b:9092", resume="/s", **options)
        create, again = fields(
            module.create_steps(
                [MissingTopic("new", None, 2, "p")],
                cast("list[tuple[str, Item, list[Copy]]]", [source]),
                ["/data"],
                asked,
                afterwards,
            )
        )
        assert (create["step"], again["step"]) == ("create-topic", "same-command")
        assert (again["command"], again["text"]) == (
            "kdump produce --resume /s", "Then run the same command again:",
        )  # fmt: skip
        head = "kafka-topics.sh --bootstrap-server b:9092 --create --topic new --partitions "
        assert create["command"].startswith(head)
        return create["command"][len(head) :], create["text"], afterwards


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


LATER = "kafka-configs.sh --bootstrap-server b:9092 --alter --entity-type topics --entity-name new "


def test_lossy_settings_are_applied_last(bench: Bench) -> None:
    def split(**settings: Any) -> tuple[str, str]:
        named = {name.replace("_", "."): str(value) for name, value in settings.items()}
        bench.former = FormerTopic(named, 1, 1, METADATA_LOG)
        command, text, afterwards = bench.created()
        assert command.startswith("2 --replication-factor 1")
        told = text.removeprefix(
            "Topic new is not in the cluster. Create it as it was, according to "
        )
        later = "".join(afterwards).removeprefix(LATER)
        assert (
            told == "the metadata log:" if not later else "must be set last (the command is" in told
        )
        return command.removeprefix("2 --replication-factor 1").replace(" --config ", " "), later

    age = DAY_MS
    put_off = (" retention.ms=-1", "--delete-config retention.ms")
    assert split() == ("", "")  # seven days
    bench.broker = Settings(retention_ms=age)
    assert split() == put_off
    bench.broker = Settings(retention_ms=age + 1)
    assert split() == ("", "")
    bench.broker = Settings(retention_ms=age, cleanup_policy="compact")
    assert split() == ("", "")
    assert split(cleanup_policy="delete") == (" cleanup.policy=delete" + put_off[0], put_off[1])
    bench.broker = Settings()
    given = "--add-config retention.ms={}"
    assert split(retention_ms=age) == (" retention.ms=-1", given.format(age))
    assert split(retention_ms=0) == (" retention.ms=-1", given.format(0))
    assert split(retention_ms=age + 1) == (f" retention.ms={age + 1}", "")
    assert split(retention_ms=-1) == (" retention.ms=-1", "")
    assert split(retention_ms="x") == (" retention.ms=x", "")
    assert split(retention_ms=5, cleanup_policy="compact") == (
        " cleanup.policy=compact retention.ms=5", "",
    )  # fmt: skip
    for size in (0, 999):
        assert split(retention_bytes=size) == ("", f"--add-config retention.bytes={size}")
    for size in (-1, 1000):
        assert split(retention_bytes=size) == (f" retention.bytes={size}", "")
    assert split(retention_bytes=9, cleanup_policy="compact") == (
        " cleanup.policy=compact retention.bytes=9", "",
    )  # fmt: skip
    for name in ("before", "difference"):
        setting = {f"message_timestamp_{name}_max_ms": age}
        spelled = f"message.timestamp.{name}.max.ms={age}"
        assert split(**setting) == (f" {spelled}", "")
        bench.days = (0.5, 1.5)
        assert split(**setting) == ("", f"--add-config {spelled}")
        bench.days = ()
        assert split(**setting, retention_ms=0) == (f" {spelled} retention.ms=0", "")
        bench.days = (1,)
    assert split(message_timestamp_type="LogAppendTime", a="x,y") == (
        " a=x,y", "--add-config message.timestamp.type=LogAppendTime",
    )  # fmt: skip
    assert split(message_timestamp_type="CreateTime") == (" message.timestamp.type=CreateTime", "")
    later = {"b": "1,2", "a": "x", "d": None, "c": None}
    assert module.restore_command("b:9092", "new", later) == (
        f"{LATER}--add-config 'a=x,b=[1,2]' --delete-config c,d"
    )


def test_known_topic_settings_are_included(bench: Bench) -> None:
    create = "Topic new is not in the cluster. Create it as it was, according to "
    keeps = "; with retention.ms=-1 it keeps all records until you set another value"
    for known, told in (
        (FormerTopic({}, 3, 2, METADATA_LOG), "the metadata log"),
        (FormerTopic({}, 3, 2, ZOOKEEPER), "files of ZooKeeper"),
        (FormerTopic({}, None, 2, ZOOKEEPER), "files of ZooKeeper (unknown: how many partitions)"),
        (
            FormerTopic(None, 3, None, ZOOKEEPER),
            f"files of ZooKeeper (unknown: its settings, how many replicas){keeps}",
        ),
    ):
        bench.former = known
        command, text, afterwards = bench.created()
        assert (text, afterwards) == (f"{create}{told}:", [])
        words = [str(known.partitions or 2)]
        words += [f"--replication-factor {known.replicas}"] if known.replicas else []
        words += ["--config retention.ms=-1"] if known.settings is None else []
        assert command == " ".join(words)
    bench.former = FormerTopic({"retention.ms": "1", "retention.bytes": "1"}, 1, 1, METADATA_LOG)
    assert bench.created()[1] == (
        f"{create}the metadata log; retention.bytes, retention.ms would lose records or their "
        "times and must be set last (the command is printed when all records have arrived):"
    )
    bench.former = FormerTopic()
    assert bench.created()[1] == (
        "Topic new is not in the cluster. Its settings and replication factor are unknown: "
        "neither a metadata log nor ZooKeeper files in the paths have them. It had 2 or more "
        f"partitions. Create it{keeps}:"
    )
    assert bench.near[-1] == (["/data"], ["/data", "/data"], None)
    bench.topic_id = "A" * 22
    bench.created()
    assert bench.near[-1] == (["/data", "/data"], ["/data", "/data"], "A" * 22)
    bench.near.clear()
    bench.former = FormerTopic({}, 9, 9, METADATA_LOG)
    assert bench.created(topic_configs=False)[0] == "2 --config retention.ms=-1"
    assert bench.near == []


def test_partitions_are_added_to_a_small_topic() -> None:
    options = SalvageOptions(produce="b:9092", command=("kdump", "produce", "--resume=/s", "x"))
    some = [MissingTopic("a", 2, 3, "p"), MissingTopic("b", 0, 1, "q")]
    rows = fields(module.create_steps(some, [], ["x"], options, []))
    head = "kafka-topics.sh --bootstrap-server b:9092 --alter --topic"
    assert [(row["step"], row["command"], row["text"]) for row in rows] == [
        (
            *("create-topic", f"{head} a --partitions 3"),
            "Topic a has 2 partitions in the cluster, and 3 are needed:",
        ),
        (
            *("create-topic", f"{head} b --partitions 1"),
            "Topic b has 0 partitions in the cluster, and 1 are needed:",
        ),
        ("same-command", "kdump produce --resume=/s x", "Then run the same command again:"),
    ]
    assert [row["before_ms"] for row in rows] == [None] * 3
    assert fields(module.restore_steps(["one", "two"])) == [
        {
            "step": "restore-settings",
            "command": command,
            "text": "After all records have arrived, set the remaining settings of the topic:",
            "before_ms": None,
        }
        for command in ("one", "two")
    ]


def test_repeated_command_names_kept_folders(tmp_path: Path) -> None:
    data = tmp_path / "data"
    gone = data / DELETED.format("orders-0")
    gone.mkdir(parents=True)
    (data / ".lock").touch()
    kept = str(tmp_path / "data.kdump-kept")
    copies = cast("list[tuple[str, Item, list[Copy]]]", [("orders", item(gone), [])])
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={data}\n")
    words = ("kdump", "produce", "--produce", "b:9092")
    options = SalvageOptions(resume="/s", command=words)
    head = ("kdump", "produce", "--resume", "/s", "--produce", "b:9092")
    assert module.format_repeat([str(data)], copies, options) == (*head, kept)
    assert module.format_repeat([str(data), kept], copies, options) == head
    assert module.format_repeat([], copies, options) == (*head, kept)
    of_broker = options._replace(server_properties=str(properties))
    assert module.format_repeat([], copies, of_broker) == (*head, kept, str(data))
    assert module.format_repeat(["x"], copies, of_broker) == (*head, kept)
    assert module.format_repeat([], [], of_broker) == head
    resumed = options._replace(command=("kdump", "produce", "--resume", "/t"))
    assert module.format_repeat([], [], resumed) == ("kdump", "produce", "--resume", "/t")
