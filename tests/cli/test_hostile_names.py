"""Names that are no names: what a terminal is sent of them, and what programs read."""

import csv
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import builders
import metadata_log
import offsets_log
import pytest
from commands import DATA, run
from directories import DataDirectory, batches, write_segment
from terminals import find_controls, in_process, on_terminal
from transaction_log import transaction

from kdump.output.escape import TerminalDoor

#: Sets the clipboard, the title and the colour, in seven bits and in eight, and turns the writing.
HOSTILE = b"\x1b]52;c;aGk=\x07\x1b]0;t\x1b\\\x9b31m\xc2\x9b1m\r\n\x7f\xe2\x80\xae\xff"
LINES = "x\norders,5,999999\ny"

DUMPS = [
    f"dump {what} --format {form}"
    for what in ("", "--batches", "--entries")
    for form in ("table", "jsonl", "csv", "kafka")
]
TABLES = ["table", "jsonl", "csv"]
COMMANDS = [
    *DUMPS,
    *(f"info --explain --format {form}" for form in (*TABLES, "markdown")),
    "dump --hex --limit 2",
    "dump --retired --entries",
    *(f"verify --format {form}" for form in TABLES),
    "verify --deep --notes --summary-by broker,topic",
    "predict --notes",
    "verify --quick -q",
    "verify --format reset-csv",
    "verify --nagios",
    *(f"{find} --format {form}" for find in ("find-offset", "find-time") for form in TABLES),
    "find-offset --format reset-csv",
    "find-time --format reset-csv",
    "find-offset --explain --check",
    "find-time --explain --check",
    *(f"reindex --all --format {form}" for form in TABLES),
    "reindex --all --only index,timeindex,txnindex,leader-epochs,checkpoints",
    *(f"usage --by topic,partition --format {form}" for form in TABLES),
    "usage --by key",
    *(f"sequences --explained --format {form}" for form in TABLES),
    *(f"compare --format {form}" for form in TABLES),
    *(f"why --free 1GiB --rolls --format {form}" for form in TABLES),
    *(f"placement --partitioner any --format {form}" for form in TABLES),
    "duplicates --by key,value --format table",
    "salvage --format table",
]
#: On topics of coordinators and of the metadata log, in which strings are as hostile.
INTERNAL = [
    *(f"groups --format {form}" for form in TABLES),
    "groups --history --format table",
    "groups --format reset-csv",
    *(f"transactions --format {form}" for form in TABLES),
    *(f"cluster --format {form}" for form in TABLES),
    "cluster --view zookeeper --format table",
    *(f"dump --format {form}" for form in ("table", "jsonl", "csv", "kafka")),
    "dump --decode raw --format table",
    "predict --format table",
]


def hostile_partition(data: Path, topic: bytes) -> Path:
    """Make a partition of a hostile name, with damage and with files that nobody knows."""
    log = batches(0, 5) + batches(10, 5)
    directory = data / os.fsdecode(topic + b"-0")
    write_segment(directory, 0, log, next_offset=20)
    broken = bytearray(batches(22, 5))
    broken[200] ^= 1
    write_segment(directory, 20, bytes(broken), next_offset=40)
    name = directory / f"{0:020}"
    name.with_suffix(".index").write_bytes(b"\0\0\0\5\0\0\0\7" * 2)
    name.with_suffix(".timeindex").write_bytes(bytes(24))
    name.with_suffix(".txnindex").write_bytes(b"\1" * 34)
    name.with_suffix(".snapshot").write_bytes(b"\1" * 20)
    name.with_suffix(".kafka").write_bytes(b"")
    (directory / os.fsdecode(b"unknown" + HOSTILE)).touch()
    loop(directory, b"loop" + HOSTILE)
    return directory


def internal_topics(root: Path) -> Path:
    """Make topics of coordinators and a metadata log, with hostile groups, ids and settings."""
    text = HOSTILE.decode("utf-8", "replace")
    groups = offsets_log.Log()
    groups.add(offsets_log.classic(text, 1, clientId=text), offsets_log.commit(text, "keys-0", 5))
    groups.add(offsets_log.classic(text, 0))
    groups.add(offsets_log.commit(text, f"{text}-0", 2, metadata=text))
    groups.add(offsets_log.commit(text, "keys-0", 2, metadata=text))
    groups.write(root / "__consumer_offsets-0")
    ids = offsets_log.Log()
    ids.add(transaction(text, "Ongoing", ["keys-0", f"{text}-0"]))
    ids.write(root / "__transaction_state-0")
    records = [
        metadata_log.topic(text, 1), metadata_log.partition(0, 1, [1], [1]),
        metadata_log.register(1, [1]), metadata_log.config(2, text, text, text),
    ]  # fmt: skip
    write_segment(
        root / "__cluster_metadata-0", 0, metadata_log.log_of(records), next_offset=len(records)
    )
    return root


