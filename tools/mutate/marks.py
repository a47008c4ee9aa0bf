"""Code that marks what runs: each block of statements sets a byte of a mapped file.

The bytecode of a copy of the package is compiled with a mark at the head of each block, the source
stays as it is. A mark costs a store, so the tests take little longer than without. Processes that
tests start or fork mark in the same file.
"""

from __future__ import annotations

import ast
import importlib.util
import marshal
import zlib
from collections.abc import Iterator
from pathlib import Path

#: A dictionary takes the marks where nobody opened a file for them.
_HEAD = """
try:
    __mutate__
except NameError:
    import builtins
    builtins.__mutate__ = {}
"""
_UNCHECKED = (0b01).to_bytes(4, "little") + bytes(8)  # bytecode that no source is compared with


class Blocks:
    """The blocks of a package: of which module each is, and the lines that it covers."""

    def __init__(self) -> None:
        self.modules: list[str] = []  # by the number of a block
        self.lines: list[set[int]] = []

    def mark(self, path: str, tree: ast.Module) -> None:
        """Put a mark at the head of each block of a module that functions run."""
        for body in [*_bodies(tree, is_run=False)]:
            number = len(self.modules)
            self.modules.append(path)
            self.lines.append({line for one in body for line in _own_lines(one)})
            mark = ast.parse(f"__mutate__[{number}] = 1").body[0]
            for node in ast.walk(mark):
                if hasattr(node, "lineno"):
                    ast.copy_location(node, body[0])
            is_doc = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
            body.insert(int(is_doc), mark)
        at = 0
        while at < len(tree.body) and (
            isinstance(tree.body[at], ast.ImportFrom)
            or (isinstance(tree.body[at], ast.Expr) and at == 0)
        ):
            at += 1
        tree.body[at:at] = ast.parse(_HEAD).body


def _bodies(node: ast.AST, is_run: bool) -> Iterator[list[ast.stmt]]:
    """Yield the lists of statements below a node that run when a function is called."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        is_run = True
    for name, value in ast.iter_fields(node):
        parts = value if isinstance(value, list) else [value]
        if is_run and parts and name != "decorator_list" and isinstance(parts[0], ast.stmt):
            yield value
        for part in parts:
            if isinstance(part, ast.AST):
                yield from _bodies(part, is_run and not isinstance(node, ast.ClassDef))


def _own_lines(node: ast.stmt) -> set[int]:
    """Give the lines of a statement without those of the blocks in it."""
    lines = set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    for body in _bodies(node, is_run=True):
        lines -= set(range(body[0].lineno, (body[-1].end_lineno or body[-1].lineno) + 1))
    return lines | {node.lineno}


def compile_package(root: Path) -> Blocks:
    """Write the bytecode of all modules of a copy, with marks."""
    blocks = Blocks()
    for source in sorted(root.glob("kdump/**/*.py")):
        tree = ast.parse(source.read_bytes())
        blocks.mark(str(source.relative_to(root)), tree)
        code = compile(tree, str(source), "exec", dont_inherit=True)
        target = Path(importlib.util.cache_from_source(str(source)))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(importlib.util.MAGIC_NUMBER + _UNCHECKED + marshal.dumps(code))
    return blocks


def pack(marks: bytes) -> str:
    """Write marks in few characters."""
    return zlib.compress(marks, 1).hex()


def unpack(text: str) -> Iterator[int]:
    """Give the numbers of the blocks that were marked."""
    marks = zlib.decompress(bytes.fromhex(text))
    at = marks.find(1)
    while at >= 0:
        yield at
        at = marks.find(1, at + 1)
