"""Named tuples whose classes are made in a tenth of the time that those of `typing` take.

For modules that most runs import: `typing` compiles each annotation, and `collections` a function
for each class; both were a tenth of a start. Here a function is compiled for each number of fields.
"""

from __future__ import annotations

from functools import cache
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import NamedTuple as NamedTuple

_new_tuple = tuple.__new__


def _make(cls: Any, values: Iterable[Any]) -> Any:
    made = _new_tuple(cls, values)
    if len(made) != len(cls._fields):
        raise TypeError(f"{cls.__name__} has {len(cls._fields)} members, not {len(made)}")
    return made


def _replace(self: Any, /, **changes: Any) -> Any:
    made = _new_tuple(type(self), map(changes.pop, self._fields, self))
    if changes:
        raise ValueError(f"{type(self).__name__} has no members {list(changes)}")
    return made


def _repr(self: Any) -> str:
    shown = (f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
    return f"{type(self).__name__}({', '.join(shown)})"


def _asdict(self: Any) -> dict[str, Any]:
    return dict(zip(self._fields, self, strict=True))


_METHODS = {
    "__slots__": (),
    "_make": classmethod(_make),
    "_replace": _replace,
    "__repr__": _repr,
    "_asdict": _asdict,
    "__getnewargs__": lambda self: tuple(self),
}
_GLOBALS = {"new_tuple": _new_tuple, "__builtins__": {}}


@cache
def _new_of(count: int) -> CodeType:
    """Compile a function that makes a tuple of its arguments."""
    named = "".join(f"_{number}, " for number in range(count))
    made: FunctionType = eval(f"lambda cls, {named}: new_tuple(cls, ({named}))")
    return made.__code__


@cache
def _getter(number: int) -> Any:
    return _tuplegetter(number, f"Alias for field number {number}")


try:
    from _collections import _tuplegetter  # type: ignore[import-not-found]
except ImportError:  # another Python than CPython has none
    from operator import itemgetter

    def _tuplegetter(number: int, doc: str) -> property:
        return property(itemgetter(number), doc=doc)


def members_of(name: str, fields: Sequence[str], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of the class of a named tuple. `defaults` are of the last fields."""
    code = _new_of(len(fields)).replace(
        co_name="__new__", co_qualname=f"{name}.__new__", co_varnames=("cls", *fields)
    )
    fields = tuple(fields)
    new = FunctionType(code, _GLOBALS, "__new__", tuple(defaults.values()))
    own = {"_fields": fields, "_field_defaults": defaults, "__match_args__": fields, "__new__": new}
    return _METHODS | own | {field: _getter(number) for number, field in enumerate(fields)}


if not TYPE_CHECKING:

    class _Meta(type):
        def __new__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> type:
            fields = list(members["__annotations__"])
            defaults = {field: members.pop(field) for field in fields if field in members}
            return type(name, (tuple,), members_of(name, fields, defaults) | members)

    NamedTuple = type.__new__(_Meta, "NamedTuple", (), {})
