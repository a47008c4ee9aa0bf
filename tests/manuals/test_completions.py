"""The completion scripts that are installed against those click would print."""

import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

COMPLETIONS = Path(__file__).parents[2] / "completions"
# The scripts were printed by this series of click; another may print them differently.
CLICK = "8.5"
SHELLS = [
    (BashComplete, "bash/kdump"),
    (ZshComplete, "zsh/_kdump"),
    (FishComplete, "fish/kdump.fish"),
]


@pytest.mark.skipif(
    not metadata.version("click").startswith(f"{CLICK}."), reason=f"click is not {CLICK}"
)
@pytest.mark.parametrize(("shell", "path"), SHELLS, ids=lambda value: str(value))
def test_script_is_clicks(shell: type[ShellComplete], path: str) -> None:
    complete = shell(click.Command("kdump"), {}, "kdump", "_KDUMP_COMPLETE")
    # The base class's: bash's own asks which bash is installed before it prints.
    assert (COMPLETIONS / path).read_text("utf-8").strip() == ShellComplete.source(complete).strip()


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
@pytest.mark.parametrize(
    ("line", "expected"), [("kdump dum", "dump"), ("kdump dump --batc", "--batches")]
)
def test_bash_completes(line: str, expected: str) -> None:
    words = line.split()
    script = (
        f"source {COMPLETIONS / 'bash/kdump'}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1};"
        ' _kdump_completion kdump; echo "${COMPREPLY[@]}"'
    )
    scripts = Path(sys.executable).parent
    done = subprocess.run(
        ["bash", "-c", script],
        env={**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [expected]
