"""Read messages of internal topics, and write them as JSON text.

What a message says is specified by the interpreter in `kdump/messages/`, which reads all of them
where this kernel runs. The compiled one reads what is sound: for all else, as for what few records
hold, it returns None or asks `spell`, so that both come to the same.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable
    from typing import Any, Protocol

    from kdump.kernels.columns import Data, DecodedRecords

    #: The fields of a structure, each with its name, its type, whether it may be null, its tag, and
    #: the layout of the structure that it or each of its elements is; and whether it is flexible.
    Layout = tuple[bool, tuple[tuple[str, str, bool, int | None, "Layout | None"], ...]]
    Read = Callable[[bytes, int], tuple[dict[str, Any], int] | None]
    #: The JSON texts of the key and the value of a row, None where they have none.
    Spell = Callable[[int], tuple[bytes | None, bytes | None]]
    Write = Callable[
        [Data, DecodedRecords, array[int] | None, int, int, int, Spell], tuple[int, bytes]
    ]
    #: A layout, and what stands before the text of it; behind it stands a brace.
    Known = tuple[bytes, Layout]

    class Folds(Protocol):
        """Changes of partitions in the metadata log, of each partition one."""

        last_ms: int  # the highest time of all records

        def __len__(self) -> int:
            """How many partitions have changed."""

        def take(
            self,
            data: Data,
            records: DecodedRecords,
            first: int,
            last: int,
            least_offset: int,
            most_offset: int,
            most_ms: int,
        ) -> int:
            """Take up records `first` to before `last`, and return the first that is left to the
            caller: it says anything else, is not sound, or does not lie between the bounds.
            """

        def drain(self) -> list[tuple[bytes, int, int, int, int, int, int]]:
            """Give what was folded, and forget it: of each partition one record that says it all.

            Behind it: how many it stands for, and in how many the leader changed; the offset of
            the first and of the last, the time of the last and of the last that moved replicas.
            """


def folded_changes() -> Folds | None:
    """Make what folds changes of partitions, so that of many only what they come to is read.

    Here nothing is made: a change is read as any other record.
    """
    return None


def message_reader(layout: Layout) -> Read | None:
    """Make what reads a version of a message: its fields, and where it ends.

    It is passed bytes and where the message begins in them, and returns None where the interpreter
    is to read it. Here nothing is made.
    """
    return None


def message_writer(
    framed: bool, keys: dict[int, Known], values: dict[tuple[int, int], Known]
) -> Write | None:
    """Make what writes the keys and values of records as JSON text, one behind the other.

    `framed`: values begin with varints of the frame, the type and the version, and keys are null;
    else keys begin with their type, and values with their version. `keys` are the layouts by type,
    `values` by type and version.

    It is passed the data of records, the records, the rows to write (None: all), where `data` will
    begin, where the text will, how much text is enough, and `spell`. It changes the records as if
    the texts lay there, and returns how many rows it wrote, and the text. Here nothing is made.
    """
    return None
