"""The twins have the same rooms: files of one name, which hold the same functions."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
KERNELS = PROJECT / "kdump" / "kernels"
PURE = {path.stem: path for path in sorted((KERNELS / "_pure").glob("[!_]*.py"))}
COMPILED = {path.stem: path for path in sorted((KERNELS / "_compiled").iterdir())}
HEAD = (KERNELS / "_fast.pyx").read_text("utf-8")

each_room = pytest.mark.parametrize("room", PURE)


def exported(room: str) -> set[str]:
    """Name the kernel's functions that the pure twin has in a room."""
    init = ast.parse((KERNELS / "_pure" / "__init__.py").read_text("utf-8"))
    return {
        alias.name
        for node in ast.walk(init)
        if isinstance(node, ast.ImportFrom) and node.module == f"kdump.kernels._pure.{room}"
        for alias in node.names
    }


def test_modules_have_the_same_names() -> None:
    assert sorted(COMPILED) == sorted(PURE)
    assert {path.suffix for path in COMPILED.values()} == {".pxi"}


@each_room
def test_modules_contain_the_same_functions(room: str) -> None:
    text = COMPILED[room].read_text("utf-8")
    assert set(re.findall(r"^def (\w+)", text, re.MULTILINE)) == exported(room)


@each_room
def test_modules_have_the_same_docstrings(room: str) -> None:
    words = ast.get_docstring(ast.parse(PURE[room].read_text("utf-8")))
    assert words
    assert COMPILED[room].read_text("utf-8").splitlines()[0] == f"# {words.splitlines()[0]}"


def test_map_lists_each_module_and_its_functions() -> None:
    drawn = dict(re.findall(r"^    (\w+)  +(.+)$", HEAD.split('"""')[1], re.MULTILINE))
    assert list(drawn) == re.findall(r'^include "_compiled/(\w+)\.pxi"$', HEAD, re.MULTILINE)
    assert sorted(drawn) == sorted(PURE)
    for room, line in drawn.items():
        assert exported(room) <= set(line.split(", ")), room


def test_change_in_any_module_rebuilds_the_kernel() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))
    depends = project["tool"]["setuptools"]["ext-modules"][0]["depends"]
    for path in COMPILED.values():
        assert str(path.relative_to(PROJECT)) in depends
