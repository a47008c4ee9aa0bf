"""A program of the user's that decodes: what it answers, and how it fails."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from registry_log import topic

from kdump.cli import cli

PROGRAM = """
import json, sys, time
read, write = sys.stdin.buffer.read, sys.stdout.buffer.write
while head := read(4):
    frame = read(int.from_bytes(head, "big"))
    size = int.from_bytes(frame[1:3], "big")
    side, topic, data = frame[:1], frame[3 : 3 + size], frame[3 + size :]
    if data == b"die":
        sys.exit(1)
    if data == b"hang":
        time.sleep(60)
    if data == b"huge":
        write(b"\\xff" * 4)
    text = json.dumps([side.decode(), topic.decode(), len(data)]).encode()
    text = {b"leave": b"", b"bad": b"{"}.get(data, text)
    write(len(text).to_bytes(4, "big") + text)
    sys.stdout.flush()
"""


@pytest.fixture
def decoder(tmp_path: Path) -> str:
    path = tmp_path / "decoder.py"
    path.write_text(PROGRAM)
    return f"'{sys.executable}' '{path}'"


def dump(data: Path, decoder: str, *args: str) -> Result:
    words = ["dump", "--format", "jsonl", "--decoder", decoder, *args, str(data)]
    return CliRunner().invoke(cli, words, catch_exceptions=False)


def values(result: Result) -> list[Any]:
    return [json.loads(line)["value"] for line in result.stdout.splitlines()]


def test_answers(tmp_path: Path, decoder: str) -> None:
    data = tmp_path / "data"
    large = b"x" * 3_000_000
    topic(data, "mine", [(b"k", b"abc"), (None, b"leave"), (b"", b"bad"), (None, large)])
    result = dump(data, decoder)
    first, second, third, fourth = values(result)
    said = {"decoder": sys.executable}
    assert first == {"schema": said, "data": ["v", "mine", 3]}
    assert json.loads(result.stdout.splitlines()[0])["key"]["data"] == ["k", "mine", 1]
    assert second == "leave"
    assert third["why"].startswith("the decoder's answer is no JSON")
    assert fourth["data"] == ["v", "mine", len(large)]


@pytest.mark.parametrize(
    ("value", "why"),
    [(b"die", "closed"), (b"hang", "no answer in time"), (b"huge", "an answer of 4294967295")],
)
def test_a_decoder_that_fails_is_not_asked_again(
    tmp_path: Path, decoder: str, value: bytes, why: str
) -> None:
    data = tmp_path / "data"
    topic(data, "mine", [(None, b"a"), (None, value), *[(None, b"b")] * 50])
    started = time.monotonic()
    result = dump(data, decoder, "--decoder-timeout", "500ms")
    found = values(result)
    assert time.monotonic() - started < 30
    assert found[0]["data"] == ["v", "mine", 1]
    assert all(why in one["why"] and "base64" in one for one in found[1:])
    assert len(found) == 52
    assert "kdump: the decoder ended, and was not asked again" in result.stderr


def test_a_decoder_that_is_not_there(tmp_path: Path) -> None:
    data = tmp_path / "data"
    topic(data, "mine", [(None, b"a")])
    assert "No such file" in values(dump(data, "/no/such/program"))[0]["why"]
    for command in ("", "'"):
        assert dump(data, command).exit_code == 2
    assert "needs --decode schema" in dump(data, "x", "--decode", "raw").stderr
