"""`dump --visible` against what a real consumer of Kafka 4.1.1 was handed, record by record."""

import subprocess
import sys
from functools import cache
from itertools import groupby
from pathlib import Path

from corpus import corpus, find_expected
from dumped import Json, first_difference, json_lines, restore_times, run_dump, to_consumer_form
from each import each

from kdump.storage import names

COPIES = ("live", "clean", "killed", "recovered")
LEVELS = ("read_uncommitted", "read_committed")


def written_on(copy: str, partition: str) -> bool:
    """Whether the broker went on writing after it was asked: group coordinators, at their stop."""
    return copy == "recovered" and partition.startswith("__consumer_offsets-")


@cache
def copy_of(copy: str) -> Path:
    """Unpack a copy, with the file times it had."""
    root = corpus(f"modern/data/{copy}")
    restore_times(root, find_expected(f"modern/{copy}/files.tsv"))
    return root


def partitions(root: Path) -> list[Path]:
    """The live partitions; the metadata log is no topic a consumer can ask for."""
    found = []
    for path in sorted(root.glob("d[12]/*")):
        name = names.parse_directory(path.name) if path.is_dir() else None
        if name is not None and name.retirement is None and name.topic != "__cluster_metadata":
            found.append(path)
    return found


@cache
def read_consumed(copy: str, level: str) -> dict[str, list[Json]]:
    """What the consumer got at an isolation level, by partition."""
    answers = {}
    for path in find_expected(f"modern/{copy}/records").glob("*.jsonl"):
        records = json_lines(path.read_bytes())
        handed = [record.pop("rc") or level == "read_uncommitted" for record in records]
        answers[path.stem] = [record for record, ours in zip(records, handed, strict=True) if ours]
    return answers


@each("level", LEVELS)
@each("copy", COPIES)
def test_every_partition_equals_the_consumer(copy: str, level: str) -> None:
    theirs = read_consumed(copy, level)
    paths = partitions(copy_of(copy))
    assert theirs.keys() <= {path.name for path in paths}
    differences = {}
    count = 0
    for path in paths:
        rows, found = run_dump(path, visible=True, isolation=level)
        records = [to_consumer_form(row) for row in rows]
        answer = theirs.get(path.name, [])
        count += len(answer)
        if written_on(copy, path.name):
            records = records[: len(answer)]
        told = first_difference(records, answer)
        codes = [one.code for one in found if one.code != "read-committed-stops"]
        if told or codes:
            differences[path.name] = (told, codes)
    assert differences == {}
    assert count > 15_000


@each("level", LEVELS)
@each("copy", ["clean", "killed"])
def test_command_on_a_complete_data_directory(copy: str, level: str) -> None:
    options = ["--visible", "--isolation", level, "--format", "jsonl", "--bytes", "hex"]
    run = subprocess.run(
        [sys.executable, "-m", "kdump", "dump", *options, str(copy_of(copy) / "d2")],
        capture_output=True,
        check=True,
    )
    theirs = read_consumed(copy, level)
    seen = {}
    for (topic, partition), rows in groupby(
        json_lines(run.stdout), key=lambda row: (row["topic"], row["partition"])
    ):
        name = f"{topic}-{partition}"
        assert name not in seen
        seen[name] = first_difference(map(to_consumer_form, rows), theirs[name])
    there = {path.name for path in partitions(copy_of(copy)) if path.parent.name == "d2"}
    assert seen == dict.fromkeys(sorted(there & {name for name in theirs if theirs[name]}), "")


def test_rows_name_their_source() -> None:
    path = next(path for path in partitions(copy_of("clean")) if path.name == "orders.zstd-0")
    rows, _ = run_dump(path)
    assert {row["topic"] for row in rows} == {"orders.zstd"}
    assert {row["partition"] for row in rows} == {0}
    assert {row["codec"] for row in rows} == {"zstd"}
    assert {row["magic"] for row in rows} == {2}
    bases = [int(log.stem) for log in sorted(path.glob("*.log"))]
    assert [segment for segment, _ in groupby(row["segment"] for row in rows)] == bases
    for row in rows:
        assert row["segment"] == max(base for base in bases if base <= row["offset"])


def test_dump_shows_everything_on_disk_by_default() -> None:
    """Control records, aborted data, and what lies before the log start."""
    copy = copy_of("clean")
    shown = {}
    for name in ("ledger.txn-0", "trimmed-topic-0"):
        path = next(path for path in partitions(copy) if path.name == name)
        every, _ = run_dump(path)
        visible, _ = run_dump(path, visible=True)
        shown[name] = every
        offsets = {row["offset"] for row in visible}
        hidden = [row for row in every if row["offset"] not in offsets]
        assert [row for row in every if row["offset"] in offsets] == visible
        assert hidden
        low = visible[0]["offset"]
        assert all(row["control"] is not None or row["offset"] < low for row in hidden)
    kinds = {row["control"]["type"] for row in shown["ledger.txn-0"] if row["control"]}
    assert kinds == {"COMMIT", "ABORT"}
