"""Small changes to a module's source: where one can be made, and what stands there afterwards.

A change is one of a comparison, a negated condition, `and` for `or`, arithmetic, a constant, a
statement or a return value left out, two arguments swapped, a named one dropped. What no test can
see is left out, each kind with its reason, in `UNSEEN` and `_is_unseen`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

COMPARED: dict[type[ast.cmpop], tuple[str, tuple[str, ...]]] = {
    ast.Lt: ("<", ("<=", ">=")),
    ast.LtE: ("<=", ("<", ">")),
    ast.Gt: (">", (">=", "<=")),
    ast.GtE: (">=", (">", "<")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.Is: ("is", ("is not",)),
    ast.IsNot: (r"is\s+not", ("is",)),
    ast.In: ("in", ("not in",)),
    ast.NotIn: (r"not\s+in", ("in",)),
}
CALCULATED: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "//"),
    ast.FloorDiv: ("//", "*"),
    ast.Div: ("/", "*"),
    ast.Mod: ("%", "*"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.BitXor: ("^", "&"),
}
#: To these the order of arguments is all one.
SYMMETRIC = frozenset(("max", "min", "gcd", "print", "suppress"))
#: Named arguments that only people, mypy or the memory meet.
NOT_SEEN_BY_NAME = frozenset(
    ("doc", "frozen", "help", "kw_only", "maxsize", "metavar", "repr", "short_help", "slots")
)
_TOKEN = re.compile(r"[\w.:/=@-]+")

#: Statements that no test can see changed, and why.
UNSEEN = {
    "docstring": "is for people",
    "__all__, __slots__": "are for tools, and for memory",
    "__repr__": "is for those who search for a defect",
    "annotation": "nobody evaluates it",
    "TYPE_CHECKING": "is never run",
    "cast, TypeVar, NewType, type alias": "are for mypy",
    "assert": "holds: only a defect makes it fail",
    "cache": "of functools: what a function gives is the same without it",
    "overload": "is for mypy",
    "NotImplementedError, AssertionError": "are raised by what never runs",
    "del name": "frees memory, or says that a parameter is not used",
    "a size in bits, set at import": "of a buffer, or a bound of memory: another does as well",
    "return False": "means no more than None does; it is changed to True instead",
}


class Change(NamedTuple):
    """One change: bytes `start` to `end` of a file give way to `new`."""

    path: str  # below the project
    line: int
    kind: str
    start: int
    end: int
    new: str

    @property
    def key(self) -> str:
        """Name it, in one run of one source."""
        return f"{self.path}:{self.start}-{self.end}:{self.new}"


class Module:
    """The source of a module, and the changes that can be made to it."""

    def __init__(self, path: str, source: bytes) -> None:
        self.path = path
        self.source = source
        self.tree = ast.parse(source)
        starts = [0]
        for line in source.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        self._starts = starts

    @cached_property
    def changes(self) -> dict[int, list[Change]]:
        """Give the changes of each line that has some."""
        found: dict[int, list[Change]] = {}
        for change in self._find_changes():
            found.setdefault(change.line, []).append(change)
        return found

    @cached_property
    def code_lines(self) -> set[int]:
        """Give the lines that something starts on which is run."""
        return {node.lineno for node in self._visible_nodes(self.tree) if hasattr(node, "lineno")}

    def apply(self, change: Change) -> bytes:
        """Give the source with a change made."""
        return self.source[: change.start] + change.new.encode() + self.source[change.end :]

    def is_sound(self, change: Change) -> bool:
        """Say whether it is Python that does something else, as far as a reader can say."""
        try:
            tree = ast.parse(self.apply(change))
        except (SyntaxError, ValueError):
            return False
        return ast.dump(tree) != ast.dump(self.tree)

    def diff(self, change: Change) -> str:
        """Show it on one line."""
        first = self._starts[change.line - 1]
        last = self.source.find(b"\n", change.end)
        rest = self.source[change.end : last]
        old, *more = self.source[first:last].decode().strip().splitlines()
        new = (self.source[first : change.start] + change.new.encode() + rest).decode().strip()
        cut = " …" if more else ""
        return f"{change.path}:{change.line}: {old}{cut}  ->  {' '.join(new.split())[:160]}"

    def function_at(self, line: int) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """Give the innermost function whose body a line lies in; None: it runs at import."""
        return self._functions.get(line)

    @cached_property
    def _functions(self) -> dict[int, ast.FunctionDef | ast.AsyncFunctionDef]:
        found: dict[int, ast.FunctionDef | ast.AsyncFunctionDef] = {}
        for node in ast.walk(self.tree):  # the innermost comes last
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                last = node.end_lineno or node.lineno
                found |= dict.fromkeys(range(node.body[0].lineno, last + 1), node)
        return found

    def lines_of(self, change: Change) -> set[int]:
        """Give the lines of the statement that a change lies in, of `if` and the like the head."""
        first = last = change.line
        for node in ast.walk(self.tree):  # the innermost comes last
            if isinstance(node, ast.stmt) and node.lineno <= change.line <= (node.end_lineno or 0):
                body = getattr(node, "body", None)
                first, last = node.lineno, node.end_lineno or node.lineno
                if isinstance(body, list):
                    last = max(first, body[0].lineno - 1)
        return set(range(first, max(last, change.line) + 1))

    def names_at(self, line: int) -> set[str]:
        """Give what is defined by the statements around a line that run at import."""
        names: set[str] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0):
                if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                    names.add(node.name)
                for target in getattr(node, "targets", [getattr(node, "target", None)]):
                    for part in ast.walk(target) if target is not None else ():
                        if isinstance(part, ast.Name):
                            names.add(part.id)
        return names

    # What can be changed -------------------------------------------------------------------------

    def _at(self, line: int, column: int) -> int:
        return self._starts[line - 1] + column

    def _span(self, node: ast.expr | ast.stmt | ast.keyword) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._at(node.lineno, node.col_offset), self._at(
            node.end_lineno, node.end_col_offset
        )

    def _text(self, node: ast.expr | ast.stmt) -> str:
        start, end = self._span(node)
        return self.source[start:end].decode()

    def _replace(self, node: ast.expr | ast.stmt, kind: str, new: str) -> Change:
        start, end = self._span(node)
        return Change(self.path, node.lineno, kind, start, end, new)

    def _between(
        self, left: ast.expr, right: ast.expr, spelled: str, kind: str, new: str
    ) -> Iterator[Change]:
        start, end = self._span(left)[1], self._span(right)[0]
        found = re.search(spelled.encode(), self.source[start:end])
        if found is not None:
            line = left.end_lineno or left.lineno
            line += self.source.count(b"\n", start, start + found.start())
            yield Change(self.path, line, kind, start + found.start(), start + found.end(), new)

    def _visible_nodes(self, node: ast.AST, is_stub: bool = False) -> Iterator[ast.AST]:
        """Walk over what a test can see."""
        yield node
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "type_params"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not _is_unseen(node, child):
                    yield from self._visible_nodes(child)

    def _find_changes(self) -> Iterator[Change]:
        for node in self._visible_nodes(self.tree):
            yield from self._of_conditions(node)
            yield from self._of_operators(node)
            yield from self._of_constants(node)
            yield from self._of_statements(node)
            yield from self._of_calls(node)

    def _of_conditions(self, node: ast.AST) -> Iterator[Change]:
        tests = [node.test] if isinstance(node, (ast.If, ast.While, ast.IfExp)) else []
        tests += node.ifs if isinstance(node, ast.comprehension) else []
        for test in tests:
            if not isinstance(test, (ast.Compare, ast.Constant)):
                if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
                    yield self._replace(test, "negation", f"({self._text(test.operand)})")
                else:
                    yield self._replace(test, "negation", f"(not ({self._text(test)}))")
        if isinstance(node, ast.BoolOp):
            old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            for left, right in pairwise(node.values):
                yield from self._between(left, right, rf"\b{old}\b", "and, or", new)

    def _of_operators(self, node: ast.AST) -> Iterator[Change]:
        if isinstance(node, ast.Compare):
            for (left, right), op in zip(
                pairwise([node.left, *node.comparators]), node.ops, strict=True
            ):
                spelled, others = COMPARED[type(op)]
                if spelled[0].isalpha():
                    spelled = rf"\b{spelled}\b"
                for other in others:
                    yield from self._between(left, right, spelled, "comparison", other)
        elif isinstance(node, ast.BinOp):
            yield from self._of_calculation(node.left, node.op, node.right)
        elif isinstance(node, ast.AugAssign):
            yield from self._of_calculation(node.target, node.op, node.value)

    def _of_calculation(
        self, left: ast.expr, op: ast.operator, right: ast.expr
    ) -> Iterator[Change]:
        if type(op) in CALCULATED and not _is_text(left) and not _is_text(right):
            old, new = CALCULATED[type(op)]
            yield from self._between(left, right, re.escape(old), "arithmetic", new)

    def _of_constants(self, node: ast.AST) -> Iterator[Change]:
        if not isinstance(node, ast.Constant):
            return
        value = node.value
        if isinstance(value, bool):
            yield self._replace(node, "constant", str(not value))
        elif isinstance(value, int):
            yield self._replace(node, "constant", str(value + 1))
        elif isinstance(value, float):
            yield self._replace(node, "constant", str(value * 2 + 1))
        elif isinstance(value, str) and _TOKEN.fullmatch(value) and self._text(node)[0] in "\"'":
            yield self._replace(node, "constant", repr(f"{value}X"))
        elif isinstance(value, bytes) and value:
            yield self._replace(node, "constant", repr(value + b"X"))

    def _of_statements(self, node: ast.AST) -> Iterator[Change]:
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            # A name that is missing when the module is imported fails every test.
            if node.value is not None and self.function_at(node.lineno) is not None:
                yield self._replace(node, "statement left out", "pass")
        elif isinstance(node, (ast.AugAssign, ast.Raise)) or _deletes(node):
            yield self._replace(node, "statement left out", "pass")
        elif isinstance(node, ast.Expr):
            if not isinstance(node.value, (ast.Constant, ast.Yield)):
                yield self._replace(node, "statement left out", "pass")
        elif isinstance(node, ast.Return) and node.value is not None:
            if not (isinstance(node.value, ast.Constant) and not node.value.value):
                yield self._replace(node, "return left out", "return None")
        elif isinstance(node, ast.Continue):
            yield self._replace(node, "loop", "break")
        elif isinstance(node, ast.Break):
            yield self._replace(node, "loop", "continue")

    def _of_calls(self, node: ast.AST) -> Iterator[Change]:
        if not isinstance(node, ast.Call):
            return
        name = self._text(node.func).rpartition(".")[2]
        if name not in SYMMETRIC:
            for left, right in pairwise(node.args):
                if self._text(left) != self._text(right) and not any(
                    isinstance(side, (ast.Starred, ast.GeneratorExp)) for side in (left, right)
                ):
                    start, end = self._span(left)[0], self._span(right)[1]
                    middle = self.source[self._span(left)[1] : self._span(right)[0]].decode()
                    new = f"{self._text(right)}{middle}{self._text(left)}"
                    yield Change(self.path, left.lineno, "arguments swapped", start, end, new)
        for keyword in node.keywords:
            if keyword.arg is not None and keyword.arg not in NOT_SEEN_BY_NAME:
                start, end = self._span(keyword)
                after = re.match(rb"\s*,", self.source[end:])
                if after is not None:
                    end += after.end()
                yield Change(self.path, keyword.lineno, "argument dropped", start, end, "")


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes))
    )


def _deletes(node: ast.AST) -> bool:
    """Say whether a statement takes something out of what others see."""
    return isinstance(node, ast.Delete) and not all(
        isinstance(target, ast.Name) for target in node.targets
    )


def _is_size(value: ast.expr) -> bool:
    """Say whether a value is a number shifted by bits, as sizes are written."""
    return isinstance(value, ast.BinOp) and isinstance(value.op, ast.LShift)


def _name_node(node: ast.AST) -> str:
    """Name what is called or applied, without what it lies in."""
    if isinstance(node, ast.Call):
        return _name_node(node.func)
    if isinstance(node, ast.Subscript):
        return _name_node(node.value)
    return getattr(node, "attr", getattr(node, "id", ""))


def _is_unseen(parent: ast.AST, node: ast.AST) -> bool:
    """Say whether no test can see a change there; `UNSEEN` has the reasons."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True  # a docstring, or the dots of a stub
    if isinstance(node, (ast.Assert, ast.Import, ast.ImportFrom)):
        return True
    if isinstance(node, ast.If) and _name_node(node.test) == "TYPE_CHECKING":
        return True
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        decorators = {_name_node(one) for one in node.decorator_list}
        return node.name == "__repr__" or "overload" in decorators
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if {_name_node(target) for target in targets} & {"__all__", "__slots__"}:
            return True
        if isinstance(parent, (ast.Module, ast.ClassDef)) and node.value is not None:
            return _is_type(node.value) or _is_size(node.value)
        return False
    if isinstance(parent, ast.Call) and _name_node(parent) == "cast":
        return bool(parent.args) and node is parent.args[0]
    if isinstance(parent, (ast.FunctionDef, ast.ClassDef)) and node in parent.decorator_list:
        return _name_node(node) in ("cache", "lru_cache", "dataclass")
    if isinstance(node, ast.Raise) and node.exc is not None:
        return _name_node(node.exc) in ("NotImplementedError", "AssertionError")
    if isinstance(node, ast.keyword):
        return node.arg in NOT_SEEN_BY_NAME
    return False


def _is_type(value: ast.expr) -> bool:
    """Say whether a value is a type's: an alias, or a variable of types."""
    if _name_node(value) in ("TypeVar", "NewType", "ParamSpec"):
        return True
    names = [_name_node(part) for part in ast.walk(value) if isinstance(part, ast.Subscript)]
    return (
        bool(names)
        and isinstance(value, (ast.Subscript, ast.BinOp))
        and all(
            name[:1].isupper() or name in ("dict", "list", "set", "tuple", "type", "frozenset")
            for name in names
        )
        and not any(isinstance(part, ast.Call) for part in ast.walk(value))
        and not any(
            isinstance(part, ast.Constant) and isinstance(part.value, (int, str))
            for part in ast.walk(value)
        )
    )


def modules(project: Path, below: str = "kdump") -> dict[str, Module]:
    """Read all modules of a folder of the project, or the one that is named."""
    root = project / below
    paths = sorted(root.rglob("*.py")) if root.is_dir() else [root]
    named = {str(path.relative_to(project)): path for path in paths}
    return {name: Module(name, path.read_bytes()) for name, path in named.items()}
