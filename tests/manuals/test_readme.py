"""The examples of the README and of the tour against what the commands print; the README's size."""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import click
import forked
import pytest

from kdump.cli import cli
from kdump.cli.symptoms import SYMPTOMS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
PLAYBOOKS = sorted((ROOT / "docs/playbooks").glob("*.md"))
TOUR = (ROOT / "docs/tour.md").read_text("utf-8")
# Each "$ command" of a console block with the lines up to the next one.
EXAMPLES = [
    (command, output)
    for page in (README, TOUR, *(path.read_text("utf-8") for path in PLAYBOOKS))
    for block in re.findall(r"^```console\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    for command, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
]


@pytest.mark.parametrize(("command", "output"), EXAMPLES, ids=[c for c, _ in EXAMPLES])
def test_examples_print_the_shown_output(
    command: str, output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Standard output and standard error together; a line of `...` stands for any lines."""
    scripts = Path(sys.executable).parent
    env = {
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "100",
        "LC_ALL": "C.UTF-8",
        "KDUMP_PURE": os.environ.get("KDUMP_PURE", ""),
    }
    monkeypatch.chdir(ROOT)
    env["TMPDIR"] = str(tmp_path)
    with tempfile.TemporaryFile() as shown, Path(os.devnull).open("rb") as nothing:
        files = nothing.fileno(), shown.fileno(), shown.fileno()
        if re.fullmatch(r"kdump [\w./:+=, '*-]*", command):  # a shell would only find files
            words = [
                one
                for word in shlex.split(command)[1:]
                for one in ("*" in word and sorted(map(str, Path().glob(word)))) or [word]
            ]
            os.waitpid(forked.start(words, files, env), 0)
        else:
            words = ["bash", "-c", f"{{ {command}; }} 2>&1"]
            subprocess.run(words, env=env, stdin=nothing, stdout=shown, check=False)
        shown.seek(0)
        text = shown.read().decode()
    pattern = re.escape(output).replace(re.escape("...\n"), r"(?:.*\n)*")
    assert re.fullmatch(pattern, text), text


def test_each_command_is_listed_once() -> None:
    commands = re.findall(r"^python3 -m venv .*$", README, re.MULTILINE)
    assert len(commands) == 2
    assert commands[0].split(" && ")[-1].startswith(".venv/bin/kdump sample-data/")
    assert commands[1].endswith(".venv/bin/pytest")
    assert all((ROOT / word).exists() for word in commands[0].split() if "sample-data" in word)


def test_readme_is_short() -> None:
    """What is more than a first look belongs in the tour."""
    assert len(README.splitlines()) <= 200
    assert README.count("```console") == 5


def test_readme_summaries_match_the_help() -> None:
    listed = dict(re.findall(r"^\| \[`kdump ([a-z-]+)`\]\(.*\) \| (.*) \|$", README, re.MULTILINE))
    context = click.Context(cli, info_name="kdump")
    helps = {name: cli.get_command(context, name) for name in cli.list_commands(context)}
    assert set(listed) == set(helps)
    for name, text in listed.items():
        command = helps[name]
        assert command is not None
        assert text.lower() == command.get_short_help_str(200).rstrip(".").lower()


def test_playbooks_match_the_symptoms() -> None:
    """README, the list of pages and `kdump help` have the same symptoms and first commands."""
    listed = [(symptom.title, symptom.page, symptom.commands[0]) for symptom in SYMPTOMS]
    for text, folder in ((README, "docs/playbooks/"), (PLAYBOOKS[0].read_text("utf-8"), "")):
        rows = re.findall(
            rf"^\| \[(.*)\]\({folder}([\w-]+)\.md\) \| `(.*)` \|$", text, re.MULTILINE
        )
        assert rows == listed
    assert {path.stem for path in PLAYBOOKS} == {"README", *(page for _, page, _ in listed)}
    for title, page, command in listed:
        text = (ROOT / f"docs/playbooks/{page}.md").read_text("utf-8")
        assert text.startswith(f"# {title}\n")
        first = text.partition("```sh\n")[2].partition("```")[0]
        assert command.split()[:2] == [*first.split(), ""][:2] or command in first
        assert "```console" in text


#: Options of Kafka's tools that the playbooks use; each was carried out with those of 4.4.
_TOOLS = {
    "kafka-consumer-groups.sh": "--bootstrap-server --group --reset-offsets --from-file --execute "
    "--topic --to-offset",
    "kafka-delete-records.sh": "--bootstrap-server --offset-json-file",
    "kafka-leader-election.sh": "--bootstrap-server --election-type --topic --partition "
    "--all-topic-partitions",
    "kafka-metadata-quorum.sh": "--bootstrap-controller --status",
    "kafka-storage.sh": "--cluster-id --config",
}


def test_commands_of_playbooks_are_accepted() -> None:
    """Each command line, also those in the text, has options and values that exist."""
    seen = set()
    for page in PLAYBOOKS:
        text = page.read_text("utf-8")
        lines = [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
                 for line in block.splitlines()]  # fmt: skip
        prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
        lines += [code for code in re.findall(r"`([^`]+)`", prose) if " --" in code]
        lines += re.findall(r"^ *→ (kafka-.*)", text, re.MULTILINE)
        for line in lines:
            command = re.split(r" (?:\||&&|>|<<<) ", " ".join(line.split()))[0]
            tool, *words = shlex.split(command)
            if tool == "kdump" and words[0] not in ("help", "version"):
                chosen = cli.get_command(click.Context(cli), words[0])
                assert chosen is not None, line
                chosen.make_context(words[0], words[1:])
            elif tool in _TOOLS:
                given = {word for word in words if word.startswith("--")}
                assert given <= {*_TOOLS[tool].split()}, line
            elif tool.startswith("kafka-") and words:
                pytest.fail(f"{page.name}: {line}")
            seen.add(tool)
    assert seen > {"kdump", *_TOOLS} - {"kafka-delete-records.sh"}