def loop(directory: Path, name: bytes) -> None:
    (directory / os.fsdecode(name)).symlink_to(os.fsdecode(name))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("names") / os.fsdecode(b"disk" + HOSTILE)
    made = DataDirectory(root)
    made.partition("sound", 0)
    made.stop()
    hostile_partition(root, HOSTILE)
    hostile_partition(root, LINES.encode())
    keys = [builders.record(0, 0, HOSTILE, HOSTILE, [(HOSTILE, HOSTILE)])]
    write_segment(root / "keys-0", 0, builders.batch(keys), next_offset=1)
    loop(root, b"no-partition" + HOSTILE)
    loop(root, HOSTILE + b"-7")
    (root / os.fsdecode(b"directory" + HOSTILE)).mkdir()
    (root / "replication-offset-checkpoint").write_bytes(b"0\n1\n" + HOSTILE + b" 0 7\n")
    with (root / "meta.properties").open("ab") as file:
        file.write(b"cluster.id=" + HOSTILE + b"\n")
    return root


def words_of(command: str, *paths: Path) -> list[str]:
    found = [*command.split(), *map(str, paths)]
    if command.startswith("find-offset"):
        found.append("3")
    elif command.startswith("find-time"):
        found.append("earliest")
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_terminal_gets_no_control_sequences(data: Path, command: str) -> None:
    paths = [data]
    if command.startswith("compare"):
        paths.append(data.parent / f"other-{data.name}")
        shutil.rmtree(paths[1], ignore_errors=True)
        shutil.copytree(data, paths[1], symlinks=True)
        for log in paths[1].glob("*/*20.log"):
            log.write_bytes(batches(24, 4))
    status, written = in_process(*words_of(command, *paths))
    assert status in (0, 1, 2, 3, 4)
    assert b"Traceback" not in written
    assert find_controls(written) == []


@pytest.mark.parametrize("command", INTERNAL)
def test_strings_of_internal_topics_are_escaped(tmp_path: Path, command: str) -> None:
    status, written = in_process(*command.split(), str(internal_topics(tmp_path / "data")))
    assert status in (0, 1, 2, 3, 4)
    assert b"Traceback" not in written
    assert find_controls(written) == []


@pytest.mark.parametrize("form", ["table", "markdown"])
def test_plain_lines_are_escaped_in_a_pipe(data: Path, form: str) -> None:
    assert (
        find_controls(run("info", "--format", form, data).stdout.encode("utf-8", "replace")) == []
    )


def test_salvage_manifest_keeps_hostile_names(data: Path, tmp_path: Path) -> None:
    source = tmp_path / os.fsdecode(b"FORGED" + HOSTILE + b"\nLOST: 0-9\n") / "orders-0"
    shutil.copytree(data / "sound-0", source)
    out = tmp_path / "out"
    result = run("salvage", "--out", out, source)
    assert result.exit_code == 0, result.stderr
    page = (tmp_path / "out.manifest.txt").read_bytes()
    assert find_controls(page) == []
    assert not [line for line in page.splitlines() if line.startswith((b"LOST", b"  LOST"))]
    assert b"FORGED\\x1b]52;c;aGk=\\x07" in page
    manifest = json.loads((tmp_path / "out.manifest.json").read_bytes())
    assert {one["path"].startswith(str(source)) for one in manifest["sources"]} == {True}


@pytest.mark.parametrize("colour", [False, True])
def test_hostile_strings_reach_no_terminal(colour: bool) -> None:
    sent = bytearray()
    door = TerminalDoor(sent.extend, colour=colour)
    whole = "\x1b[1;31mred\x1b[0m \x1b]52;c;x\x07 \u202e \x9b ä\n\tplain\n".encode() + b"\xff\r\n"
    for at in range(0, len(whole), 20):
        door.write(whole[at : at + 20])
    red, end = ("\x1b[1;31m", "\x1b[0m") if colour else ("\\x1b[1;31m", "\\x1b[0m")
    told = f"{red}red{end} \\x1b]52;c;x\\x07 \\u202e \\x9b ä\n\tplain\n\\xff\\r\n"
    assert sent.decode() == told


@pytest.mark.parametrize("command", ["dump", "verify --notes", "find-offset --explain"])
def test_colors_are_the_only_sequences(data: Path, command: str) -> None:
    _, written = on_terminal(*words_of(command, data, data), colour=True)
    assert b"\x1b[" in written
    assert find_controls(written, colour=True) == []


