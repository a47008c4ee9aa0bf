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
WITH_KDUMP = {
    **os.environ,
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
}
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
def test_script_equals_that_of_click(shell: type[ShellComplete], path: str) -> None:
    complete = shell(click.Command("kdump"), {}, "kdump", "_KDUMP_COMPLETE")
    # The base class's: bash's own asks which bash is installed before it prints.
    script = ShellComplete.source(complete).strip()
    script = script.replace('string split ","', 'string split --max 1 ","')  # keep descriptions
    assert (COMPLETIONS / path).read_text("utf-8").strip() == script


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish here")
def test_fish_keeps_descriptions_with_commas() -> None:
    script = f"source {COMPLETIONS / 'fish/kdump.fish'}; complete --do-complete 'kdump dum'"
    done = subprocess.run(["fish", "-c", script], env=WITH_KDUMP, capture_output=True, check=True)
    assert done.stdout.decode() == "dump\tShow records, batch headers, or index entries.\n"


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
@pytest.mark.parametrize(
    ("line", "expected"), [("kdump dum", "dump"), ("kdump dump --batc", "--batches")]
)
def test_bash_completes_words(line: str, expected: str) -> None:
    words = line.split()
    script = (
        f"source {COMPLETIONS / 'bash/kdump'}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1};"
        ' _kdump_completion kdump; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", script], env=WITH_KDUMP, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [expected]
