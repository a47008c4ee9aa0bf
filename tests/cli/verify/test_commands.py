"""Commands and reset plans that are printed for damage."""

import shlex
import shutil
import sys
from pathlib import Path

import corpus
import damage
import pytest
from click.testing import CliRunner
from verify_command import break_batch, break_index, log, rows, run

from kdump.cli import cli
from kdump.engine.verify.options import VerifyOptions
from kdump.engine.verify.run import verify
from kdump.findings.commands import command_for
from kdump.findings.finding import Finding


def test_printed_commands_run(data: Path) -> None:
    break_batch(data)
    break_index(data)
    text = run("--format", "table", data).stdout
    commands = [line.split("→ ")[1] for line in text.splitlines() if "→ kdump" in line]
    assert len(commands) == 2
    for command in commands:
        words = shlex.split(command)[1:]
        if words[0] not in cli.list_commands(None):  # type: ignore[arg-type]
            continue
        result = CliRunner().invoke(cli, words)
        assert result.exit_code in (0, 3), result.output
        if words[0] == "dump":
            assert f"position {len(log(0)) // 5:,} " in result.stdout


def test_plan_has_one_line_for_each_partition(data: Path) -> None:
    break_batch(data)
    for base in (0, 10):
        path = data / "orders-0" / f"{base:020}.log"
        path.write_bytes(damage.flip(path.read_bytes(), len(log(0)) // 5 + 70))
    shutil.copytree(data / "orders-0", data / "a b-0")
    shutil.copytree(data, data.parent / "replica")
    found = [row for row in rows(run(data)) if row["row"] == "finding" and row["served_from"]]
    result = run("--format", "reset-csv", data, data.parent / "replica")
    assert result.exit_code == 3
    assert result.stdout == "orders,0,4\norders,1,14\n"
    assert {(row["partition"], row["served_from"]) for row in found} == {(0, 4), (0, 14), (1, 14)}
    told = result.stderr.splitlines()
    assert told[:2] == [
        "kdump: orders-0: from the damage at offset 2 to 4",
        "kdump: orders-1: from the damage at offset 12 to 14",
    ]
    assert told[2].startswith("kdump: orders-0: not in the plan, more damage at offset 12: kafka-")
    assert told[2].endswith(" --topic orders:0 --to-offset 14 --execute")
    assert told[3] == "kdump: left out: Kafka cannot have a topic named 'a b'"
    assert len(told) == 5


def test_plan_without_damage_is_empty(data: Path) -> None:
    result = run("--format", "reset-csv", data)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("kdump: nothing to reset")


def test_printed_plan_command_writes_the_plan(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdump.output.damage_plan.SPELLED", 1)
    break_batch(data)
    shutil.copytree(data / "orders-1", data / "orders-2")
    monkeypatch.chdir(data.parent)
    words = ["verify", "--format", "table", str(data)]
    monkeypatch.setattr(sys, "argv", ["kdump", *words])
    text = CliRunner().invoke(cli, words).stdout
    [command] = [line.split("→ ")[1] for line in text.splitlines() if "→ kdump verify" in line]
    assert CliRunner().invoke(cli, shlex.split(command)[1:]).exit_code == 3
    assert Path("FILE").read_text() == "orders,1,14\norders,2,14\n"
    tool = "→ kafka-consumer-groups.sh --bootstrap-server BOOTSTRAP --group GROUP "
    commands = [line.split(tool)[1] for line in text.splitlines() if tool in line]
    assert commands == ["--describe", "--reset-offsets --from-file FILE --execute"]


@pytest.mark.parametrize("case", ["killed", "clean"])
def test_commands_for_real_damage_show_the_damage(case: str) -> None:
    """Each command does what is promised: it shows the place, or plans to mend the file."""
    directory = corpus.corpus(f"modern/recovery/{case}/before")
    shown: set[str] = set()
    for item in verify([str(path) for path in directory.iterdir()], VerifyOptions(deep=True)):
        words = command_for(item) if isinstance(item, Finding) else None
        if words is None:
            continue
        assert isinstance(item, Finding)
        result = CliRunner().invoke(cli, list(map(str, words[1:])))
        assert result.exit_code in (0, 3), result.output
        if words[1:3] == ("dump", "--hex"):
            assert f"position {item.position:,} " in result.stdout
        elif words[1:3] == ("dump", "--batches"):
            assert f'"position":{item.position},' in result.stdout
        shown.add(" ".join(words[1:3]))
    assert shown == {"dump --hex", "dump --batches", "dump --entries", "reindex --only"}


def test_report_of_24_broker_damages_fits_120_lines(tmp_path: Path) -> None:
    sample = Path(__file__).parents[3] / "sample-data/clean/4.1.1"
    shutil.copytree(sample, tmp_path / "node")
    logs = [
        path
        for path in sorted((tmp_path / "node").rglob("*.log"))
        if path.stat().st_size > 3000 and "__cluster" not in str(path)
    ][:24]
    for path in logs:
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 4
        path.write_bytes(content)
    result = run("--format", "table", tmp_path / "node")
    lines = result.stdout.splitlines()
    assert "24 damage." in lines
    assert len(lines) <= 120
    assert sum(line.startswith("DAMAGE") for line in lines) in (9, 10)  # long paths are folded
    every = run("--all", "--format", "table", tmp_path / "node").stdout.splitlines()
    assert sum(line.startswith("DAMAGE") for line in every) == 24


def test_missing_tier_is_wrong_usage(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["verify", "--tier", str(tmp_path / "none"), str(tmp_path)])
    assert result.exit_code == 2
    assert "is not a directory" in result.stderr
