"""The types that members of rows are declared with, beside Python's own.

A plain `int` has 64 bits; `str`, `bytes`, `bool`, `float` are what they are; a list or a mapping is
JSON in a cell of CSV, and in Arrow a list where it holds texts or numbers, else JSON text.
"""

from __future__ import annotations

from typing import Annotated, Any

from kdump.tuples import NamedTuple


class ColumnStorage(NamedTuple):
    """How a member is stored in columns: a word of Arrow's or `dictionary`; its unit and its role.

    Roles: `time` (milliseconds since 1970 in UTC), `severity`.
    """

    type: str
    unit: str = ""
    role: str = ""


#: A text out of few.
Word = Annotated[str, ColumnStorage("dictionary")]
Int8 = Annotated[int, ColumnStorage("int8")]
Int16 = Annotated[int, ColumnStorage("int16")]
Int32 = Annotated[int, ColumnStorage("int32")]
#: A time, in milliseconds since 1970 in UTC.
Time = Annotated[int, ColumnStorage("int64", "ms", "time")]
#: A length of time.
Duration = Annotated[int, ColumnStorage("int64", "ms")]
DurationInt = Annotated[int, ColumnStorage("int32", "ms")]
Bytes = Annotated[int, ColumnStorage("int64", "bytes")]
#: How severe: note, rebuild, damage.
Severe = Annotated[str, ColumnStorage("dictionary", "", "severity")]
Texts = list[str]
Numbers = Annotated[list[int], ColumnStorage("list<int32>")]
#: What JSON can hold.
Json = Any
#: A setting, with its name, its value and what says it.
Setting = dict[str, Json]
#: What the oldest release answers that can have written a directory: `broker_version`, and those
#: members of the row in which its answer differs.
Oldest = dict[str, Json]
