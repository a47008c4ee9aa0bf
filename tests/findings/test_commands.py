"""The command to type next: a shell reads it as it is printed, and kdump knows its options."""

import os
import re
import shlex
import subprocess
from typing import Any

import click
from each import each

from kdump.cli import cli
from kdump.engine.reindex.run import kinds_of
from kdump.findings.commands import command_for
from kdump.findings.finding import CATALOGUE, Finding, Severity, finding
from kdump.findings.shell import Word, format_command

LOG = "/var/lib/kafka/orders-7/00000000000000000042.log"


def found(code: str, **members: Any) -> Finding:
    given = {"path": LOG, "topic": "orders", "partition": 7, "segment": 42} | members
    return finding(code, **given)


def parses(words: tuple[Word, ...]) -> bool:
    """Whether the command line takes these words, as far as reading them goes."""
    context = click.Context(cli, info_name="kdump")
    command = cli.get_command(context, str(words[1]))
    assert command is not None, f"no command {words[1]}"
    command.make_context(
        str(words[1]), list(map(str, words[2:])), parent=context, resilient_parsing=False
    )
    return True


def test_bad_batch_command() -> None:
    words = command_for(found("crc-mismatch", position=100, offset=50))
    assert words is not None
    assert format_command(words) == f"kdump dump --hex --from-offset 50 --limit 1 {LOG}"


@each(
    ("name", "words"),
    [
        ("taken.bin", "kdump dump --hex --from-offset 50 --limit 1 taken.bin"),
        ("00000000000000000042.index", None),
    ],
)
def test_log_of_any_name_is_shown(name: str, words: str | None) -> None:
    command = command_for(found("crc-mismatch", path=name, position=100, offset=50))
    assert (command and format_command(command)) == words


@each(
    ("code", "only"),
    [
        ("offset-index-order", "index"),
        ("time-index-size", "timeindex"),
        ("transaction-index-order", "txnindex"),
        ("leader-epochs-missing", "leader-epochs"),
        ("time-lookup-differs", "index,timeindex"),
        # A start that finds only the offset index makes an empty time index.
        ("offset-index-missing", "index,timeindex"),
    ],
)
def test_index_findings_suggest_a_rebuild(code: str, only: str) -> None:
    words = command_for(found(code, position=8))
    assert words == ("kdump", "reindex", "--only", only, "/var/lib/kafka/orders-7")


@each("code", CATALOGUE)
def test_every_suggested_command_exists(code: str) -> None:
    for members in ({}, {"position": 8}, {"position": 8, "offset": 3}, {"path": "-x/-1.log"}):
        words = command_for(found(code, **members))
        if words is not None and str(words[1]) in cli.list_commands(click.Context(cli)):
            assert parses(words)
        if CATALOGUE[code].severity is Severity.NOTE:
            assert words is None


@each("code", CATALOGUE)
def test_remedy_and_command_agree(code: str) -> None:
    entry = CATALOGUE[code]
    assert "delete the file" not in entry.remedy.lower()
    assert re.findall(r"reindex --only ([a-z-]+(?:,[a-z-]+)*)", entry.remedy) == (
        [entry.reindex] if entry.reindex else []
    )
    words = command_for(found(code, position=8, offset=50)) or ()
    if entry.reindex:
        assert words[:4] == ("kdump", "reindex", "--only", entry.reindex)
        assert kinds_of(entry.reindex)
    if "dump --hex" in entry.remedy and entry.severity is not Severity.NOTE:
        assert words[:3] == ("kdump", "dump", "--hex")


@each(
    "path",
    [
        "/data/two words-1/0.log",
        "/data/it's-1/0.log",
        "/data/$(reboot)-1/0.log",
        "/data/new\nline-1/\x1b[2J.log",
        os.fsdecode(b"/data/\xff\xfe-1/0.log"),
        "/data/Grüße-1/0.log",
    ],
)
def test_shell_reads_the_path_back(path: str) -> None:
    text = format_command(("printf", "%s", path))
    assert text.isprintable()
    done = subprocess.run(["bash", "-c", text], capture_output=True, check=True)
    assert os.fsdecode(done.stdout) == path


def test_plain_words_are_not_quoted() -> None:
    text = format_command(("kdump", "dump", LOG))
    assert text == f"kdump dump {LOG}"
    assert shlex.split(text) == ["kdump", "dump", LOG]
