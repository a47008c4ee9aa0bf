"""What the pages about Python show passes the checkers of types that users have."""

import subprocess
import sys
from pathlib import Path

import pytest


def test_examples_pass_pyright_and_mypy() -> None:
    pytest.importorskip("basedpyright")
    pytest.importorskip("mypy")
    tool = Path(__file__).parents[2] / "tools" / "typed_examples.py"
    done = subprocess.run([sys.executable, tool], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
