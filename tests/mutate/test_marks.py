"""That code with marks says which of its blocks ran, in whichever process."""

import os
import subprocess
import sys
from pathlib import Path

from mutate import marks

_MODULE = '''"""A module."""

from __future__ import annotations

import os


def sign(number):
    """Give a sign."""
    if number < 0:
        text = "-"
    else:
        text = "+"
    return text


def forked():
    child = os.fork()
    if not child:
        sign(-1)
        os._exit(0)
    os.waitpid(child, 0)
'''


def test_executed_blocks_are_marked(tmp_path: Path) -> None:
    module = tmp_path / "kdump" / "__init__.py"
    module.parent.mkdir()
    module.write_text(_MODULE)
    blocks = marks.compile_package(tmp_path)

    def lines_of(code: str) -> set[int]:
        marked = tmp_path / "marks"
        marked.write_bytes(bytes(len(blocks.modules)))
        start = Path(marks.__file__).parent / "start"
        path = os.pathsep.join((str(tmp_path), str(start)))
        environment = {"PYTHONPATH": path, "MUTATE_MARKS": str(marked)}
        subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, check=True)
        numbers = [*marks.unpack(marks.pack(marked.read_bytes()))]
        assert {blocks.modules[number] for number in numbers} <= {"kdump/__init__.py"}
        return {line for number in numbers for line in blocks.lines[number]}

    assert lines_of("import kdump") == set()
    assert lines_of("import kdump; assert kdump.sign(1) == '+'") == {9, 10, 12, 13, 14}
    assert {11, 20, 21} <= lines_of("import kdump; kdump.forked()")
    assert lines_of("import kdump; assert kdump.sign.__doc__ == 'Give a sign.'") == set()
    assert module.read_text() == _MODULE
