"""Write what commands print into the console blocks of Markdown pages: record_examples.py PAGE...

A long output keeps its first lines; a line of `...` stands for the rest, and for lines that differ
from machine to machine. Look at the difference before you commit.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
_LINES = 24
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def main(pages: list[str]) -> None:
    """Record the pages."""
    for page in map(Path, pages):
        page.write_text(_BLOCK.sub(_record, page.read_text("utf-8")), "utf-8")


def _record(block: re.Match[str]) -> str:
    examples = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block[1], re.MULTILINE)
    return (
        "```console\n"
        + "".join(f"$ {one}\n{_keep_output(one, known)}" for one, known in examples)
        + "```"
    )


def _keep_output(command: str, known: str) -> str:
    """Return what is written of an output where it still holds, else the new output."""
    text = _print_output(command)
    pattern = re.escape(known).replace(re.escape("...\n"), r"(?:.*\n)*")
    return known if known and re.fullmatch(pattern, text) else _shorten(text)


def _print_output(command: str) -> str:
    scripts = Path(sys.executable).parent
    with tempfile.TemporaryDirectory() as scratch:
        env = {
            "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
            "COLUMNS": "100",
            "LC_ALL": "C.UTF-8",
            "TMPDIR": scratch,
        }
        words = ["bash", "-c", f"{{ {command}; }} 2>&1"]
        done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    return done.stdout


def _shorten(text: str) -> str:
    lines = []
    for line in text.splitlines(keepends=True):
        if f"{ROOT}/" in line or re.search(r"\d s\.$", line):  # other ones elsewhere, or later
            line = "...\n"
        if line != "...\n" or lines[-1:] != [line]:
            lines.append(line)
    return "".join(lines if len(lines) <= _LINES + 4 else [*lines[:_LINES], "...\n"])


if __name__ == "__main__":
    main(sys.argv[1:])
