"""The manual pages against the command line, the catalogue of findings and the formats."""

import re
import shutil
import subprocess
from pathlib import Path

import click
import crc32c
import manual_lists
import pytest
from each import each

from kdump import __version__
from kdump.broker import versions
from kdump.cli import cli
from kdump.cli.headings import Option
from kdump.findings.finding import CATALOGUE

MAN = Path(__file__).parents[2] / "man"
PAGES = sorted(MAN.glob("kdump*.[157]"))
CONTEXT = click.Context(cli, info_name="kdump")
COMMANDS = {name: cli.get_command(CONTEXT, name) for name in cli.list_commands(CONTEXT)}


def roff(name: str) -> str:
    return (MAN / name).read_text("utf-8")


def plain(text: str) -> str:
    """Undo what roff needs in a line of text."""
    text = re.sub(r"\\f[BIRP]", "", text)
    return text.replace("\\-", "-").replace("\\&", "").replace("\\e", "\\")


def section(page: str, title: str) -> str:
    match = re.search(rf'^\.SH "?{title}"?\n(.*?)(?=^\.SH )', page, re.DOTALL | re.MULTILINE)
    assert match, title
    return match[1]


def tags(text: str) -> list[str]:
    """The first line of each tagged paragraph."""
    return [plain(line) for line in re.findall(r"^\.TP\n(.*)$", text, re.MULTILINE)]


def options_of(command: click.Command) -> set[str]:
    spelled = {"-h", "--help"}
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            spelled |= {*parameter.opts, *parameter.secondary_opts}
    return spelled


@each("name", ["", *COMMANDS])
def test_options_match_the_help(name: str) -> None:
    command = COMMANDS[name] if name else cli
    assert command is not None
    page = roff(f"kdump-{name}.1" if name else "kdump.1")
    described: set[str] = set()
    for tag in tags(section(page, "OPTIONS")):
        described |= set(re.findall(r"(?<![\w-])--?[A-Za-z][a-z-]*", tag))
    assert described == options_of(command)


@each("name", COMMANDS)
def test_options_are_under_the_help_headings(name: str) -> None:
    command = COMMANDS[name]
    assert command is not None
    in_help: dict[str, list[str]] = {}
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.opts != ["-h"]:
            assert isinstance(parameter, Option), parameter.opts
            in_help.setdefault(parameter.heading, []).append(parameter.opts[-1])
    in_page: dict[str, list[str]] = {}
    parts = re.split(
        r"^\.SS (.*)\n", section(roff(f"kdump-{name}.1"), "OPTIONS"), flags=re.MULTILINE
    )
    assert not parts[0]
    for heading, text in zip(parts[1::2], parts[2::2], strict=True):
        spelled = (re.findall(r"(?<![\w-])--[a-z][a-z-]*", tag) for tag in tags(text))
        in_page[heading] = [found[0] for found in spelled if found != ["--help"]]
    assert {heading: {*options} for heading, options in in_page.items()} == {
        heading: {*options} for heading, options in in_help.items()
    }
    reads_nothing = name == "schema"
    assert [*in_page][-3:] == (["Output"] if reads_nothing else ["Paths", "Engine", "Output"])


@each("name", COMMANDS)
def test_choices_match_the_help(name: str) -> None:
    command = COMMANDS[name]
    assert command is not None
    options = tags(section(roff(f"kdump-{name}.1"), "OPTIONS"))
    for parameter in command.params:
        if isinstance(parameter.type, click.Choice):
            tag = next(tag for tag in options if parameter.opts[0] in tag.split('"')[0])
            assert "|".join(parameter.type.choices) in tag, parameter.opts[0]


def test_every_command_has_a_page() -> None:
    named = set(
        re.findall(
            r"^\.BR kdump-([a-z-]+) \(1\)$", section(roff("kdump.1"), "COMMANDS"), re.MULTILINE
        )
    )
    assert named == set(COMMANDS)
    assert {page.stem for page in PAGES if page.suffix == ".1"} == {
        "kdump",
        *(f"kdump-{name}" for name in COMMANDS),
    }


@each("name", manual_lists.LISTS)
def test_lists_match_the_code(name: str) -> None:
    expected = manual_lists.expected_list(name)
    assert manual_lists.written_list(name) == expected, "run tools/manual_lists.py"


def test_every_finding_and_broker_change_is_listed() -> None:
    assert len(tags(section(roff("kdump.1"), "FINDINGS"))) == len(CATALOGUE)
    changes = " ".join(section(roff("kdump.1"), "BROKER VERSIONS").split())
    every = [one for one in vars(versions).values() if isinstance(one, versions.Change)]
    assert all(manual_lists.escape(change.does) in changes for change in every)
    assert f"the newest known release, {versions.text_of(versions.NEWEST)}" in changes


def test_batch_in_hex_is_a_batch() -> None:
    """The worked example of kdump-formats(5) has the length and the checksum it claims."""
    lines = section(roff("kdump-formats.5"), "LOG ENTRIES, MAGIC 2").split(".nf\n")[1].splitlines()
    data = bytes.fromhex("".join(re.split(r"\s{3,}", line)[0] for line in lines if line[0] != "."))
    assert int.from_bytes(data[8:12]) == len(data) - 12
    assert int.from_bytes(data[17:21]) == crc32c.crc32c(data[21:])


@each("page", PAGES, ids=lambda page: page.name)
def test_page_gives_the_version(page: Path) -> None:
    head = next(line for line in page.read_text("utf-8").splitlines() if line.startswith(".TH"))
    assert head.endswith(f'"kdump {__version__}" "kdump manual"')


@pytest.mark.skipif(not (shutil.which("groff") and shutil.which("tbl")), reason="no groff here")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page_is_valid_roff(page: Path) -> None:
    done = subprocess.run(
        ["groff", "-t", "-ww", "-man", "-Tascii", "-rLL=80n", "-z", str(page)],
        capture_output=True,
        check=True,
    )
    assert done.stderr == b""
    text = page.read_text("utf-8")
    assert text == manual_lists.wrap(text), "run tools/manual_lists.py"


@pytest.mark.skipif(shutil.which("mandoc") is None, reason="no mandoc here")
def test_pages_are_sound_for_mandoc() -> None:
    done = subprocess.run(
        ["mandoc", "-T", "lint", "-W", "style", *map(str, PAGES)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout + done.stderr == ""
