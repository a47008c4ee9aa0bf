"""The helper that tries cases in one test: none is left out, each failure is named."""

from pathlib import Path

import pytest
from each import each


def test_all_cases_are_tried_and_failures_are_named(tmp_path: Path) -> None:
    tried: list[tuple[int, str, bool]] = []

    @each("mark", "ab")
    @each("number", [1, pytest.param(2, id="two"), 3])
    def test(number: int, mark: str, tmp_path: Path) -> None:
        tried.append((number, mark, any(tmp_path.iterdir())))
        (tmp_path / "left behind").touch()
        assert number != 2, number

    with pytest.raises(AssertionError) as caught:
        test(tmp_path=tmp_path)
    assert tried == [(number, mark, False) for mark in "ab" for number in (1, 2, 3)]
    inner, outer = caught.value.__notes__
    assert inner == "1 of 3 cases failed:\n  two"
    assert outer == "2 of 2 cases failed:\n  'a'\n  'b'"


def test_test_is_skipped_if_all_cases_are() -> None:
    @each("number", [0, 1])
    def test(number: int, least: int) -> None:
        if number < least:
            pytest.skip("too small")

    test(least=1)
    with pytest.raises(pytest.skip.Exception, match="too small"):
        test(least=2)
