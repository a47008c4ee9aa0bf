"""The shape of kdump/: who may import whom, what must be imported late, and who may write.

Read with ast from the files, so that imports inside functions count too.
"""

import ast
import gc
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from each import each

from kdump.findings.catalogue import CATALOGUE

PACKAGE = Path(__file__).parent.parent / "kdump"

# layer: (layers it may import besides itself, third-party packages allowed here only)
LAYERS: dict[str, tuple[str, str]] = {
    "errors": ("", ""),
    "option_values": ("", ""),
    "tuples": ("", ""),
    "rows": ("", ""),
    "kernels": ("", "crcmod crc32c"),
    "messages": ("kernels", ""),
    "record": ("errors kernels messages", "lz4 snappy zstandard isal pyarrow"),
    "stores": ("errors", "pyarrow fsspec isal lz4 zstandard cryptography"),
    "storage": ("errors kernels messages record stores", ""),
    "client": ("errors", "confluent_kafka"),
    "findings": ("errors kernels record storage", ""),
    "broker": ("errors findings kernels messages record storage", ""),
    "values": ("findings kernels messages storage", ""),
    "replay": ("broker errors findings kernels messages record storage", ""),
    "writing": ("", ""),
    "engine": (
        "broker client errors findings kernels messages record replay storage values writing",
        "",
    ),
    "output": (
        "broker errors findings kernels engine messages storage stores writing",
        "rich pyarrow",
    ),
    "spark": (
        "broker errors findings engine option_values output replay storage",
        "pyspark pyarrow",
    ),
    "cli": ("api broker errors findings engine option_values output spark storage stores", "click"),
    "api": ("engine errors findings option_values output storage", "duckdb polars pyarrow"),
    "__main__": ("cli", ""),
    "__init__": ("api errors findings", ""),
}
# Rooms of engine: those that each may import besides itself. The rest are commands, which no other
# room imports but for what stands here.
ROOMS: dict[str, str] = {
    "reading": "",
    "work": "reading",
    "advice": "",
    "hex": "reading",
    "frames": "dump hex reading",
    "dump": "advice frames hex reading work",
    "duplicates": "dump reading work",
    "checks": "dump reading",
    "coordinators": "dump reading work",
    "predict": "checks reading",
    "cluster": "reading work",
    "compare": "mirror predict reading work",
    "mirror": "coordinators dump groups reading work",
    "find": "advice reading work",
    "groups": "coordinators dump reading work",
    "info": "work",
    "kafka_text": "reading",
    "reindex": "checks reading",
    "salvage": "compare find groups reading reindex work",
    "sequences": "checks frames reading work",
    "report": "checks cluster dump groups info reading timeline verify why work",
    "timeline": "cluster coordinators dump reading work",
    "transactions": "coordinators reading work",
    "usage": "dump reading work",
    "verify": "advice checks coordinators frames predict reading work",
    "why": "reading work",
}
# Costly to import, so only inside the functions that need them.
# spark/source.py is an exception: it extends classes of PySpark's, and only Spark imports it. So is
# api/pushdown.py, which extends one of PyArrow's and is imported where a dataset is made.
LATE = set(
    "confluent_kafka crc32c crcmod cryptography duckdb fsspec isal lz4 polars pyarrow pyspark rich"
    " snappy zstandard".split()
)

_EXTENDED = {"spark/source.py": "pyspark", "api/pushdown.py": "pyarrow"}

READ_ONLY = (
    "kernels",
    "messages",
    "record",
    "stores",
    "storage",
    "findings",
    "broker",
    "replay",
    "engine",
)
WRITERS = (
    "engine/reindex/replace.py",
    "engine/salvage/build.py",
    "engine/salvage/state.py",
)
#: These write files without names of the user's, in a temporary directory that goes with the run.
SCRATCH = ("engine/work/spool.py", "stores/unpacking.py")
# Calls that change a file or a directory, by the last part of their name.
WRITES = set(
    "chmod chown fchmod fchown ftruncate hardlink_to lchmod lchown link makedirs mkdir mkfifo mknod"
    " mkstemp move pwrite pwritev remove removedirs rename renames removexattr rmdir rmtree"
    " sendfile setxattr symlink symlink_to touch truncate unlink utime write_bytes write_text"
    " copy2 copyfile copyfileobj copytree posix_fallocate NamedTemporaryFile".split()
)
WRITE_FLAGS = set("O_WRONLY O_RDWR O_CREAT O_APPEND O_TRUNC O_EXCL ACCESS_WRITE PROT_WRITE".split())

