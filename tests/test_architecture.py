"""The shape of kdump/: who may import whom, what must be imported late, and who may write.

Read with ast from the files, so that imports inside functions count too.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "kdump"

# layer: (layers it may import besides itself, third-party packages allowed here only)
LAYERS: dict[str, tuple[str, str]] = {
    "errors": ("", ""),
    "kernels": ("", "crcmod crc32c"),
    "record": ("errors kernels", "lz4 snappy zstandard isal"),
    "stores": ("errors", "pyarrow fsspec"),
    "storage": ("errors kernels record stores", ""),
    "findings": ("errors kernels record storage", ""),
    "broker": ("errors findings kernels record storage", ""),
    "writing": ("", ""),
    "engine": ("broker errors findings kernels record storage writing", ""),
    "output": ("broker errors findings kernels engine storage stores writing", "rich pyarrow"),
    "spark": ("broker errors findings engine output storage", "pyspark pyarrow"),
    "cli": ("errors findings engine output spark storage stores", "click"),
    "__main__": ("cli", ""),
    "__init__": ("", ""),
}
# Rooms of engine: those that each may import besides itself. The rest are commands, which no other
# room imports but for what stands here.
ROOMS: dict[str, str] = {
    "reading": "",
    "work": "reading",
    "advice": "",
    "hex": "reading",
    "dump": "advice hex reading work",
    "checks": "dump reading",
    "predict": "checks reading",
    "compare": "reading work",
    "find": "advice reading work",
    "kafka_text": "reading",
    "reindex": "checks reading",
    "sequences": "checks reading work",
    "usage": "dump reading work",
    "verify": "advice checks predict reading work",
}
# Costly to import, so only inside the functions that need them.
# spark/source.py is the exception: it extends classes of PySpark's, and only Spark imports it.
LATE = set("crc32c crcmod fsspec isal lz4 pyarrow pyspark rich snappy zstandard".split())

READ_ONLY = ("kernels", "record", "stores", "storage", "findings", "broker", "engine")
WRITER = "engine/reindex/replace.py"
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

MODULES = {
    str(path.relative_to(PACKAGE)): ast.parse(path.read_text("utf-8"))
    for path in sorted(PACKAGE.rglob("*.py"))
}
each_module = pytest.mark.parametrize("name", MODULES)


def layer_of(name: str) -> str:
    return name.split("/")[0].removesuffix(".py")


def imports(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
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
    for module, line in imports(MODULES[name]):
        top, _, rest = module.partition(".")
        if top == "kdump":
            target = rest.split(".")[0]
            allowed = layers | {layer, "__version__"}
        else:
            target, allowed = top, packages | sys.stdlib_module_names
        assert target in allowed, f"kdump/{name}:{line}: {layer} may not import {module}"


@each_module
def test_rooms_of_the_engine_follow_the_table(name: str) -> None:
    parts = name.split("/")
    if parts[0] != "engine" or len(parts) < 3:
        return
    allowed = {parts[1], *ROOMS[parts[1]].split()}
    for module, line in imports(MODULES[name]):
        target = module.split(".")
        if target[:2] == ["kdump", "engine"] and len(target) > 2:
            assert target[2] in allowed, f"kdump/{name}:{line}: {parts[1]} may not import {module}"


def test_no_imports_go_in_a_circle() -> None:
    """Those inside functions and under TYPE_CHECKING count too."""
    names = {module_of(name): name for name in MODULES}
    waiting = {
        module: {target for target in targets(MODULES[name], names) if target != module}
        for module, name in names.items()
    }
    while free := {module for module, needs in waiting.items() if not needs}:
        waiting = {module: needs - free for module, needs in waiting.items() if module not in free}
    assert not waiting, f"in a circle, or above one: {sorted(waiting)}"


def module_of(name: str) -> str:
    return "kdump." + name.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def targets(tree: ast.AST, known: dict[str, str]) -> Iterator[str]:
    """Name the modules that a module imports; `from package import module` is one of them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
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
    for node in ast.walk(MODULES[name]):
        word = getattr(node, "attr", getattr(node, "id", ""))
        assert not re.fullmatch("[BR]_[A-Z_]+", str(word)), f"kdump/{name}:{node.lineno}: {word}"


@each_module
def test_costly_packages_are_imported_late(name: str) -> None:
    late = LATE - ({"pyspark"} if name == "spark/source.py" else set())
    for statement in imports_at_start(MODULES[name]):
        for module, line in imports(statement):
            assert module.split(".")[0] not in late, f"kdump/{name}:{line}: {module} at start"


@each_module
def test_only_one_module_writes(name: str) -> None:
    if layer_of(name) not in READ_ONLY or name == WRITER:
        return
    written = [line for module, line in imports(MODULES[name]) if module == "kdump.writing"]
    assert not written, f"kdump/{name}:{written}: only {WRITER} may write"
    for node in ast.walk(MODULES[name]):
        where = f"kdump/{name}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Attribute):
            assert node.attr not in WRITE_FLAGS, f"{where}: {node.attr}"
        if not isinstance(node, ast.Call):
            continue
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
    for node in ast.walk(MODULES[name]):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            assert node.value not in FILE_NAMES, f"kdump/{name}:{node.lineno}: {node.value!r}"


def test_the_document_has_every_floor_and_room() -> None:
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