@pytest.mark.parametrize(
    "words",
    [
        ["dump", b"missing" + HOSTILE],
        [HOSTILE],
        ["dump", b"--" + HOSTILE],
        ["dump", "--format", HOSTILE, "x"],
        ["dump", "--from-time", HOSTILE, "x"],
        ["verify", "--nagios", b"missing" + HOSTILE],
        ["verify", "--nagios", b"--" + HOSTILE],
        ["verify", "--state", b"none/" + HOSTILE, "."],
        ["verify", "--summary-by", HOSTILE, "."],
        ["dump", "--output", b"none/" + HOSTILE, "."],
        ["dump", "--format", "table", "--output", HOSTILE, "."],
        ["dump", "--server-properties", b"none" + HOSTILE],
        ["find-offset", ".", HOSTILE],
        ["reindex", "--only", HOSTILE, "."],
        ["usage", "--by", HOSTILE, "."],
        ["dump", "--topic", HOSTILE, "."],
        ["dump", b"s3" + HOSTILE + b"://x"],
    ],
)
def test_arguments_in_errors_are_escaped(
    words: list[str | bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(DATA / "clean/4.4.0")  # which has data directories below it
    status, written = on_terminal(*words)
    assert status in (1, 2, 3)
    assert b"Traceback" not in written
    assert find_controls(written) == []


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_hostile_names_add_no_rows_in_a_pipe(data: Path, form: str) -> None:
    """A name with a line end in it is no line of its own to what reads the form."""
    result = run("dump", "--batches", "--format", form, data)
    if form == "jsonl":
        topics = {json.loads(line)["topic"] for line in result.stdout.splitlines()}
    else:
        out = result.stdout_bytes.decode("utf-8", "surrogateescape")
        rows = list(csv.DictReader(io.StringIO(out, newline="")))
        topics = {row["topic"] for row in rows}
    assert topics == {"sound", "keys", LINES, os.fsdecode(HOSTILE)}


def test_hostile_names_add_no_lines_to_kafka_text(data: Path) -> None:
    result = run("dump", "--batches", "--format", "kafka", data)
    starts = ("Dumping ", "Log starting", "baseOffset: ", "Found ")
    assert all(line.startswith(starts) for line in result.stdout.splitlines())
    assert f"-0/{0:020}.log" in result.stdout
    assert "\\x1b]52;c;aGk=\\x07" in result.stdout
    assert not find_controls(result.stderr_bytes)


def test_names_remain_distinct(tmp_path: Path) -> None:
    """What is spelled out and a name that looks the same already."""
    for name in ("a\nb-0", "a\\nb-0"):
        write_segment(tmp_path / name, 0, batches(0, 1), next_offset=2)
    result = run("dump", "--format", "kafka", tmp_path)
    heads = [line for line in result.stdout.splitlines() if line.startswith("Dumping")]
    assert len(set(heads)) == 2


@pytest.mark.parametrize("command", ["find-offset", "find-time"])
def test_reset_plan_omits_invalid_topics(data: Path, command: str) -> None:
    result = run(*words_of(f"{command} --format reset-csv", data))
    assert result.stdout.splitlines()[-1].startswith("sound,0,")
    assert {line.split(",")[0] for line in result.stdout.splitlines()} <= {"keys", "sound"}
    found = [json.loads(line) for line in result.stderr.splitlines() if '"topic-name"' in line]
    assert {one["actual"] for one in found} == {LINES, os.fsdecode(HOSTILE)}


@pytest.mark.parametrize("form", ["parquet", "arrow", "directory"])
def test_non_text_topic_in_binary_formats(data: Path, tmp_path: Path, form: str) -> None:
    pytest.importorskip("pyarrow")
    if form == "directory":
        out = tmp_path / "out"
        result = run("dump", "--format", "parquet", "--output", f"{out}/", data)
    else:
        out = tmp_path / f"out.{form}"
        result = run("dump", "--output", out, data)
    assert result.exit_code == 3, result.stderr
    assert topics_in(out) == {
        "sound",
        "keys",
        "x\\norders,5,999999\\ny",
        "\\x1b]52;c;aGk=\\x07\\x1b]0;t\\x1b\\\\\\x9b31m\\x9b1m\\r\\n\\x7f\\u202e\\xff",
    }


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_entries_in_binary_forms(data: Path, tmp_path: Path, form: str) -> None:
    pytest.importorskip("pyarrow")
    out = tmp_path / f"out.{form}"
    paths = sorted(data.glob(f"*/{0:020}.index"))
    assert run("dump", "--entries", "--output", out, *paths).exit_code in (0, 3)
    assert len(topics_in(out)) == 2


def test_stray_0_7_file_hides_no_damage(tmp_path: Path) -> None:
    shutil.copytree(DATA / "damaged", tmp_path / "data", dirs_exist_ok=True)
    directory = DataDirectory(tmp_path / "one").partition("orders", 0)
    log = directory / f"{0:020}.log"
    broken = bytearray(log.read_bytes())
    broken[70] ^= 1
    log.write_bytes(broken)
    assert run("dump", "--format", "kafka", directory).exit_code == 3
    (directory / f"{3:020}.kafka").write_bytes(b"")
    result = run("dump", "--format", "kafka", directory)
    assert result.exit_code == 3
    assert "cannot read files of 0.7" in result.stderr


def topics_in(out: Path) -> set[str]:
    """Read the topics of a file or a directory in a process that can go on after a fork."""
    program = (
        "import sys, pyarrow.parquet as p, pyarrow.ipc as i; out = sys.argv[1];"
        "t = i.open_file(out).read_all() if out.endswith('arrow') else p.read_table(out);"
        "print(*map(ascii, t.column('topic').unique().to_pylist()), sep='\\n')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, out], capture_output=True, text=True, check=True
    )
    import ast

    return {ast.literal_eval(line) for line in done.stdout.splitlines()}