FILE_NAMES = set(
    ".log .index .timeindex .txnindex .snapshot .kafka .checkpoint .deleted .cleaned .swap -delete"
    " -future -stray .kafka_cleanshutdown meta.properties partition.metadata quorum-state"
    " leader-epoch-checkpoint replication-offset-checkpoint recovery-point-offset-checkpoint"
    " log-start-offset-checkpoint cleaner-offset-checkpoint".split()
)

ARROW_COMPARES = set("equal not_equal less less_equal greater greater_equal".split())


@cache
def modules() -> dict[str, ast.Module]:
    """Parse the package; not on import, which every process of a run of tests does.

    The collector would look at all nodes so far again and again, which takes three times as long.
    """
    gc.disable()
    try:
        return {
            str(path.relative_to(PACKAGE)): ast.parse(path.read_text("utf-8"))
            for path in sorted(PACKAGE.rglob("*.py"))
        }
    finally:
        gc.freeze()
        gc.enable()


@cache
def nodes_by_kind(tree: ast.AST) -> dict[type[ast.AST], list[Any]]:
    """Sort all nodes but those that only say load or store."""
    found = [tree]
    kinds = defaultdict[type[ast.AST], list[Any]](list)
    for node in found:
        kinds[type(node)].append(node)
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                found += [one for one in value if isinstance(one, ast.AST)]
            elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                found.append(value)
    return kinds


def nodes(tree: ast.AST, *kinds: type[ast.AST]) -> Iterator[Any]:
    """Give all nodes of some kinds, one kind after the other."""
    every = nodes_by_kind(tree)
    return chain.from_iterable(every.get(kind, ()) for kind in kinds)


def each_module(rule: Callable[[str], None]) -> Callable[[], None]:
    """Make one test of a rule for every module; what the rule asserts names the module."""

    def test() -> None:
        for name in modules():
            rule(name)

    test.__name__, test.__doc__ = rule.__name__, rule.__doc__
    return test


def layer_of(name: str) -> str:
    return name.split("/")[0].removesuffix(".py")


