"""What people type first leads to what they need."""

import json
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from commands import NAMES
from each import each

from kdump.cli import cli
from kdump.cli.suggestions import _MEANT
from kdump.cli.symptoms import SYMPTOMS
from kdump.option_values import read_time

LOG = Path(__file__).parents[2] / "sample-data/clean/4.1.1/d1/orders.zstd-0"


def kdump(*args: object, **environment: str) -> Result:
    return CliRunner(env=environment).invoke(cli, [str(arg) for arg in args])


@each(
    ("word", "command"),
    [("ls", "info"), ("repair", "reindex"), ("lag", "groups"), ("verifi", "verify")],
)
def test_unknown_command_suggests_one(word: str, command: str) -> None:
    result = kdump(word)
    assert result.exit_code == 2
    assert f"\n  kdump {command} " in result.stderr
    assert "\\n" not in result.stderr


@each(
    ("words", "meant"),
    [
        ("dump --since 5m", "Did you mean --from-time?"),
        ("timeline --until 5m", "Did you mean --to?"),
        ("dump --from 5", "Did you mean --from-offset or --from-time"),
        ("dump --count 5", "Did you mean --limit or --tail?"),
        ("verify --json", "Did you mean --format jsonl?"),
        ("info --log-dir", "Did you mean PATHS, without an option?"),
        ("verify --depp", "Did you mean --deep or --help?"),
        ("dump -n x", "'x' is not a whole number"),
        ("-v", "-v is not an option of kdump; options follow the command"),
        ("457", "To find an offset: kdump find-offset PATH 457"),
        ("zzzz", "no command or file 'zzzz'; kdump --help lists the commands"),
    ],
)
def test_options_of_other_programs_get_a_suggestion(words: str, meant: str) -> None:
    result = kdump(*words.split(), LOG)
    assert result.exit_code == 2
    assert meant in result.stderr


def test_error_in_a_variable_names_the_variable() -> None:
    for name, value in (("KDUMP_JOBS", "zero"), ("KDUMP_FORMAT", "xx")):
        assert f"Invalid value for {name}, for '-" in kdump("verify", LOG, **{name: value}).stderr
    assert "Invalid value for '-j' / '--jobs'" in kdump("verify", "--jobs", "zero", LOG).stderr


def test_suggestions_name_existing_commands() -> None:
    assert set(_MEANT) == set(NAMES)


def test_unknown_word_or_path_prints_a_hint() -> None:
    assert "kdump --help lists the commands" in kdump("zzzz").stderr
    assert kdump(LOG).output == kdump("info", LOG).output
    assert "\x1b" not in kdump("l\x1b[2Js").stderr


def test_kdump_without_arguments_prints_help() -> None:
    result = kdump()
    assert "\n  verify " in result.output + result.stderr
    assert "\\n" not in result.output + result.stderr


@pytest.mark.parametrize("words", [("version",), ("-V",), ("--version",)])
def test_version_is_printed(words: tuple[str, ...]) -> None:
    assert kdump(*words).output.startswith("kdump ")


def test_help_shows_one_command_or_all() -> None:
    assert kdump("help").output == kdump("--help").output
    assert kdump("help", "find-time").output == kdump("find-time", "--help").output


def test_help_after_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert kdump("verify", "help").output == kdump("verify", "--help").output
    (tmp_path / "help").mkdir()
    assert "No such file" not in kdump("verify", "help").stderr
    assert "Usage:" not in kdump("verify", "help").output


def test_number_after_a_path_names_the_commands_for_an_offset() -> None:
    result = kdump(LOG, "457")
    assert result.exit_code == 2
    assert f"\n  kdump find-offset {LOG} 457\n" in result.stderr
    assert f"\n  kdump dump --from-offset 457 {LOG}\n" in result.stderr


