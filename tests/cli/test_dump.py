"""`kdump dump` from the outside: rows, streams, statuses."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import builders
import commands
import pytest
import segments
from commands import read_rows
from each import each

LOG = "00000000000000000000.log"


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Give a partition with three batches of two records each."""
    directory = tmp_path / "data" / "orders-7"
    directory.mkdir(parents=True)
    (directory / LOG).write_bytes(
        b"".join(
            builders.batch(
                [builders.record(n, n, b"k%d" % (start + n), b"v") for n in range(2)],
                base_offset=start,
                base_timestamp=1_700_000_000_000 + start,
                max_timestamp=1_700_000_000_001 + start,
            )
            for start in (0, 2, 4)
        )
    )
    return directory


@pytest.fixture
def damaged(partition: Path) -> Path:
    """Give the same partition with one bit of the second batch's last record wrong."""
    path = partition / LOG
    data = bytearray(path.read_bytes())
    size = len(data) // 3
    data[2 * size - 3] ^= 1
    path.write_bytes(data)
    return partition


dump = partial(commands.run, "dump")


def offsets(*args: object) -> list[object]:
    return [row["offset"] for row in read_rows(dump(*args))]


def run(*args: object, **given: object) -> "subprocess.CompletedProcess[bytes]":
    command = [sys.executable, "-m", "kdump", "dump", *map(str, args)]
    return subprocess.run(command, capture_output=True, check=False, **given)  # type: ignore[call-overload, no-any-return]


def test_records_in_a_pipe_are_json_lines(partition: Path) -> None:
    result = dump(partition)
    assert result.exit_code == 0
    assert [row["key"] for row in read_rows(result)] == [f"k{n}" for n in range(6)]
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("args", "wanted"),
    [
        (["--from-offset", "3"], [3, 4, 5]),
        (["--to-offset", "2"], [0, 1]),
        (["--from-offset", "-5", "--limit", "1"], [0]),
        (["--from-time", "1700000000003"], [3, 4, 5]),
        (["--to-time", "2023-11-14T22:13:20.001Z"], [0]),
        (["--from-time", "-1", "--limit", "2"], [0, 1]),
        (["--key", "k4"], [4]),
        (["--grep", "^k[15]"], [1, 5]),
        (["--producer-id", "9"], []),
        (["--control"], []),
        (["--no-control", "--limit", "3"], [0, 1, 2]),
    ],
)
def test_ranges_and_filters_select_records(
    partition: Path, args: Sequence[str], wanted: list[int]
) -> None:
    assert offsets(partition, *args) == wanted


@pytest.fixture
def segmented(tmp_path: Path) -> Path:
    """Give a partition with offsets 0 to 29 in five segments of two batches each."""
    batches = segments.batches(0, 30)
    logs = {6 * n: batches[2 * n : 2 * n + 2] for n in range(5)}
    return segments.write_partition(tmp_path / "data", logs)


@pytest.mark.parametrize(
    ("args", "wanted"),
    [
        (["--tail", "0"], []),
        (["--tail", "2"], [28, 29]),
        (["--tail", "6"], [*range(24, 30)]),
        (["--tail", "7"], [*range(23, 30)]),
        (["--tail", "20"], [*range(10, 30)]),
        (["--tail", "99"], [*range(30)]),
        (["--tail", "9", "--limit", "2"], [21, 22]),
        (["--tail", "9", "--from-offset", "26"], [*range(26, 30)]),
        (["--tail", "3", "--to-offset", "8"], [5, 6, 7]),
    ],
)
def test_tail_shows_the_last_records(segmented: Path, args: list[str], wanted: list[int]) -> None:
    assert offsets(*args, segmented) == wanted


def test_tail_reads_no_more_segments_than_it_needs(segmented: Path) -> None:
    for start in (0, 24):
        log = segmented / f"{start:020}.log"
        data = bytearray(log.read_bytes())
        data[-3] ^= 1
        log.write_bytes(data)
    result = dump("--tail", "8", segmented)
    assert [row.get("offset") for row in read_rows(result) if row["row"] == "record"] == [
        *range(20, 27)
    ]
    assert result.stderr.count("crc-mismatch") == 1


