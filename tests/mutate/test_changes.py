"""Which small changes `tools/mutate` makes, and which it does not."""

from collections import Counter

from each import each
from mutate.changes import Change, Module
from mutate.run import draw_changes, part_of


def changed(body: str) -> set[str]:
    """Give what a line becomes."""
    module = Module("kdump/m.py", body.encode())
    found = [change for changes in module.changes.values() for change in changes]
    assert all(module.is_sound(change) for change in found)
    return {module.apply(change).decode() for change in found}


@each(
    ("before", "after"),
    [
        ("a = b < c", {"a = b <= c", "a = b >= c"}),
        ("a = b not in c", {"a = b in c"}),
        ("a = b is not c", {"a = b is c"}),
        ("a = b and c and d", {"a = b or c and d", "a = b and c or d"}),
        ("a = (b) + (c)", {"a = (b) - (c)"}),
        ("a = b - 1", {"a = b + 1", "a = b - 2"}),
        ("a = 'token'", {"a = 'tokenX'"}),
        ("a = True", {"a = False"}),
        ("a = b if c else d", {"a = b if (not (c)) else d"}),
        ("a = [b for b in c if not b]", {"a = [b for b in c if (b)]"}),
        ("f(a, b)", {"f(b, a)", "pass"}),
        ("a = f(b, c=d)", {"a = f(b, )"}),
        ("a = max(b, c)", set()),
        ("with suppress(b, c):\n    d()", {"with suppress(b, c):\n    pass"}),
    ],
)
def test_changes_of_a_line(before: str, after: set[str]) -> None:
    assert changed(before) == after


def test_changes_of_statements() -> None:
    module = Module("kdump/m.py", b"def f():\n    a = b\n    raise a\n    return b\n")
    made = {module.apply(c).decode() for cs in module.changes.values() for c in cs}
    assert made == {
        "def f():\n    pass\n    raise a\n    return b\n",
        "def f():\n    a = b\n    pass\n    return b\n",
        "def f():\n    a = b\n    raise a\n    return None\n",
    }


@each(
    "source",
    [
        '"""Words."""',
        "a: dict[str, int]",
        "Alias = dict[str, list[bytes]]",
        "Name = TypeVar('Name')",
        "__all__ = ['a']",
        "class A:\n    __slots__ = ('a', 'b')",
        "class A:\n    def __repr__(self):\n        return 1 + 2",
        "assert a < b",
        "if TYPE_CHECKING:\n    from a import b",
        "@cache\ndef f(): ...",
        "@dataclass(frozen=True)\nclass A: ...",
        "a = 'words for people to read'",
        "raise NotImplementedError(1)",
        "def f(a):\n    del a",
        "def f():\n    return ''",
        "_BLOCK_BYTES = 1 << 20",
        "def f(a: 'B') -> 'C': ...",
    ],
)
def test_invisible_code_is_not_mutated(source: str) -> None:
    assert changed(source) == set()


def test_change_is_shown_on_one_line() -> None:
    module = Module("kdump/m.py", b"a = 1\nb = f(\n    a < 2,\n)\n")
    change = Change("kdump/m.py", 3, "comparison", 19, 20, "<=")
    assert module.apply(change) == b"a = 1\nb = f(\n    a <= 2,\n)\n"
    assert module.diff(change) == "kdump/m.py:3: a < 2,  ->  a <= 2,"


def test_lines_of_a_change_are_its_statement() -> None:
    source = b"def f():\n    a = g(\n        1,\n    )\n"
    source += b"    if a == (\n        2\n    ):\n        b = 3\n"
    module = Module("kdump/m.py", source)
    assert module.lines_of(Change("kdump/m.py", 3, "", 0, 0, "")) == {2, 3, 4}
    assert module.lines_of(Change("kdump/m.py", 6, "", 0, 0, "")) == {5, 6, 7}
    assert module.lines_of(Change("kdump/m.py", 8, "", 0, 0, "")) == {8}


def test_import_time_code_has_the_names_it_defines() -> None:
    module = Module("kdump/m.py", b"class A:\n    b, c = 1, 2\n\ndef f(d=3):\n    e = 4\n")
    assert module.function_at(2) is None
    assert module.names_at(2) == {"A", "b", "c"}
    assert module.function_at(4) is None
    assert module.names_at(4) == {"f"}
    assert module.function_at(5) is not None


def test_changes_are_drawn_by_code_lines_and_seed() -> None:
    few = b"def f():\n" + b"    x = a < 1\n" * 10
    many = b"def f():\n" + b"    x = a < 1\n" * 30
    modules = {
        path: Module(path, source)
        for path, source in (("kdump/a/m.py", few), ("kdump/engine/b/m.py", many))
    }
    chosen = draw_changes(modules, 8, seed=3)
    assert Counter(part_of(change.path) for change in chosen) == {"kdump/a": 2, "kdump/engine/b": 6}
    assert len({change.line for change in chosen if change.path == "kdump/engine/b/m.py"}) == 6
    assert chosen == draw_changes(modules, 8, seed=3)
    assert chosen != draw_changes(modules, 8, seed=4)
