"""A dataset of PyArrow's whose rows are read as they are asked for.

DuckDB, Polars, and DataFusion ask such an object for columns and a filter, and take no more than
they need. PyArrow's own scanner reads ahead in threads, which Python's end does not wait for: here
who takes rows pulls them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

import pyarrow as pa
from pyarrow import dataset

from kdump.api.scanning import Table


class PushdownDataset(dataset.InMemoryDataset):
    """The rows of a kind under some paths; what is inherited reads by way of `scanner`."""

    def __init__(self, table: Table, condition: Any = None) -> None:
        super().__init__(table.schema.empty_table())
        self._table, self._condition = table, condition

    def scanner(self, columns: Iterable[str] | None = None, filter: Any = None, **_: Any) -> Pull:
        """Return what gives some columns of the rows for which a filter holds."""
        condition = self._condition if filter is None else self.filter(filter)._condition
        return Pull(self._table, None if columns is None else list(columns), condition)

    def filter(self, expression: Any) -> PushdownDataset:
        """Return the dataset of the rows for which a filter holds, too."""
        both = expression if self._condition is None else self._condition & expression
        return PushdownDataset(self._table, both)

    def get_fragments(self, filter: Any = None) -> Iterator[WholeFragment]:
        """Yield all of it as one fragment."""
        yield WholeFragment(self if filter is None else self.filter(filter))

    def _of_arrow(self, *_: object, **__: object) -> NoReturn:
        raise NotImplementedError("not supported here: call it on the result of to_table()")

    join = join_asof = replace_schema = sort_by = take = __reduce__ = _of_arrow


class WholeFragment:
    """A dataset as its only fragment, which DataFusion asks for."""

    def __init__(self, of: PushdownDataset) -> None:
        self._of = of

    def scanner(self, schema: Any = None, **asked: Any) -> Pull:
        """Return what gives rows."""
        return self._of.scanner(**asked)


class Pull:
    """Gives rows as a scanner of PyArrow's does, as far as they are taken."""

    def __init__(self, table: Table, columns: list[str] | None, condition: Any) -> None:
        self._table, self._condition = table, condition
        self._columns = table.schema.names if columns is None else columns

    @property
    def projected_schema(self) -> Any:
        """The columns of the rows."""
        return pa.schema([self._table.schema.field(name) for name in self._columns])

    def to_reader(self) -> Any:
        """Return a reader."""
        return self._table.scan(self._columns, self._condition)

    def to_batches(self) -> Iterator[Any]:
        """Yield record batches."""
        return iter(self.to_reader())

    def to_table(self) -> Any:
        """Return a table of all rows."""
        return self.to_reader().read_all()

    def head(self, num_rows: int) -> Any:
        """Return a table of the first rows."""
        reader, taken = self.to_reader(), []
        while num_rows > 0 and (batch := next(reader, None)) is not None:
            taken.append(batch.slice(0, num_rows))
            num_rows -= taken[-1].num_rows
        return pa.Table.from_batches(taken, reader.schema)

    def count_rows(self) -> int:
        """Count the rows."""
        return sum(batch.num_rows for batch in self._table.scan([], self._condition))
