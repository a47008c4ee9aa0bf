"""A directory with a file for each kind of row: `--output DIR/`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal

from kdump.errors import PathError, RefusedError
from kdump.findings.rows import BatchChunk, BatchRow, RecordChunk, RecordRow, Row
from kdump.output.sink import Sink
from kdump.output.target import OutputFile, refuse_input_as_output, refuse_number
from kdump.storage.evidence import refuse_among_evidence

if TYPE_CHECKING:
    from kdump.output.sink import Item


def kind_of(item: Item) -> str:
    """Return the kind of an item's rows, of a record batch's too; of annotated bytes none."""
    if isinstance(item, Row):
        return item.row
    if isinstance(item, (RecordChunk, RecordRow)):
        return "record"
    if isinstance(item, (BatchChunk, BatchRow)):
        return "batch"
    return "answer" if hasattr(item, "num_rows") else ""


def is_directory(output: str) -> bool:
    """Whether `--output` names a directory, be it one that is still to be made."""
    return output.endswith("/") or os.path.isdir(output)


class KindDirectory:
    """The files of one run. They appear when all are whole; before, nothing of them is there.

    Raises Refused for a directory that holds something, unless with `force`: files of the same
    names are then replaced. A directory that was made for a run without a row stays, empty.
    """

    has_kinds: Literal[True] = True
    has_old = False
    is_new_file = True

    def __init__(self, path: str, suffix: str, inputs: Iterable[str], *, force: bool) -> None:
        refuse_number(path)
        refuse_among_evidence(path, "--output")
        refuse_input_as_output(path, inputs)
        self.path, self._suffix = path, suffix
        self._files: dict[str, OutputFile] = {}
        self.before_drop: Callable[[], object] | None = None
        try:
            os.makedirs(path, exist_ok=True)
            held = os.listdir(path)
        except OSError as error:
            raise PathError.from_os(path, error) from error
        if held and not force:
            raise RefusedError(
                f"--output {path}",
                f"is not empty ({held[0]}); --force replaces files of the same names",
            )

    def open(self, kind: str) -> OutputFile:
        """Begin the file of a kind."""
        file = self._files[kind] = OutputFile(os.path.join(self.path, kind + self._suffix))
        return file

    def keep(self) -> None:
        """Give every file its name."""
        for file in self._files.values():
            file.keep()

    def drop(self) -> None:
        """Leave nothing behind."""
        if self.before_drop is not None:
            self.before_drop()
        for file in self._files.values():
            file.drop()

    def flush(self) -> None:
        """Write what the files' streams hold."""
        for file in self._files.values():
            file.stream.flush()

    def tick(self, *, at_once: bool = False) -> None:
        """Write what has waited long enough, or all."""
        for file in self._files.values():
            file.stream.tick(at_once=at_once)


class ByKind(Sink):
    """Hands each row to the sink of its kind, which `make` makes for a file."""

    def __init__(self, directory: KindDirectory, make: Callable[[OutputFile], Sink]) -> None:
        self._directory, self._make = directory, make
        self._sinks: dict[str, Sink] = {}

    def write(self, item: Item) -> None:
        """Take one item."""
        kind = kind_of(item)
        if kind and kind not in self._sinks:
            self._sinks[kind] = self._make(self._directory.open(kind))
        if kind:
            self._sinks[kind].write(item)

    def settle(self) -> None:
        """Write what was held back only for looks."""
        for sink in self._sinks.values():
            sink.settle()

    def finish(self) -> None:
        """Write what was held back."""
        for sink in self._sinks.values():
            sink.finish()
