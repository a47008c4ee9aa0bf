"""Every command that kdump prints, over names and contents that a shell would obey."""

import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import DATA, run
from directories import DataDirectory, batches, write_segment
from offsets_log import Log, classic, commit

HOSTILE = [
    "$(>RAN)",
    ";>RAN;",
    "`>RAN`",
    "'\">RAN;'\"",
    "\n>RAN\n",
    "--x\x1b\udcff|>RAN;#",
    "|>RAN",
]
TOOLS = ["kdump", "rm", "mv", "cp", "sed", "chown", "grep", "touch", "kafka-configs.sh"]
TOOLS += ["kafka-consumer-groups.sh", "kafka-delete-records.sh", "kafka-leader-election.sh"]
TOOLS += ["kafka-metadata-quorum.sh", "kafka-storage.sh", "kafka-topics.sh"]
TOOLS += ["kafka-transactions.sh", "kafka-server-stop.sh", "kafka-server-start.sh"]
#: What a user sets before typing a command that replaces files.
DIRECTORIES = ["LOG_DIR", "ASIDE", *(f"METADATA_LOG_DIR_{node}" for node in range(1, 4))]
COMMAND = re.compile(
    r"(?:kafka-[a-z-]+\.sh|kdump (?!again )[a-z-]+|rm -rf?|mv|cp -a|sed -i|chown|# no command:)"
    r"(?: .*|$)",
    re.DOTALL,
)


def make_damaged(directory: Path) -> None:
    """Write a partition with damage inside, at its end, and in an index."""
    write_segment(directory, 0, batches(0, 5) + batches(10, 5), next_offset=20)
    broken = bytearray(batches(20, 5))
    broken[200] ^= 1
    write_segment(directory, 20, bytes(broken), next_offset=30)
    (directory / f"{0:020}.index").write_bytes(b"\0\0\0\5\0\0\0\7" * 2)
    (directory / "leader-epoch-checkpoint").write_text("nonsense")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a data directory whose every name is a line of shell, and stand beside it."""
    made = DataDirectory(tmp_path / "$(>RAN);>RAN")
    made.partition("sound", 0)
    made.stop()
    for name in HOSTILE:
        make_damaged(made.path / f"{name}-0")
    make_damaged(made.path / f"{'a' * 249}-0")
    make_damaged(made.path / "orders-0")
    shutil.copytree(made.path / "orders-0", made.path / f"orders.{'0' * 32}-delete")
    log = Log()
    for name in HOSTILE[:5]:
        log.add(classic(name, 1), commit(name, "orders-0", 5))
        log.add(classic(name, 0))
        log.add(commit(name, "orders-0", 2))
    log.write(made.path / "__consumer_offsets-0")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "20000")
    for module in ("output.escape", "cli.salvage_report", "cli.results"):
        monkeypatch.setattr(f"kdump.{module}.is_terminal", lambda _: True)
    return made.path


def strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from strings(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from strings(one)


def collect_commands(*words: str) -> Iterator[str]:
    """Run a command, and take every command out of what it prints."""
    sys.argv = ["kdump", *words]
    result = run(*words)
    for line in (result.stdout + result.stderr).splitlines():
        texts = [line]
        if line.startswith("{"):
            texts = [*strings(json.loads(line))]
        for text in texts:
            yield from (match.group() for match in COMMAND.finditer(text))


def evaluate(lines: list[str], directory: Path) -> list[list[str]]:
    """Have bash evaluate the lines in an empty directory; return the words of what it ran."""
    stubs, empty, calls = directory / "stubs", directory / "empty", directory / "calls"
    stubs.mkdir(parents=True)
    empty.mkdir()
    for tool in TOOLS:
        stub = stubs / tool
        stub.write_text(
            f"#!/bin/bash\nprintf '%s\\0' {tool} \"$@\" $'\\1' >> {shlex.quote(str(calls))}\n"
        )
        stub.chmod(stub.stat().st_mode | stat.S_IXUSR)
    source = b"".join(os.fsencode(line) + b"\0" for line in lines)
    loop = "while IFS= read -r -d '' line; do eval \"$line\" </dev/null; done"
    done = subprocess.run(
        ["/bin/bash", "-c", loop],
        input=source,
        cwd=empty,
        env={"PATH": str(stubs), "LC_ALL": "C.UTF-8", **{one: one for one in DIRECTORIES}},
        capture_output=True,
        check=False,
    )
    assert done.stderr == b""
    assert {one.name for one in empty.iterdir()} <= {"back.csv"}
    ran = os.fsdecode(calls.read_bytes()).split("\0\1\0")
    return [one.split("\0") for one in ran if one]


def test_printed_commands_never_run_names_from_disk(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other;>RAN;"
    shutil.copytree(root, other)
    for log in other.glob("*/*20.log"):
        log.write_bytes(batches(24, 4))
    lone = tmp_path / "lone"
    shutil.copytree(DATA / "damaged/4.4.0-three-nodes/n3", lone)
    meta = lone / "meta.properties"
    meta.write_text(re.sub("cluster.id=.*", "cluster.id=x$(>RAN)", meta.read_text()))
    here = str(root)
    hang = [*map(str, (DATA / "clean/4.4.0-transactions").iterdir())]
    lines = [
        *collect_commands("verify", "--format", "table", here),
        *collect_commands("predict", "--format", "jsonl", here),
        *collect_commands("verify", "--nagios", here),
        *collect_commands(
            "why", "--format", "jsonl", "--free", "1GiB", "--config", "retention.ms=-1", here
        ),
        *collect_commands("compare", "--format", "table", here, str(other)),
        *collect_commands("elect", here, str(other)),
        *collect_commands("elect", "--topic", "__cluster_metadata", str(lone)),
        *collect_commands("reindex", "--format", "table", here),
        *collect_commands("salvage", "--format", "table", "--topic", ";>RAN;", here),
        *collect_commands("salvage", "--format", "table", "--out", "out;>RAN", f"{root}/sound-0"),
        *collect_commands("groups", "--history", "--format", "table", "--group", HOSTILE[1], here),
        *collect_commands("groups", "--history", "--format", "table", "--group", HOSTILE[4], here),
        *collect_commands("transactions", "--format", "jsonl", *hang),
    ]  # fmt: skip
    ran = evaluate(sorted({*lines}), tmp_path / "bash")
    tools = {words[0] for words in ran}
    assert tools >= {
        *("kdump", "rm", "mv", "cp", "chown", "kafka-consumer-groups.sh", "kafka-server-stop.sh"),
        *("kafka-delete-records.sh", "kafka-leader-election.sh", "kafka-transactions.sh"),
    }
    kafka = [words for words in ran if words[0].startswith("kafka-")]
    assert not any(">RAN" in word for words in kafka for word in words)
    refused = [line for line in lines if line.startswith("# no command: ")]
    assert any("Kafka cannot have a topic named" in line for line in refused)
    assert any("Kafka cannot have the cluster id 'x$(>RAN)'" in line for line in refused)
    paths = {word for words in ran if words[0] == "kdump" for word in words if "RAN" in word}
    assert {path for path in paths if path.startswith(here)}
    assert all(os.path.exists(path) for path in paths if path.endswith((".log", "-0")))  # noqa: PTH110
