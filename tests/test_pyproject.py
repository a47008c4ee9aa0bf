"""pyproject.toml as an old reader of TOML takes it: every array holds values of one kind."""

import tomllib
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"


def arrays(value: object, path: str = "") -> Iterator[tuple[str, list[object]]]:
    """Yield every array and where it stands."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from arrays(inner, f"{path}.{name}")
    elif isinstance(value, list):
        yield path, value
        for number, inner in enumerate(value):
            yield from arrays(inner, f"{path}[{number}]")


def test_arrays_are_flat_and_of_one_type() -> None:
    """TOML 0.5 knows no mixed arrays; its readers stumble over tables in nested ones as well."""
    found = [*arrays(tomllib.loads(PROJECT.read_text("utf-8")))]
    assert found
    for path, array in found:
        assert len({type(value) for value in array}) <= 1, path
        assert not any(isinstance(value, list) for value in array), path