def imports(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in nodes(tree, ast.Import, ast.ImportFrom):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        else:
            assert node.level == 0, f"line {node.lineno}: relative import"
            if node.module == "kdump":
                yield from ((f"kdump.{alias.name}", node.lineno) for alias in node.names)
            else:
                yield str(node.module), node.lineno


def imports_at_start(tree: ast.Module) -> Iterator[ast.stmt]:
    """Import statements that run when the module is imported (not under TYPE_CHECKING)."""
    waiting: list[ast.AST] = [*tree.body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        waiting.extend(ast.iter_child_nodes(node))


@each_module
def test_imports_follow_the_table(name: str) -> None:
    layer = layer_of(name)
    layers, packages = (set(text.split()) for text in LAYERS[layer])
    for module, line in imports(modules()[name]):
        top, _, rest = module.partition(".")
        if top == "kdump":
            target = rest.split(".")[0]
            allowed = layers | {layer, "__version__", "rows", "tuples"}
        else:
            target, allowed = top, packages | sys.stdlib_module_names
        assert target in allowed, f"kdump/{name}:{line}: {layer} may not import {module}"


@each_module
def test_rooms_of_the_engine_follow_the_table(name: str) -> None:
    parts = name.split("/")
    if parts[0] != "engine" or len(parts) < 3:
        return
    allowed = {parts[1], *ROOMS[parts[1]].split()}
    for module, line in imports(modules()[name]):
        target = module.split(".")
        if target[:2] == ["kdump", "engine"] and len(target) > 2:
            assert target[2] in allowed, f"kdump/{name}:{line}: {parts[1]} may not import {module}"


def test_imports_have_no_cycles() -> None:
    """Those inside functions and under TYPE_CHECKING count too."""
    names = {module_of(name): name for name in modules()}
    waiting = {
        module: {target for target in targets(modules()[name], names) if target != module}
        for module, name in names.items()
    }
    while free := {module for module, needs in waiting.items() if not needs}:
        waiting = {module: needs - free for module, needs in waiting.items() if module not in free}
    assert not waiting, f"in a circle, or above one: {sorted(waiting)}"


def module_of(name: str) -> str:
    return "kdump." + name.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def targets(tree: ast.AST, known: dict[str, str]) -> Iterator[str]:
    """Name the modules that a module imports; `from package import module` is one of them."""
    for node in nodes(tree, ast.ImportFrom):
        for alias in node.names:
            whole = f"{node.module}.{alias.name}"
            target = whole if whole in known else str(node.module)
            if target in known:
                yield target


@each_module
def test_columns_are_named(name: str) -> None:
    """Outside the kernels and record/ no column is told by its number."""
    if layer_of(name) in ("kernels", "record") or name == "engine/reading/header_columns.py":
        return
    for node in nodes(modules()[name], ast.Name, ast.Attribute):
        word = getattr(node, "attr", getattr(node, "id", ""))
        told = f"kdump/{name}:{getattr(node, 'lineno', 0)}: {word}"
        assert word == "R_OK" or not re.fullmatch("[BR]_[A-Z_]+", str(word)), told


def formats_compared(tree: ast.AST) -> Iterator[int]:
    """Give the lines that compare what is named layout, magic or the like with a number.

    A name such as MAGIC_V2 is a number too; what is called, subscripted or an attribute goes by
    its own name, so that `batches.layout(row)`, `rows.layouts[0]` and `one.magic` count. A bare
    truth test of a layout is a comparison with 0.
    """
    tests_truth = (ast.IfExp, ast.If, ast.BoolOp, ast.UnaryOp)
    for node in nodes(tree, ast.Compare, ast.Call, *tests_truth):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(map(is_a_format, sides)) and any(map(is_a_number, sides)):
                yield node.lineno
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ARROW_COMPARES:
            if any(map(is_a_format, node.args)) and any(map(is_a_number, node.args)):
                yield node.lineno
        elif isinstance(node, tests_truth):
            tests = getattr(node, "values", None) or [getattr(node, "test", None)]
            tests += [node.operand] if isinstance(node, ast.UnaryOp) else []
            if any(is_a_format(test) for test in tests if test is not None):
                yield node.lineno


def is_a_format(node: ast.AST) -> bool:
    """Whether it is a layout or a magic, or arithmetic with one."""
    if isinstance(node, ast.Call):
        within = node.args if getattr(node.func, "id", "") in ("max", "min", "int", "bool") else ()
        return any(map(is_a_format, (node.func, *within)))
    if isinstance(node, ast.Subscript):
        return is_a_format(node.value)
    if isinstance(node, ast.BinOp):
        return is_a_format(node.left) or is_a_format(node.right)
    word = getattr(node, "attr", getattr(node, "id", ""))
    return (
        re.fullmatch("((own|wrapper)_)?(layout|magic)s?|INNER_MAGIC_SHIFT", str(word)) is not None
    )


def is_a_number(node: ast.AST) -> bool:
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return any(map(is_a_number, node.elts))
    if isinstance(node, ast.UnaryOp):
        return is_a_number(node.operand)
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int)
    word = getattr(node, "attr", getattr(node, "id", ""))
    return re.fullmatch(r"_?(MAGIC_)?V\d", str(word)) is not None


@each_module
def test_formats_are_queried_not_compared(name: str) -> None:
    """Outside the kernels and record/ what a format has is read from the table of formats."""
    if layer_of(name) not in ("kernels", "record"):
        lines = list(formats_compared(modules()[name]))
        assert not lines, f"kdump/{name}:{lines}: ask kernels/layout.py what the format has"


@each(
    "text",
    [
        "batches.layout(row) == 2",
        "max(rows.layouts, default=0) < 2",
        "1 < one.magic",
        "item.magic not in (0, 1)",
        "layout != MAGIC_V2",
        "x if layout else y",
        "not batches.layout(0)",
        "batches.layout(row) and attributes & BIT",
        "flags >> c.INNER_MAGIC_SHIFT & 3 == 1",
        "pc.equal(layouts, 2)",
    ],
)
def test_format_comparisons_are_detected(text: str) -> None:
    assert list(formats_compared(ast.parse(text)))


def version_comparisons(tree: ast.Module) -> Iterator[int]:
    """Give the lines that order versions: tuples of numbers, their names, and what holds one."""
    known = {"NEWEST", "broker", "broker_version", "message_format"}
    for node in nodes(tree, ast.Assign):
        if is_version(node.value):
            known.update(target.id for target in node.targets if isinstance(target, ast.Name))
    for node in nodes(tree, ast.arg, ast.AnnAssign):
        if names_version(node.annotation):
            known.add(node.arg if isinstance(node, ast.arg) else ast.unparse(node.target))
    for node in nodes(tree, ast.Compare):
        if any(isinstance(operator, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for operator in node.ops):
            for side in (node.left, *node.comparators):
                value = side.value if isinstance(side, ast.Subscript) else side
                name = getattr(value, "attr", getattr(value, "id", ""))
                if is_version(side) or name in known:
                    yield node.lineno
                    break


def names_version(annotation: ast.expr | None) -> bool:
    parts = () if annotation is None else ast.walk(annotation)
    return any(getattr(part, "id", "") == "Version" for part in parts)


def is_version(node: ast.expr) -> bool:
    """Whether this is a tuple of two to four whole numbers, written out."""
    return (
        isinstance(node, ast.Tuple)
        and 2 <= len(node.elts) <= 4
        and all(isinstance(part, ast.Constant) and type(part.value) is int for part in node.elts)
    )


@each_module
def test_versions_are_compared_in_one_place(name: str) -> None:
    if name != "broker/versions.py":
        assert list(version_comparisons(modules()[name])) == [], f"kdump/{name}"


@each(
    ("code", "found"),
    [
        ("broker >= (2, 3)", True),
        ("view.broker < _EXACT", True),
        ("_OLD = (0, 9)\nnew = _OLD <= given", True),
        ("options.message_format[:2] > known", True),
        ("def f(given: Version | None): return given < other", True),
        ("has(broker, LOG_START)", False),
        ("broker == other", False),
        ("magic in (0, 1)", False),
        ("_LIMIT = 4\nsize > _LIMIT", False),
        ("def f(given: int): return given < other", False),
    ],
)
def test_version_comparisons_are_detected(code: str, found: bool) -> None:
    assert bool(list(version_comparisons(ast.parse(code)))) is found


@each_module
def test_costly_packages_are_imported_late(name: str) -> None:
    late = LATE - {_EXTENDED.get(name, "")}
    for statement in imports_at_start(modules()[name]):
        for module, line in imports(statement):
            assert module.split(".")[0] not in late, f"kdump/{name}:{line}: {module} at start"


@each_module
def test_only_three_modules_write(name: str) -> None:
    if layer_of(name) not in READ_ONLY or name in (*WRITERS, *SCRATCH):
        return
    written = [line for module, line in imports(modules()[name]) if module == "kdump.writing"]
    assert not written, f"kdump/{name}:{written}: only {WRITERS} may write"
    for node in nodes(modules()[name], ast.Attribute):
        assert node.attr not in WRITE_FLAGS, f"kdump/{name}:{node.lineno}: {node.attr}"
    for node in nodes(modules()[name], ast.Call):
        where = f"kdump/{name}:{node.lineno}"
        called = getattr(node.func, "attr", getattr(node.func, "id", ""))
        assert called not in WRITES, f"{where}: {called}"
        # str.replace takes two arguments or more, Path.replace one; os.replace is named.
        if called == "replace":
            owner = getattr(getattr(node.func, "value", None), "id", "")
            assert owner != "os", f"{where}: os.replace"
            assert len(node.args) != 1, f"{where}: Path.replace"
        if called in ("open", "fdopen", "FileIO"):
            for given in (*node.args, *(keyword.value for keyword in node.keywords)):
                mode = given.value if isinstance(given, ast.Constant) else None
                if isinstance(mode, str) and set(mode) <= set("rwxab+t"):
                    assert not set(mode) & set("wxa+"), f"{where}: open for writing"


@each_module
def test_file_names_are_spelled_in_one_place(name: str) -> None:
    if name == "storage/names.py":
        return
    for node in nodes(modules()[name], ast.Constant):
        if isinstance(node.value, str):
            assert node.value not in FILE_NAMES, f"kdump/{name}:{node.lineno}: {node.value!r}"


#: How a command begins that a user is to type, with what follows it in the same text.
COMMAND = re.compile(
    r"(?:kafka-[a-z-]+\.sh|\bkdump (?:[a-z-]+ )?-|\b(?:rm|mv|cp|ln|sed|chmod|chown) -).*\0",
    re.DOTALL,
)


def commands_built(tree: ast.Module) -> Iterator[int]:
    """Give the lines where a value, here `\\0`, is put into the text of a command."""
    for node in nodes(tree, ast.JoinedStr, ast.BinOp, ast.Call):
        text = ""
        if isinstance(node, ast.JoinedStr):
            for part in node.values:
                is_command = isinstance(part, ast.FormattedValue) and re.match(
                    r"(?:format_command|_again)\(", ast.unparse(part.value)
                )
                text += part.value if isinstance(part, ast.Constant) else "" if is_command else "\0"
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod):
            left = node.left.value if isinstance(node.left, ast.Constant) else ""
            text = f"{left}\0"
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("format", "join"):
            owner = getattr(node.func, "value", None)
            text = f"{owner.value if isinstance(owner, ast.Constant) else ''}\0"
        if COMMAND.search(text):
            yield node.lineno


@each_module
def test_commands_are_formatted_in_one_place(name: str) -> None:
    """Only `format_command` puts what stands on a disk into a line for a shell."""
    if name != "findings/shell.py":
        assert list(commands_built(modules()[name])) == [], f"kdump/{name}"
        assert "shlex" not in {module for module, _ in imports(modules()[name])}, f"kdump/{name}"


@each(
    ("code", "found"),
    [
        ("f'kafka-topics.sh --create --topic {topic}'", True),
        ("f'Look: kdump dump --hex {path}'", True),
        ("'rm -r %s' % path", True),
        ("'cp -a ' + path", True),
        ("'mv -n {}'.format(path)", True),
        ("f'{count} more: kdump verify --deep lists them'", False),
        ("f'type {format_command(words)}'", False),
    ],
)
def test_built_commands_are_detected(code: str, found: bool) -> None:
    assert bool(list(commands_built(ast.parse(code)))) is found


@each_module
def test_finding_codes_are_defined_in_the_catalogue(name: str) -> None:
    """No module keeps a list of codes: who treats some otherwise asks for an attribute of theirs.

    The kernels and record/ know no findings; where their reasons sound alike, that is chance.
    """
    if layer_of(name) in ("findings", "kernels", "record"):
        return
    words = dict(named_texts(modules()[name]))
    for node in nodes(modules()[name], ast.Set, ast.Tuple, ast.List, ast.Dict, ast.Constant):
        for listed in lists_of_texts(node, words):
            codes = sorted(CATALOGUE.keys() & set(listed))
            assert len(codes) < 3, f"kdump/{name}:{node.lineno}: {codes}"


def named_texts(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Constants of a module that are texts, by their names."""
    for node in tree.body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                pairs = [(target, node.value)]
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    pairs = list(zip(target.elts, node.value.elts, strict=True))
                for named, value in pairs:
                    text = getattr(value, "value", None)
                    if isinstance(named, ast.Name) and isinstance(text, str):
                        yield named.id, text


def lists_of_texts(node: ast.AST, words: dict[str, str]) -> Iterator[list[str]]:
    """The texts in a set, tuple, list or dict, or in a text that is to be split."""
    members: list[list[ast.expr]] = []
    if isinstance(node, ast.Set | ast.Tuple | ast.List):
        members = [node.elts]
    elif isinstance(node, ast.Dict):
        members = [[key for key in node.keys if key is not None], node.values]
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value.split()
    for several in members:
        texts = (getattr(one, "value", words.get(getattr(one, "id", ""))) for one in several)
        yield [text for text in texts if isinstance(text, str)]


def test_document_lists_every_floor_and_room() -> None:
    text = (PACKAGE.parent / "docs/architecture.md").read_text("utf-8")
    named = re.findall(
        r"^\| `(\w+)` \| .* \|([\w, ]*)\|$|^\| `(\w+)` \| .* \|$", text, re.MULTILINE
    )
    floors = {
        floor: set(packages.replace(",", "").split()) for floor, packages, _ in named if floor
    }
    assert floors == {
        layer: set(packages.split())
        for layer, (_, packages) in LAYERS.items()
        if not layer.startswith("__")
    }
    assert {room for _, _, room in named if room} == set(ROOMS)
