"""Rows as tuples: members in order, bases, defaults, what is left out, pickles."""

import pickle
from typing import Annotated

import pytest

from kdump.rows.row import Row


class PlacedRow(Row):
    topic: Annotated[str, "the topic"]


class CountedRow(PlacedRow, kind="counted", omits=("more",)):
    count: Annotated[int, "how many"]
    more: Annotated[int | None, "and more"] = None


def test_members_follow_those_of_the_base() -> None:
    row = CountedRow("orders", 3)
    assert (row.row, row.topic, row.count, row.more) == ("counted", "orders", 3, None)
    assert row == CountedRow("orders", count=3, more=None)
    assert [*row] == ["orders", 3, None]


def test_omitted_nulls_are_not_json_members() -> None:
    assert CountedRow("orders", 3).fields == {"topic": "orders", "count": 3}
    assert list(CountedRow("orders", 3, 4).fields) == ["topic", "count", "more"]


def test_rows_are_immutable() -> None:
    row = CountedRow("orders", 3)
    with pytest.raises(AttributeError):
        row.count = 4  # type: ignore[misc]
    assert row.replaced(count=4) == CountedRow("orders", 4)


def test_rows_can_be_pickled() -> None:
    row = pickle.loads(pickle.dumps(CountedRow("orders", 3, 4)))
    assert (type(row), row.more) == (CountedRow, 4)
