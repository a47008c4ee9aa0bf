"""What a person is shown of a dump: all of it if asked for, and a word where there is nothing."""

import csv
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import builders
import pytest
import segments
from commands import run

LOG = segments.name(0, "log")


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Give a partition of ten batches."""
    return segments.write_partition(tmp_path / "data", {0: segments.batches(0, 30)})


@pytest.fixture
def damaged(partition: Path) -> Path:
    """Give the same partition with one bit of its third batch wrong."""
    log = bytearray((partition / LOG).read_bytes())
    log[len(b"".join(segments.batches(0, 9))) - 3] ^= 1
    (partition / LOG).write_bytes(log)
    return partition


def on_terminal(*args: object, form: str | None = None) -> str:
    """Return what standard error shows on a terminal, standard output being a pipe."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "kdump", *map(str, args)]
    command += [] if form is None else ["--format", form]
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "100"}
    with open(theirs, "wb", buffering=0) as terminal:  # noqa: PTH123
        subprocess.run(
            command, stdout=subprocess.PIPE, stderr=terminal, env=environment, check=False
        )
    with open(ours, "rb", buffering=0) as reader:  # noqa: PTH123
        return (reader.read(1 << 16) or b"").decode()


@pytest.mark.parametrize(("form", "as_json"), [(None, False), ("csv", False), ("jsonl", True)])
def test_findings_on_a_terminal_while_rows_are_piped(
    damaged: Path, form: str | None, as_json: bool
) -> None:
    line = on_terminal("dump", damaged, form=form).splitlines()[0]
    assert line.startswith('{"row":"finding"' if as_json else "DAMAGE")


def test_findings_in_a_pipe_are_json_in_every_form(damaged: Path) -> None:
    for form in ("jsonl", "csv", "table", "markdown"):
        assert json.loads(run("dump", "--format", form, damaged).stderr)["row"] == "finding"