def test_tail_applies_to_each_partition_and_to_batches(segmented: Path, partition: Path) -> None:
    found = read_rows(dump("--tail", "1", partition, segmented))
    assert [(row["topic"], row["offset"]) for row in found] == [("orders", 5), ("orders", 29)]
    (batch,) = read_rows(dump("--tail", "1", "--batches", segmented))
    assert (batch["base_offset"], batch["last_offset"]) == (27, 29)


def test_batches(partition: Path) -> None:
    found = read_rows(dump("--batches", partition))
    assert [(row["row"], row["base_offset"], row["last_offset"]) for row in found] == [
        ("batch", 0, 1),
        ("batch", 2, 3),
        ("batch", 4, 5),
    ]


def test_entries(partition: Path) -> None:
    (partition / "00000000000000000000.index").write_bytes(bytes(7) + b"\x01" + bytes(4))
    result = dump("--entries", partition / "00000000000000000000.index")
    assert read_rows(result)[0]["row"] == "offset-index-entry"


def test_damage_is_status_3_and_reading_continues(damaged: Path) -> None:
    result = dump(damaged)
    assert result.exit_code == 3
    assert [row.get("offset", row["row"]) for row in read_rows(result)] == [0, 1, "batch", 4, 5]
    finding = json.loads(result.stderr)
    assert (finding["row"], finding["code"]) == ("finding", "crc-mismatch")


def test_fail_on_never_exits_with_0(damaged: Path) -> None:
    assert dump("--fail-on", "never", damaged).exit_code == 0


def test_quiet_prints_findings_only(damaged: Path) -> None:
    result = dump("-q", damaged)
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert result.exit_code == 3


def test_missing_path_does_not_stop_the_others(partition: Path) -> None:
    result = dump("/nonesuch", partition)
    assert result.exit_code == 1
    assert len(read_rows(result)) == 6
    assert result.stderr == "kdump: /nonesuch: No such file or directory\n"


def test_damage_outweighs_an_unreadable_path(damaged: Path) -> None:
    assert dump("/nonesuch", damaged).exit_code == 3


def test_no_input_exits_with_1(partition: Path) -> None:
    assert dump("--topic", "none*", partition.parent).exit_code == 1


@each(
    "args",
    [
        [],
        ["--batches", "--entries", "x"],
        ["--format", "parquet", "x"],
        ["--format", "arrow", "x"],
        ["--hex", "--format", "csv", "x"],
        ["--from-time", "noon", "x"],
        ["--decompress-limit", "much", "x"],
        ["--decompress-limit", "0", "x"],
        ["--decompress-limit", "9999999999TiB", "x"],
        ["--isolation", "read_comitted", "x"],
        ["--limit", "-1", "x"],
        ["--tail", "-1", "x"],
        ["--tail", "1", "--entries", "x"],
        ["--tail", "1", "--format", "kafka", "x"],
        ["--tail", "1", "--format", "parquet", "--output", "x/", "x"],
        ["--grep", "(", "x"],
        ["--engine", "spark", "x"],
        ["--output", "x", "x"],
    ],
)
def test_wrong_usage_exits_with_2(args: list[str]) -> None:
    result = dump(*args)
    assert result.exit_code == 2
    assert result.stdout == ""


def test_isolation_ignores_letter_case(partition: Path) -> None:
    committed, shouted = (
        dump("--isolation", word, partition).stdout for word in ("read_committed", "READ_COMMITTED")
    )
    assert committed == shouted != ""


def test_format_table(partition: Path) -> None:
    lines = dump("--format", "table", "--limit", "1", partition).stdout.splitlines()
    assert lines[0] == "orders-7 · segment 0"
    assert lines[3].split() == ["0", "2023-11-14T22:13:20.000Z", "k0", "v"]


def test_v_is_short_for_wide(tmp_path: Path) -> None:
    log = builders.batch([builders.record(value=b"v" * 500)])
    directory = segments.write_partition(tmp_path, {0: [log]})
    wide, narrow = (dump(*option, "--format", "table", directory).stdout for option in (["-v"], []))
    assert "v" * 500 in wide
    assert "v" * 500 not in narrow


