"""A program of the user's that decodes: what it answers, and how it fails."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from commands import run
from registry_log import topic

PROGRAM = """
import json, sys, time
read, write = sys.stdin.buffer.read, sys.stdout.buffer.write
while head := read(4):
    frame = read(int.from_bytes(head, "big"))
    with open(sys.argv[1], "a") as asked:
        asked.write(".")
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
    return f"'{sys.executable}' '{path}' '{tmp_path / 'asked'}'"


def dump(data: Path, decoder: str, *args: str) -> Result:
    words = ["dump", "--format", "jsonl", "--decoder", decoder, *args, str(data)]
    return run(*words)


def values(result: Result) -> list[Any]:
    rows = map(json.loads, result.stdout.splitlines())
    return [row["value"] for row in rows if row["row"] == "record"]


def test_answers_of_the_decoder_are_shown(tmp_path: Path, decoder: str) -> None:
    data = tmp_path / "data"
    large = b"x" * 3_000_000
    topic(data, "mine", [(b"k", b"abc"), (None, b"leave"), (b"", b"bad"), (None, large)])
    result = dump(data, decoder)
    first, second, third, fourth = values(result)
    said = {"decoder": sys.executable}
    assert first == {"schema": said, "data": ["v", "mine", 3]}
    assert json.loads(result.stdout.splitlines()[0])["key"]["data"] == ["k", "mine", 1]
    assert second == "leave"
    assert third["why"].startswith("the decoder's answer is not JSON")
    assert fourth["data"] == ["v", "mine", len(large)]


@pytest.mark.parametrize(
    ("value", "why"),
    [(b"die", "closed"), (b"hang", "no answer in time"), (b"huge", "an answer of 4294967295")],
)
def test_failed_decoder_is_not_called_again(
    tmp_path: Path, decoder: str, value: bytes, why: str
) -> None:
    data = tmp_path / "data"
    topic(data, "mine", [(None, b"a"), (None, value), *[(None, b"b")] * 50])
    result = dump(data, decoder, "--decoder-timeout", "4s")
    found = values(result)
    assert (tmp_path / "asked").read_text() == ".."
    assert found[0]["data"] == ["v", "mine", 1]
    assert all(why in one["why"] and "base64" in one for one in found[1:])
    assert len(found) == 52
    assert "decoder-ended" in result.stderr
    assert "The decoder ended and was not used again" in result.stderr


def test_decoder_that_does_not_read_is_not_waited_for(tmp_path: Path) -> None:
    topic(tmp_path / "data", "mine", [(None, b"x" * 300_000)])
    deaf = f"'{sys.executable}' -c 'import time; time.sleep(20)'"
    (value,) = values(dump(tmp_path / "data", deaf, "--decoder-timeout", "200ms"))
    assert "no answer in time" in value["why"]


def test_parts_report_undecoded_values(tmp_path: Path, decoder: str) -> None:
    """A process that writes parts has a decoder of its own; what they count is one sum."""
    data, before = tmp_path / "data", "keys and values not decoded: "
    for number in range(4):
        topic(data, f"t{number}", [(None, b"a"), (None, b"bad"), (None, b"bad")])
    words = ("--decode", "schema", "--format", "parquet", "--output")
    result = dump(data, decoder, *words, f"{tmp_path}/parts/")
    assert result.exit_code == 0, result.stderr
    assert f"{before}8 the decoder's answer is not JSON" in result.stderr
    topic(data, "dies", [(None, b"die"), *[(None, b"a")] * 4])
    result = dump(data, decoder, *words, f"{tmp_path}/others/", "--topic", "dies")
    assert f"{before}5 the decoder ended" in result.stderr
    assert result.stderr.count("decoder-ended") == 1


def test_missing_decoder_is_an_error(tmp_path: Path) -> None:
    data = tmp_path / "data"
    topic(data, "mine", [(None, b"a")])
    assert "No such file" in values(dump(data, "/no/such/program"))[0]["why"]
    for command in ("", "'"):
        assert dump(data, command).exit_code == 2
    assert "needs --decode schema" in dump(data, "x", "--decode", "raw").stderr
