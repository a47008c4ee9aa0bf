"""Which tests a change is tried with, of a map that is written by hand."""

from pathlib import Path

from mutate.changes import Change, Module
from mutate.plan import rounds
from mutate.reach import Reach, Uses, find_reaching

NEAR, FAR = "tests/a/test_m.py", "tests/cli/test_all.py"
SOURCE = b"LIMIT = 5\n\ndef f(a):\n    return a < LIMIT\n\ndef g():\n    return 1\n"


def written(path: Path, tests: dict[str, tuple[float, dict[str, set[int]]]]) -> Reach:
    """Write a map: of each test its processor seconds, and by module the lines it reaches."""
    reach = Reach(path / "reach.sqlite")
    for name, (seconds, modules) in tests.items():
        reach.add(name, seconds, modules)
    return reach


def chosen(reach: Reach, line: int, most_seconds: float = 60) -> list[list[str]]:
    module = Module("kdump/a/m.py", SOURCE)
    modules = {"kdump/a/m.py": module}
    (change, *_) = module.changes[line]
    found = find_reaching(reach, modules, Uses(modules), change, pure=False)
    planned = rounds(reach, change.path, found, pure=False, most_seconds=most_seconds)
    return [list(one.limits) for one in planned]


def test_nearest_and_fastest_tests_run_first(tmp_path: Path) -> None:
    reach = written(
        tmp_path,
        {
            f"{FAR}::test_fast": (0.1, {"kdump/a/m.py": {4}}),
            f"{NEAR}::test_slow": (2.0, {"kdump/a/m.py": {4}}),
            f"{NEAR}::test_quick": (0.5, {"kdump/a/m.py": {4, 7}}),
            f"{FAR}::test_another_module": (0.1, {"kdump/a/n.py": {4}}),
        },
    )
    first, rest = chosen(reach, 4)
    assert first == [f"{NEAR}::test_quick", f"{NEAR}::test_slow", f"{FAR}::test_fast"]
    assert rest == [f"{FAR}::test_another_module"]  # its file has one that reaches the line


def test_parametrized_test_runs_three_times_first(tmp_path: Path) -> None:
    names = [f"{NEAR}::test_f[{number}]" for number in range(5)]
    reach = written(tmp_path, {name: (0.1, {"kdump/a/m.py": {4}}) for name in names})
    assert chosen(reach, 4) == [names[:3], names[3:]]


def test_number_of_tests_is_bounded(tmp_path: Path) -> None:
    names = [f"{NEAR}::test_{number}" for number in range(9)]
    reach = written(tmp_path, {name: (4.0, {"kdump/a/m.py": {4}}) for name in names})
    planned = chosen(reach, 4, most_seconds=20)
    assert [name for names in planned for name in names] == names[:5]


def test_tests_of_a_constant_are_its_users(tmp_path: Path) -> None:
    reach = written(
        tmp_path,
        {
            f"{NEAR}::test_f": (0.1, {"kdump/a/m.py": {4}}),
            f"{FAR}::test_g": (0.1, {"kdump/a/m.py": {7}}),
        },
    )
    assert chosen(reach, 1) == [[f"{NEAR}::test_f"]]


def test_unreached_line_has_no_mutants(tmp_path: Path) -> None:
    reach = written(tmp_path, {f"{NEAR}::test_f": (0.1, {"kdump/a/m.py": {4}})})
    module = Module("kdump/a/m.py", SOURCE)
    change = Change("kdump/a/m.py", 7, "constant", 0, 0, "")
    modules = {"kdump/a/m.py": module}
    assert find_reaching(reach, modules, Uses(modules), change, pure=False) == set()
