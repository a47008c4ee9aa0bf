"""Captures of requests on the command line: recognized by their bytes, shown in every form."""

import gzip
import json
import re
from pathlib import Path

import captures
import pyarrow.parquet
import pytest
from commands import run

CLIENTS = Path(__file__).parents[1] / "captures/clients.pcap.gz"


def framed(client: bytes) -> bytes:
    data = bytes.fromhex("0012000000000001") + len(client).to_bytes(2, "big") + client
    return len(data).to_bytes(4, "big") + data


def test_capture_is_detected_by_its_bytes(tmp_path: Path) -> None:
    plain = tmp_path / "00000000000000000000.log.1"
    plain.write_bytes(gzip.decompress(CLIENTS.read_bytes()))
    expected = run("dump", "--format", "jsonl", CLIENTS)
    assert (expected.exit_code, expected.stderr) == (0, "")
    assert len(expected.stdout.splitlines()) > 400
    assert run("dump", "--format", "jsonl", plain).stdout == expected.stdout
    assert run("dump", "--format", "jsonl", "-", stdin=plain.read_bytes()).stdout == expected.stdout


def test_every_form_is_written(tmp_path: Path) -> None:
    asked = ("dump", "--rows", "frame")
    table = run(*asked, "--format", "table", "--topic", "orders", CLIENTS).stdout
    assert "Produce" in table
    assert "acks all" in table
    lines = run(*asked, "--format", "csv", CLIENTS).stdout.splitlines()
    assert lines[0].startswith("row,number,position,at_ms,source,destination,direction,api")
    count = len(lines) - 1
    out = tmp_path / "frames.parquet"
    assert run(*asked, "--format", "parquet", "--output", out, CLIENTS).exit_code == 0
    assert pyarrow.parquet.read_table(out).num_rows == count
    batches = run("dump", "--batches", "--rows", "batch", "--format", "jsonl", CLIENTS).stdout
    assert {json.loads(line)["crc_valid"] for line in batches.splitlines()} == {True}
    assert "baseOffset" in run("dump", "--hex", "--topic", "orders", CLIENTS).stdout
    assert len(run("dump", "--limit", "3", "--format", "jsonl", CLIENTS).stdout.splitlines()) == 3


def test_filters_apply_to_captures() -> None:
    text = run(
        "dump", "--rows", "record", "--from-offset", "3", "--format", "jsonl", CLIENTS
    ).stdout
    offsets = {json.loads(line)["offset"] for line in text.splitlines()}
    assert offsets
    assert min(offsets) == 3
    assert run("dump", "--topic", "none-such", "--format", "jsonl", CLIENTS).stdout == ""


def test_verify_checks_the_records(tmp_path: Path) -> None:
    # What a wrapper holds is known when it is opened.
    for words, records in (((), 280), (("--deep",), 309)):
        result = run("verify", "--format", "jsonl", *words, CLIENTS)
        assert result.exit_code == 0
        summary = json.loads(result.stdout)
        assert (summary["batches"], summary["records_count"]) == (89, records)
    path = tmp_path / "cut"
    path.write_bytes(gzip.decompress(CLIENTS.read_bytes())[:-30])
    result = run("verify", "--format", "jsonl", path)
    assert result.exit_code == 3
    assert json.loads(result.stdout.splitlines()[0])["code"] == "capture-cut-short"
    assert json.loads(result.stdout.splitlines()[0])["path"] == str(path)


@pytest.mark.parametrize("option", ["--entries", "--tail=3", "--visible"])
def test_inapplicable_options_are_refused(option: str) -> None:
    result = run("dump", option, CLIENTS)
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert str(CLIENTS) in result.stderr


def test_names_in_a_capture_are_escaped(tmp_path: Path) -> None:
    hostile = b"\x1b]0;owned\x07\x1b[2J\xc2\x9b\n"
    path = tmp_path / "one"
    path.write_bytes(captures.capture(captures.packets([(0, 0, framed(hostile))])))
    table = run("dump", "--format", "table", path).stdout
    assert "owned" in table
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", table)
    assert json.loads(run("dump", "--format", "jsonl", path).stdout)["client_id"] == (
        hostile.decode()
    )


def test_frames_are_detected_by_the_first_request(tmp_path: Path) -> None:
    """One that begins with a response is read where it is asked for."""
    path = tmp_path / "one"
    frames = framed(b"a") + framed(b"b")
    answer = b"\0\0\0\x04\0\0\0\7"
    for data, words in ((frames, ()), (answer + frames, ("--as", "frames"))):
        path.write_bytes(data)
        result = run("dump", *words, "--format", "jsonl", path)
        rows = [json.loads(line) for line in result.stdout.splitlines()]
        assert [row["client_id"] for row in rows][-2:] == ["a", "b"]
    assert "client_id" not in run("dump", "--format", "jsonl", path).stdout


def test_hint_names_the_given_file(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(gzip.decompress(CLIENTS.read_bytes()))
    hint = json.loads(run("info", "--format", "jsonl", path).stdout)
    assert (hint["path"], hint["command"]) == (str(path), f"kdump dump {path}")


def test_other_files_are_not_captures(tmp_path: Path) -> None:
    path = tmp_path / "one"
    path.write_bytes(b"nothing of the kind")
    result = run("dump", "--as", "capture", path)
    assert result.exit_code == 1
    assert result.stderr.endswith("is not a capture in pcap or pcapng format\n")
    assert result.stderr.count("\n") == 1
