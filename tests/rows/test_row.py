"""Rows as tuples: members in order, bases, defaults, what is left out, pickles."""

import pickle
from typing import Annotated

import pytest

from kdump.rows.row import Row


class Placed(Row):
    topic: Annotated[str, "the topic"]


class Counted(Placed, kind="counted", omits=("more",)):
    count: Annotated[int, "how many"]
    more: Annotated[int | None, "and more"] = None


def test_members_come_behind_those_of_the_base() -> None:
    row = Counted("orders", 3)
    assert (row.row, row.topic, row.count, row.more) == ("counted", "orders", 3, None)
    assert row == Counted("orders", count=3, more=None)
    assert [*row] == ["orders", 3, None]


def test_what_is_left_out_where_it_is_null_is_no_member_of_json() -> None:
    assert Counted("orders", 3).fields == {"topic": "orders", "count": 3}
    assert list(Counted("orders", 3, 4).fields) == ["topic", "count", "more"]


def test_a_row_is_not_changed_but_replaced() -> None:
    row = Counted("orders", 3)
    with pytest.raises(AttributeError):
        row.count = 4  # type: ignore[misc]
    assert row.replaced(count=4) == Counted("orders", 4)


def test_rows_go_from_one_process_to_another() -> None:
    row = pickle.loads(pickle.dumps(Counted("orders", 3, 4)))
    assert (type(row), row.more) == (Counted, 4)