@each("text", ["1 hour ago", "60 minutes ago", "60min ago", "3600 s ago", "1h ago"])
def test_time_ago(text: str) -> None:
    assert abs(read_time(text) - read_time("now-1h")) < 60_000


def test_time_ago_of_no_unit() -> None:
    with pytest.raises(ValueError, match="'30 minutes ago'"):
        read_time("3 ages ago")


@each("symptom", SYMPTOMS, ids=lambda symptom: symptom.page)
def test_help_shows_a_symptom(symptom: object) -> None:
    assert isinstance(symptom, type(SYMPTOMS[0]))
    result = kdump("help", *symptom.title.split())
    assert result.exit_code == 0
    assert result.output.startswith(symptom.title)
    for command in symptom.commands:
        assert f"    {command}\n" in result.output


def test_help_of_an_unknown_symptom_lists_all() -> None:
    result = kdump("help", "zzzz")
    assert result.exit_code == 1
    assert all(symptom.title in result.output for symptom in SYMPTOMS)


@each("command", NAMES)
def test_short_help_fits_one_screen(command: str) -> None:
    short, whole = kdump(command, "-h").output, kdump(command, "--help").output
    assert short.endswith(f"All options: kdump {command} --help\n")
    assert len(short.splitlines()) <= 45
    assert whole.startswith(short.partition("\nAll options")[0])
    assert 1 <= short.count("\n  kdump ") <= 3
    assert 2 <= short.count("\n  -") <= 10


def test_lookup_target_may_come_first() -> None:
    for target, command in (("457", "find-offset"), ("2023-11-15T09:27:35Z", "find-time")):
        assert kdump(command, target, LOG).output == kdump(command, LOG, target).output != ""
    assert "the last argument is OFFSET; 'x'" in kdump("find-offset", LOG, "x").stderr
    assert "Error: '1700050000' is in 1970" in kdump("find-time", "1700050000", LOG).stderr


def test_existing_path_is_not_taken_as_a_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "457").mkdir()
    monkeypatch.chdir(tmp_path)
    assert "the last argument is OFFSET; 'x'" in kdump("find-offset", "457", "x").stderr


def test_everyday_times_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_795_735_260_593_000_000)
    day, hour = 86_400_000, 3_600_000
    assert read_time("today") % day == read_time("yesterday") % day == 0
    assert read_time("yesterday 14:05") % day == 14 * hour + 5 * 60_000
    assert read_time("today 00:00+02:00") % day == 22 * hour
    assert read_time("now-2h") == read_time("-2h") == 1_795_735_260_593 - 2 * hour
    [row] = map(json.loads, kdump("find-time", LOG, "-2h").output.splitlines())
    assert row["row"] == "time-lookup"


def test_json_suggests_jsonl() -> None:
    result = kdump("verify", "--format", "json", LOG)
    assert result.exit_code == 2
    assert "one object per line: jsonl" in result.stderr


def test_defaults_are_read_from_the_environment(tmp_path: Path) -> None:
    asked = ("dump", "--limit", 1, LOG)
    assert kdump(*asked, KDUMP_FORMAT="csv").output == kdump(*asked, "--format", "csv").output
    assert kdump(*asked, "--format", "jsonl", KDUMP_FORMAT="csv").output == kdump(*asked).output
    page = tmp_path / "a.html"
    assert kdump("report", "-o", page, LOG, KDUMP_FORMAT="table").exit_code in (0, 3)
    assert page.read_bytes().startswith(b"<!")
    table = ("dump", "--format", "table", "--limit", 1, LOG)
    there = kdump(*table, KDUMP_UTC_OFFSET="+02:00").output
    assert there == kdump(*table, "--utc-offset", "+02:00").output != kdump(*table).output
    old = ("find-time", LOG, "-1")
    assert kdump(*old, KDUMP_BROKER_VERSION="0.9.0.1").output != kdump(*old).output
    assert kdump("verify", LOG, KDUMP_JOBS="none").exit_code == 2
