"""Keep Arrow record batches instead of writing them: for Spark, and for the library."""

from __future__ import annotations

from typing import Any

from kdump.output.arrow import ArrowSink
from kdump.output.arrow_schema import schema_of

Arrow = Any  # PyArrow has no types of its own


class ArrowBatches(ArrowSink):
    """Makes record batches of some columns of rows; each has memory of its own.

    `wanted`: names of columns; None: all.
    """

    def __init__(self, wanted: frozenset[str] | None = None, *, decode: bool = False) -> None:
        super().__init__("arrow", None, "", decode=decode)  # type: ignore[arg-type]
        self._wanted = wanted
        self.ready: list[Arrow] = []

    def _open(self) -> None:
        if self._writer is None:
            wanted = self._types.keys() if self._wanted is None else self._wanted
            types = {name: word for name, word in self._types.items() if name in wanted}
            self._schema = schema_of(types)
            self._writer = self

    def _write_batch(self) -> None:
        super()._write_batch()
        self._columns = None  # its buffers belong to the batch now

    def write_batch(self, batch: Arrow) -> None:
        """Keep a batch, as a writer of PyArrow's takes one."""
        self.ready.append(batch)

    def close(self) -> None:
        """There is no file."""

    def take(self) -> list[Arrow]:
        """Hand over what is ready."""
        ready, self.ready = self.ready, []
        return ready
