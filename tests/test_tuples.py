"""Named tuples of ours are as those of typing."""

from __future__ import annotations

import pickle
import typing

import pytest

from kdump.tuples import NamedTuple


class Ours(NamedTuple):
    """What it is."""

    one: int
    two: str = "2"
    three: tuple[int, ...] = ()

    @property
    def both(self) -> str:
        return f"{self.one} {self.two}"

    @classmethod
    def made(cls, one: int) -> Ours:
        return cls(one, three=(one,))


class Theirs(typing.NamedTuple):
    """What it is."""

    one: int
    two: str = "2"
    three: tuple[int, ...] = ()


def test_tuples_behave_like_those_of_typing() -> None:
    for name in ("_fields", "_field_defaults", "__doc__", "__module__", "__match_args__"):
        assert getattr(Ours, name) == getattr(Theirs, name)
    assert list(Ours.__annotations__) == list(Theirs.__annotations__)
    assert Ours.__mro__ == (Ours, tuple, object)
    assert Ours.__qualname__ == "Ours"
    one = Ours(1, three=(2,))
    assert repr(one) == repr(Theirs(1, three=(2,))).replace("Theirs", "Ours")
    assert one == (1, "2", (2,))
    assert pickle.loads(pickle.dumps(one)) == one
    assert one._replace(two="3")._asdict() == {"one": 1, "two": "3", "three": (2,)}


def test_wrong_members_are_reported() -> None:
    with pytest.raises(TypeError, match=r"Ours.__new__\(\) missing 1 required .* 'one'"):
        Ours()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'four'"):
        Ours(1, four=4)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="Ours has 3 members, not 2"):
        Ours._make((1, "2"))
    with pytest.raises(ValueError, match=r"Ours has no members \['four'\]"):
        Ours(1)._replace(four=4)  # type: ignore[call-arg]


def test_tuples_may_have_methods() -> None:
    made = Ours.made(1)
    assert (made.both, made.three) == ("1 2", (1,))