def test_rows_after_damage_keep_their_width(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The range of offsets of a damaged batch is wider than any offset."""
    monkeypatch.setenv("COLUMNS", "80")
    base = 48_301_220
    parts = segments.batches(base, base + 900)
    parts[99] = parts[99][:-3] + b"?" + parts[99][-2:]
    lines = run(
        "dump", "--format", "table", segments.write_partition(tmp_path, {base: parts})
    ).stdout.splitlines()
    (at,) = (number for number, line in enumerate(lines) if "✗" in line)
    assert lines[at].startswith(f"{base + 297}\N{EN DASH}{base + 299}")
    assert {len(line) for line in lines[at + 1 :]} <= {*range(81)}
    assert lines[-1].split()[0] == str(base + 899)


def test_damaged_batch_has_a_header_row_without_records(damaged: Path) -> None:
    def rows(*options: str) -> list[str]:
        found = run("dump", *options, damaged)
        assert found.exit_code == 3
        assert "crc-mismatch" in found.stderr
        return [json.loads(line)["row"] for line in found.stdout.splitlines()]

    assert rows().count("batch") == 1
    assert rows("--records-only") == ["record"] * 27
    assert "✗" not in run("dump", "--format", "table", "--records-only", damaged).stdout
    assert run("dump", "--batches", "--records-only", damaged).exit_code == 2


def test_wide_output_is_not_truncated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    records = [builders.record(n, n, b"k" * 90, b"v" * (70_000 * n)) for n in range(2)]
    directory = tmp_path / "orders-0"
    directory.mkdir()
    (directory / LOG).write_bytes(builders.batch(records))
    narrow = run("dump", "--format", "table", directory).stdout
    assert "…" in narrow
    assert max(map(len, narrow.splitlines())) <= 80
    wide = run("dump", "--format", "table", "--wide", directory).stdout
    assert "…" not in wide
    assert "v" * 70_000 in wide


def test_columns_without_room_are_named(partition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    lines = run("dump", "--batches", "--format", "table", partition).stdout.splitlines()
    assert max(map(len, lines)) <= 60
    assert lines[-1].startswith("Columns left out: ")
    assert "latest time" in lines[-1]
    wide = run("dump", "--batches", "--wide", "--format", "table", partition).stdout
    assert "latest time" in wide.splitlines()[1]
    assert "No room" not in wide


FORMULAS = [b"=1+1|x", b"+1", b"-1", b"@x", b"\tx", b"\rx", "\uff1d1".encode()]


@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
def test_csv_contains_no_formulas(tmp_path: Path, large: bool) -> None:
    values = [value + b"x" * 70_000 * large for value in (*FORMULAS, b"plain", b"a=1")]
    directory = tmp_path / "orders-0"
    directory.mkdir()
    records = [builders.record(n, n, b"k", value) for n, value in enumerate(values)]
    (directory / LOG).write_bytes(builders.batch(records))

    def column(*options: str) -> list[str]:
        text = run("dump", "--format", "csv", *options, directory).stdout_bytes.decode()
        return [row["value"] for row in csv.DictReader(text.splitlines(keepends=True))]

    csv.field_size_limit(1 << 20)
    plain = [value.decode() for value in values]
    safe = [f"'{text}" for text in plain[: len(FORMULAS)]] + plain[len(FORMULAS) :]
    if not large:
        text = run("dump", "--format", "csv", "--csv-safe", directory).stdout_bytes.decode()
        assert all(f"'{one.decode()}" in text for one in FORMULAS)
    assert [one.replace("\r", "") for one in column()] == [one.replace("\r", "") for one in plain]
    assert [one.replace("\r", "") for one in column("--csv-safe")] == [
        one.replace("\r", "") for one in safe
    ]
    assert run("dump", "--csv-safe", "--format", "jsonl", directory).exit_code == 2


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--key", "none"], "kdump: no records match --key\n"),
        (["--grep", "none", "--no-control"], "kdump: no records match --grep, --control\n"),
        (["--from-offset", "99", "--batches"], "kdump: no batches match --from-offset\n"),
        (["--key", "none", "-q"], ""),
        (["--limit", "0"], ""),
        (["--key", "k5"], ""),
    ],
)
def test_empty_result_is_reported(partition: Path, options: list[str], told: str) -> None:
    result = run("dump", *options, partition)
    assert (result.exit_code, result.stderr) == (0, told)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("leader-epoch-checkpoint", b"0\n0\n"),
        ("00000000000000000000.index", b""),
        ("00000000000000000000.snapshot", bytes.fromhex("0001d7d6bd0c00000000")),
    ],
)
def test_empty_files_are_reported(partition: Path, name: str, content: bytes) -> None:
    (partition / name).write_bytes(content)
    result = run("dump", "--entries", partition / name)
    assert result.stdout == ""
    *_, version, last = ["", *result.stderr.splitlines()]
    assert last == "kdump: no entries found"
    if content:
        number = 1 if name.endswith("snapshot") else 0
        assert version == f"kdump: {partition / name}: version {number}, no entries"


def test_retired_directory_is_named(partition: Path) -> None:
    retired = partition.parent / f"orders-0.{'0' * 32}-delete"
    partition.rename(retired)
    result = run("dump", retired.parent)
    assert result.exit_code == 1
    assert result.stderr.endswith(f"; {retired.name} can be read with --retired\n")
    assert run("dump", "--retired", "-n", 1, retired.parent).exit_code == 0


def test_header_names_are_kept_apart(tmp_path: Path) -> None:
    """Names that are not UTF-8 are not all the same mark."""
    names = [b"a\xff", b"a\xfe", "a\ufffd".encode(), b"a"]
    directory = tmp_path / "orders-0"
    directory.mkdir()
    headers = [(name, name) for name in names]
    (directory / LOG).write_bytes(builders.batch([builders.record(0, 0, b"k", b"v", headers)]))
    (row,) = map(json.loads, run("dump", directory).stdout.splitlines())
    assert [one["key"] for one in row["headers"]] == [one["value"] for one in row["headers"]]
    assert [one["key"] for one in row["headers"]] == [
        {"base64": "Yf8="}, {"base64": "Yf4="}, "a\ufffd", "a",
    ]  # fmt: skip
    (cells,) = csv.DictReader(run("dump", "--format", "csv", directory).stdout.splitlines())
    assert json.loads(cells["headers"]) == row["headers"]
    for mode, first in (("hex", "61ff"), ("base64", "Yf8="), ("utf8", "a\ufffd")):
        (row,) = map(json.loads, run("dump", "--bytes", mode, directory).stdout.splitlines())
        assert row["headers"][0] == {"key": first, "value": first}
    pq = pytest.importorskip("pyarrow.parquet")
    from pyarrow import ipc

    for name in ("out.parquet", "out.arrow"):
        out = tmp_path / name
        run("dump", "-o", out, directory)
        table = pq.read_table(out) if name.endswith("parquet") else ipc.open_file(out).read_all()
        (found,) = table.column("headers").to_pylist()
        assert [one["key"] for one in found] == ["base64:Yf8=", "base64:Yf4=", "a\ufffd", "a"]
        assert [one["value"] for one in found] == names