def test_format_csv_keeps_one_kind_of_row(damaged: Path) -> None:
    found = list(csv.DictReader(dump("--format", "csv", damaged).stdout.splitlines()))
    assert [row["offset"] for row in found] == ["0", "1", "4", "5"]


def test_format_kafka(partition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(partition)
    lines = dump("--format", "kafka", "--batches", LOG).stdout.splitlines()
    assert lines[0] == f"Dumping {LOG}"
    assert lines[2].startswith("baseOffset: 0 lastOffset: 1 count: 2 ")


def test_format_kafka_rejects_visible(partition: Path) -> None:
    assert dump("--format", "kafka", "--visible", partition).exit_code == 2


def test_format_kafka_refuses_files_of_0_7(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.kafka"
    path.touch()
    result = dump("--format", "kafka", path)
    assert result.exit_code == 2
    assert "cannot read" in result.stderr


@pytest.mark.parametrize(("suffix", "starts"), [("jsonl", b'{"row"'), ("csv", b"row,topic")])
def test_output_file(partition: Path, tmp_path: Path, suffix: str, starts: bytes) -> None:
    path = tmp_path / f"out.{suffix}"
    result = dump("--output", path, partition)
    assert result.exit_code == 0
    assert result.stdout == ""
    assert path.read_bytes().startswith(starts)


def test_output_parquet_of_a_damaged_log(damaged: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "out.parquet"
    assert dump("--output", path, damaged).exit_code == 3
    assert parquet.read_table(path)["offset"].to_pylist() == [0, 1, 4, 5]


def test_output_into_the_input_is_refused(partition: Path) -> None:
    before = sorted(partition.iterdir())
    assert dump("--output", partition / "out.jsonl", partition).exit_code == 5
    assert dump("--output", partition / LOG, partition / LOG).exit_code == 5
    assert sorted(partition.iterdir()) == before


def test_unwritable_output_exits_with_1(partition: Path, tmp_path: Path) -> None:
    result = dump("--output", tmp_path / "none" / "out", partition)
    assert result.exit_code == 1
    assert result.stderr.endswith("none: No such file or directory\n")


def test_missing_pyarrow_exits_with_1(
    partition: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    result = dump("--output", tmp_path / "out.parquet", partition)
    assert result.exit_code == 1
    assert "kdump[arrow]" in result.stderr
    assert result.stderr.count("\n") == 1
    assert list(tmp_path.glob("*out*")) == []


def test_bytes_in_the_requested_form(partition: Path) -> None:
    found = [
        read_rows(dump("--bytes", mode, "--limit", "1", partition))[0]["key"]
        for mode in ("auto", "utf8", "hex", "base64")
    ]
    assert found == ["k0", "k0", "6b30", "azA="]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_full_standard_output_exits_with_1(partition: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "kdump", "dump", str(partition)],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == b"kdump: standard output: No space left on device\n"


@pytest.fixture
def long_log(tmp_path: Path) -> Path:
    """Give a log that takes a while to dump."""
    directory = tmp_path / "long-0"
    directory.mkdir()
    batch = builders.batch([builders.record(n, n, None, b"v" * 2000) for n in range(10)])
    with (directory / LOG).open("wb") as file:
        for start in range(0, 40_000, 10):
            file.write(start.to_bytes(8, "big") + batch[8:])
    return directory


def test_closed_pipe_is_status_1_without_a_message(long_log: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "kdump", "dump", str(long_log)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    with process.stderr as errors:
        assert errors.read() == b""
    assert process.wait() == 1


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no SIGUSR1 here")
def test_signals_end_the_run_while_the_reader_is_slow(long_log: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "kdump", "dump", str(long_log)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(10)  # it runs now, and will soon stand still in a full pipe
    os.kill(process.pid, signal.SIGUSR1)
    line = process.stderr.readline().decode()
    assert line.startswith("kdump: ")
    assert "long-0 · segment 0" in line
    time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    with process.stderr as errors:
        assert errors.readline() == b"kdump: interrupted\n"
        process.stdout.close()  # not before: a broken pipe would end it, too
        assert errors.read() == b""
    assert process.wait() == 1
