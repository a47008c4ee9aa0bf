"""Rows, which commands answer with: a class for each kind, with its members declared once.

    class Group(Row, kind="group"):
        group: Annotated[str, "its id"]
        epoch: Annotated[Int32 | None, "generation or epoch of the group"]

A row is a tuple of its members in the order in which they are written. JSON, CSV, tables, Arrow,
Spark's DDL, the manual and `kdump schema` follow from the class: what the annotations say is read
by `declarations.py`, and only there, so that a class costs little where nobody asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, dataclass_transform

from kdump.tuples import members_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import ClassVar, Self


def _member(self: Any, name: Any) -> Any:
    """Return a member by its name, or what a tuple has at a place."""
    return getattr(self, name) if isinstance(name, str) else tuple.__getitem__(self, name)


@dataclass_transform(frozen_default=True)
class _Kind(type):
    """Makes a named tuple of what a class declares, behind what its bases declare."""

    def __new__(
        cls,
        name: str,
        bases: tuple[type, ...],
        members: dict[str, Any],
        *,
        kind: str = "",
        omits: tuple[str, ...] = (),
        **traits: bool,
    ) -> _Kind:
        members["__slots__"] = ()
        if not bases:
            return super().__new__(cls, name, bases, members)
        own = members.get("__annotations__", {})
        names, defaults = [*getattr(bases[0], "_fields", ())], dict[str, Any]()
        defaults |= getattr(bases[0], "_field_defaults", {})
        names += [each for each in own if each not in names]
        defaults |= {each: members.pop(each) for each in own if each in members}
        given = {each: defaults[each] for each in names if each in defaults}
        if kind:
            members["row"] = kind
        if omits:
            members["omits"] = omits
        members["__getitem__"] = _member
        members["_written"] = tuple([each.removesuffix("_") for each in names])
        members = members_of(name, names, given) | members | traits
        tuples = () if issubclass(bases[0], tuple) else (tuple,)
        return super().__new__(cls, name, (*tuples, *bases), members)

    def __init__(
        cls, name: str, bases: tuple[type, ...], members: dict[str, Any], **_: object
    ) -> None:
        super().__init__(name, bases, members)


class Row(metaclass=_Kind):
    """A row of any kind."""

    if TYPE_CHECKING:
        #: Members that are not written where they are None; all others are then null. A class whose
        #: rows differ in these has a last member `asked_`, which is never written: the names of
        #: those that a row has even where they are None.
        omits: ClassVar[tuple[str, ...]]
        _fields: ClassVar[tuple[str, ...]]
        _written: ClassVar[tuple[str, ...]]
        #: Sums other rows up, or goes with them: has no place among them in CSV.
        sums_up: ClassVar[bool]
        #: Its severity counts for the exit status as that of a finding does.
        judged: ClassVar[bool]
        #: There may be millions: a table shows them as they come.
        streamed: ClassVar[bool]
        #: Comes before what it sums up.
        leads: ClassVar[bool]

        def __init_subclass__(
            cls,
            *,
            kind: str = "",
            omits: tuple[str, ...] = (),
            sums_up: bool = False,
            judged: bool = False,
            streamed: bool = False,
            leads: bool = False,
        ) -> None: ...

        def __iter__(self) -> Iterator[Any]: ...

        def __getitem__(self, name: str) -> Any: ...

        def _replace(self, **changes: Any) -> Self: ...

        @property
        def row(self) -> str:
            """The name of its kind."""
            ...
    else:
        omits = ()
        sums_up = judged = streamed = leads = False

    @property
    def fields(self) -> dict[str, Any]:
        """Its members by name, in the order in which they are written.

        A name that Python has for something else has a `_` at its end in the class (`from_`).
        """
        members: dict[str, Any] = dict(zip(self._written, self, strict=True))
        asked = members.pop("asked", ()) if self._fields[-1] == "asked_" else ()
        for name in self.omits:
            if members[name] is None and name not in asked:
                del members[name]
        return members

    def get(self, name: str, default: Any = None) -> Any:
        """Return a member by its name, or a default where the row has no such member."""
        return getattr(self, name, default)

    def replaced(self, **changes: Any) -> Self:
        """Return the row with other values of some members."""
        return self._replace(**changes)
