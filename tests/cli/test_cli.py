"""The command line as a whole: what starting costs, help, version, completion."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import click
import pytest
from commands import modules_after, run

from kdump import __version__, kernels
from kdump.cli import LazyGroup, cli

SAMPLES = Path(__file__).parents[2] / "sample-data" / "clean"
HEAVY = {
    *("rich", "pyarrow", "lz4", "zstandard", "snappy", "isal", "crcmod", "crc32c"),
    *("asyncio", "concurrent", "importlib.metadata", "logging", "multiprocessing"),
}


def heavy_of(modules: set[str]) -> set[str]:
    return {name for name in modules if name in HEAVY or name.partition(".")[0] in HEAVY}


def test_help_imports_few_modules() -> None:
    modules = modules_after("--help")
    assert heavy_of(modules) == set()
    ours = {name for name in modules if name.startswith("kdump")}
    assert ours == {"kdump", "kdump.cli", "kdump.cli.process", "kdump.errors"}


def test_help_of_dump_imports_no_engine() -> None:
    modules = modules_after("dump", "--help")
    assert heavy_of(modules) == set()
    assert "kdump.kernels" not in modules


def test_json_lines_import_no_codec_and_no_table(tmp_path: object) -> None:
    modules = modules_after("dump", str(tmp_path))
    assert heavy_of(modules) == set()


@pytest.mark.parametrize("command", ["find-offset", "find-time"])
def test_lookups_import_few_modules(command: str) -> None:
    modules = modules_after(command, "--help")
    assert heavy_of(modules) == set()
    assert "kdump.broker.partition" not in modules
    sample = Path(__file__).parents[2] / "sample-data/clean/4.1.1/d1/users.compact-0"
    modules = modules_after(command, str(sample), "5")
    assert "kdump.broker.partition" in modules
    # The pure kernel has the checksum of the batch that is found from a library.
    checksum = ("crc32c", "importlib.metadata") if kernels.NAME == "pure" else ()
    assert {name for name in heavy_of(modules) if not name.startswith(checksum)} == set()


#: Prints what a run lists, and the files that it opens, one a line.
_ASKING = """
import sys

from kdump.cli import main

def note(event, arguments):
    if event in ("os.listdir", "os.scandir", "open") and "clean" in str(arguments[0]):
        print(event, __import__("os").path.abspath(arguments[0]), file=sys.stderr)

sys.addaudithook(note)
main(sys.argv[1:])
"""


@pytest.mark.skipif(kernels.NAME == "pure", reason="the pure kernel has modules of its own")
@pytest.mark.parametrize("words", ["find-offset 1", "find-time latest"])
def test_lookup_imports_only_modules_for_a_sound_partition(words: str) -> None:
    modules = modules_after(*words.split(), str(SAMPLES / "4.1.1/d1/orders.lz4-0"))
    assert len({name for name in modules if name.startswith("kdump")}) <= 121


def test_lookup_lists_directories_and_opens_files_once() -> None:
    sample = SAMPLES / "4.1.1/d1/orders.lz4-0"
    done = subprocess.run(
        [sys.executable, "-c", _ASKING, "find-offset", "-q", str(sample), "1"],
        capture_output=True,
        text=True,
        check=True,
    )
    asked = Counter(done.stderr.splitlines())
    assert f"os.listdir {sample}" in asked
    assert any(line.endswith(".log") for line in asked)
    # Whose a data directory is, is asked for the release and for the settings of topics.
    more = {line for line, times in asked.items() if times > 1}
    assert more <= {f"open {sample.parent / 'meta.properties'}"}


def test_group_help_lists_all_commands() -> None:
    result = run("--help")
    assert result.exit_code == 0
    assert "Show records" in result.output


def test_group_help_has_the_summary_of_each_command() -> None:
    group = cli
    assert isinstance(group, LazyGroup)
    context = click.Context(group)
    formatter = click.HelpFormatter(width=200)
    group.format_commands(context, formatter)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        assert command.short_help in formatter.getvalue()


def test_version_names_the_kernel() -> None:
    result = run("--version")
    assert result.output == f"kdump {__version__} ({kernels.NAME} kernel)\n"


@pytest.mark.parametrize("args", [["nonesuch"], ["dump", "--nonesuch"], ["--nonesuch"]])
def test_wrong_usage_exits_with_2(args: list[str]) -> None:
    assert run(*args).exit_code == 2


def test_module_runs_like_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kdump", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("kdump ")


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("du", "dump"),
        ("dump --form", "--format"),
        ("find-time -1 --expl", "--explain"),
        ("predict --broker-version 3.9", "3.9"),
        ("predict --broker-version 0.10.", "0.10.2"),
        ("usage --by topic,pr", "topic,producer"),
        ("duplicates --by key,v", "key,value"),
        ("cluster --what topics,acl", "topics,acls"),
        ("verify --summary-by b", "broker"),
        (f"dump {SAMPLES / '4.1.1/d2'} --topic nul", "nulls_all"),
        (f"dump /nonesuch {SAMPLES / '4.1.1/d2/nulls_all-0'} --topic nul", "nulls_all"),
    ],
)
def test_completion_offers_names(words: str, wanted: str) -> None:
    line = f"kdump {words}"
    environment = {
        **os.environ,
        "_KDUMP_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split()) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-m", "kdump"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"plain,{wanted}" in done.stdout.splitlines()


def test_completion_omits_hostile_topic_names(tmp_path: Path) -> None:
    for name in ("orders-0", "orders-1", "or ders\n-0", "orders-x", "ordinary-0", "o\x1b-0"):
        (tmp_path / name).mkdir()
    asked = (sys.executable, "-m", "kdump")
    environment = {
        **os.environ,
        "_KDUMP_COMPLETE": "bash_complete",
        "COMP_WORDS": "kdump dump --topic ord",
        "COMP_CWORD": "3",
    }
    done = subprocess.run(asked, env=environment, cwd=tmp_path, capture_output=True, check=False)
    assert done.stdout == b"plain,orders\nplain,ordinary\n"


def test_time_zone_may_be_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    words = "dump", "--format", "table", "--limit", "1", SAMPLES / "4.1.1/d1/orders.zstd-0"
    in_utc = run(*words).stdout
    monkeypatch.setenv("KDUMP_UTC_OFFSET", "+02:00")
    assert run(*words).stdout == run(*words, "--utc-offset", "+02:00").stdout != in_utc
