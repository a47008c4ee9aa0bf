"""Commands on sample data, and what comes of them wherever it lies."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner, Result

from kdump.cli import LazyGroup, cli

assert isinstance(cli, LazyGroup)
CONTEXT = click.Context(cli, info_name="kdump")
#: All commands that there are.
NAMES = cli.list_commands(CONTEXT)
#: Those that read paths; sql reads what its query asks for.
READING = [name for name in NAMES if name not in ("schema", "sql")]
DATA = Path(__file__).parents[2] / "sample-data"
COMMANDS = [
    "verify --deep --format jsonl {}",
    "predict --format jsonl {}",
    "dump --format jsonl {}",
    "dump --entries --format jsonl {}",
    "dump --visible --isolation read_committed --format jsonl {}",
    "find-offset --format jsonl {} 5",
    "find-time --format jsonl {} 1700050000000",
]


def find_command(name: str) -> click.Command:
    """Return a command by its name."""
    assert isinstance(cli, LazyGroup)
    command = cli.get_command(CONTEXT, name)
    assert command is not None
    return command


def run(*words: object, stdin: bytes | None = None) -> Result:
    """Run kdump in this process; only an exit may raise."""
    result = CliRunner().invoke(cli, [str(word) for word in words], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def read_rows(result: Result) -> list[dict[str, Any]]:
    """Read the rows of JSON Lines on standard output."""
    return [json.loads(line) for line in result.stdout.splitlines()]


def answer(command: str, root: str) -> tuple[int, str, str]:
    result = run(*command.format(root).split())
    texts = (re.sub(r'"seconds":[0-9.e-]+', "", text) for text in (result.stdout, result.stderr))
    stdout, stderr = (text.replace(root, "ROOT") for text in texts)
    return result.exit_code, stdout, stderr


def answer_in_a_store(command: str, root: str) -> tuple[int, str, str]:
    """Return what a store answers that holds a local path.

    Whether a node starts is only forecast where one could. A file to remove before a start is one
    to leave out of a copy.
    """
    status, rows, error = answer(command, root)
    rows = re.sub(r"(?<= )after rm (ROOT/\S+ \(so that [a-z ]+\))", r"in a copy without \1", rows)
    rows = re.sub(r"(?<=\) or )rm (ROOT/\S+ \(so that [a-z ]+\))", r"\1", rows)
    rows = "".join(line for line in rows.splitlines(True) if '"row":"node-start"' not in line)
    return status, rows, error


def modules_after(*args: str) -> set[str]:
    """Return the modules imported by a run of the command line in a fresh interpreter."""
    code = (
        "import json, sys\n"
        "from kdump.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *args], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stderr.splitlines()[-1]))
