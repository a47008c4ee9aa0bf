"""Secrets in the metadata log are shown by no form of any command, unless asked for."""

import base64
import json
import shutil
from pathlib import Path

import builders
import commands
import pyarrow.parquet as pq
import pytest
from message_writing import message_bytes
from pyarrow import ipc

import kdump
from kdump.messages.secrets import blot_fields
from kdump.messages.table import message

HUSH = "hush-hush-7"
LOG = f"{0:020}.log"


def metadata(name: str, /, **fields: object) -> bytes:
    known = message(name)
    assert known.id is not None
    return bytes([1, known.id, 0]) + message_bytes(known, 0, fields)


SCRAM = metadata("UserScramCredentialRecord", name="a", salt=HUSH.encode(), storedKey=HUSH.encode())
PASSWORD = metadata(
    "ConfigRecord", resourceType=4, resourceName="", name="ssl.keystore.password", value=HUSH
)
JAAS = metadata(
    "ConfigRecord", resourceType=4, resourceName="1", value=HUSH,
    name="listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config",
)  # fmt: skip
HARMLESS = metadata(
    "ConfigRecord", resourceType=2, resourceName="t", name="retention.ms", value="4711"
)
CUT = SCRAM[:-2]


@pytest.fixture
def partition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COLUMNS", "400")
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    values = [SCRAM, PASSWORD, HARMLESS, JAAS, SCRAM, CUT]
    records = [builders.record(n, 0, None, value) for n, value in enumerate(values)]
    more = builders.batch(records, base_offset=6, attributes=1)  # gzip, which no broker writes here
    damaged = bytearray(builders.batch(records, base_offset=12))
    damaged[80] ^= 1
    torn = builders.batch(records, base_offset=18)[:-40]
    (directory / LOG).write_bytes(builders.batch(records) + more + damaged + torn)
    return directory


def is_hidden(shown: str) -> bool:
    """Whether a secret is in none of the spellings of bytes that forms have."""
    text = shown.replace(" ", "").replace("\n", "")
    spelled = [HUSH, HUSH.encode().hex(), "h.u.s.h"]
    # Base64 of bytes that begin anywhere in a group of three.
    spelled += [
        base64.b64encode(bytes(at) + HUSH.encode()).decode()[at + 1 : at + 9] for at in range(3)
    ]
    return not any(one in text for one in spelled)


FORMS = [
    *(f"--format {form}" for form in ("table", "jsonl", "csv", "kafka")),
    *(f"--decode raw --format {form}" for form in ("table", "jsonl", "csv")),
    *(f"--bytes {mode} --format {form}" for mode in ("utf8", "hex", "base64")
      for form in ("jsonl", "csv")),
    "--wide --format table --decode raw",
    "--hex",
]  # fmt: skip


def run(*words: object) -> str:
    result = commands.run(*[str(word) for word in words])
    return result.stdout_bytes.decode("utf-8", "replace") + result.stderr


@pytest.mark.parametrize("form", FORMS)
def test_text_output_hides_secrets(partition: Path, tmp_path: Path, form: str) -> None:
    snapshot, lone = tmp_path / "00000000000000000024-0000000001.checkpoint", tmp_path / LOG
    for path in (snapshot, lone):
        path.write_bytes(builders.batch([builders.record(0, 0, None, SCRAM)]))
    for path in (partition, snapshot, lone):
        shown = run("dump", *form.split(), path)
        assert is_hidden(shown), (path, shown)
    shown = run("dump", "--show-secrets", *form.split(), partition)
    assert not is_hidden(shown)


@pytest.mark.parametrize("decode", ["raw", "auto"])
@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_binary_output_hides_secrets(
    partition: Path, tmp_path: Path, form: str, decode: str
) -> None:
    for more in ((), ("--show-secrets",)):
        out = tmp_path / f"out{len(more)}.{form}"
        run("dump", *more, "--decode", decode, "-o", out, partition)
        table = pq.read_table(out) if form == "parquet" else ipc.open_file(out).read_all()
        values = repr(table.to_pylist())
        assert ("4711" in values, is_hidden(values)) == (True, not more)


def test_part_files_hide_secrets(partition: Path, tmp_path: Path) -> None:
    out = tmp_path / "parts"
    run("dump", "-j", "1", "--format", "parquet", "-o", f"{out}/", partition)
    (part,) = out.rglob("*.parquet")
    values = repr(pq.read_table(part, partitioning=None).to_pylist())
    assert "4711" in values
    assert is_hidden(values)


@pytest.mark.parametrize("form", ["table", "jsonl", "csv"])
def test_other_commands_hide_secrets(partition: Path, tmp_path: Path, form: str) -> None:
    other = tmp_path / "other" / partition.name
    shutil.copytree(partition, other)
    log = other / LOG
    log.write_bytes(log.read_bytes().replace(b"4711", b"4712"))
    for words in (
        ("duplicates", "--by", "value", partition),
        ("compare", partition, other),
        ("verify", "--deep", partition),
        ("cluster", partition),
        ("cluster", "--history", "--topic", "t", partition),
        ("usage", "--by", "key", partition),
    ):
        shown = run(*words, "--format", form)
        assert is_hidden(shown), (words, shown)


def test_filters_do_not_match_hidden_values(partition: Path) -> None:
    """Else a search, character by character, would tell what is masked."""
    for form in ("--format jsonl", "--decode raw --format csv", "--format kafka"):
        words = ("dump", *form.split(), "--grep", HUSH)
        assert "4711" not in run(*words, partition), form
        assert not is_hidden(run(*words, "--show-secrets", partition)), form
    assert "(redacted)" in run("dump", "--grep", r"\(redacted\)", partition)


def test_library_hides_the_same_secrets(partition: Path) -> None:
    data = kdump.open(partition)
    for secrets in (False, True):
        found = [
            *(data.records(decode=decode, show_secrets=secrets) for decode in (False, True)),
            data.rows("dump", show_secrets=secrets),
            data.table("records", show_secrets=secrets).to_pylist(),
            data.table("records", decode=True, show_secrets=secrets).to_pylist(),
            data.table("configs", show_secrets=secrets).to_pylist(),
            data.table("scram_users", show_secrets=secrets).to_pylist(),
            data.rows("dump", mode="hex", show_secrets=secrets),
        ]
        assert [is_hidden(repr([*rows])) for rows in found] == [not secrets] * len(found)


def test_records_with_different_secrets_are_not_duplicates(tmp_path: Path) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    values = [SCRAM, SCRAM.replace(HUSH.encode(), HUSH[::-1].encode()), SCRAM]
    records = [builders.record(n, 0, None, value) for n, value in enumerate(values)]
    (directory / LOG).write_bytes(builders.batch(records))
    lines = run("duplicates", "--by", "value", directory).splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["offset"] for row in rows if row["row"] == "duplicate"] == [0, 2]


def test_blotted_fields() -> None:
    for value in (SCRAM, PASSWORD, JAAS, CUT):
        blot = blot_fields(value, is_sure=True)
        assert blot == value[:3] + b"*" * (len(value) - 3)
    assert blot_fields(HARMLESS, is_sure=True) is None
    assert blot_fields(b"", is_sure=True) is None
    assert blot_fields(SCRAM, is_sure=False) is not None
    assert blot_fields(CUT, is_sure=False) is None  # text of a user that begins so


def test_control_records_contain_no_secrets() -> None:
    at = Path(__file__).parents[2] / "sample-data/clean/4.1.1/d1/__cluster_metadata-0"
    result = commands.run("dump", "--bytes", "hex", "--limit", "1", at)
    row = json.loads(result.stdout)
    assert row["control"]["type"] == "LEADER_CHANGE"
    assert "2a2a" not in row["value"]
