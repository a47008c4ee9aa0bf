"""Where results go when they go to a file: one that appears only when it is whole."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from kdump.errors import PathError, UsageError
from kdump.output.stream import ByteStream
from kdump.stores.uris import is_uri, normal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: TOPIC-PARTITION, perhaps with what a broker appends on the way to deletion or to another disk.
_PARTITION_DIRECTORY = re.compile(r".+-\d+(\..+)?")


class OutputFile:
    """A file written under a temporary name beside its own and renamed when it is complete.

    What is there and is no regular file (a pipe, /dev/null) is written to directly.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._final = Path(path)
        self._renamed = self._final.is_file() or not self._final.exists()
        self._written = self._final
        if self._renamed:
            self._final = self._final.resolve()  # a link stays a link
            self._written = self._final.with_name(f".{self._final.name}.kdump-{os.getpid()}")
        try:
            self.file: BinaryIO = self._written.open("wb", buffering=0)
        except OSError as error:
            raise PathError.from_os(path, error) from error
        self.stream = ByteStream(self.file, path)
        self.before_drop: Callable[[], object] | None = None

    def keep(self) -> None:
        """Close the file and give it its name."""
        self.stream.flush()
        try:
            self.file.close()
            if self._renamed:
                self._written.replace(self._final)
        except OSError as error:
            raise PathError.from_os(self.path, error) from error

    def drop(self) -> None:
        """Close the file and leave nothing behind."""
        if self.before_drop is not None:
            self.before_drop()
        self.file.close()
        if self._renamed:
            self._written.unlink(missing_ok=True)


def refuse_input_as_output(output: str, inputs: Iterable[str], option: str = "--output") -> None:
    """Raise where writing `output` would change what is being looked at.

    Nothing is written into a directory that is read, nor beside a file of a partition directory.
    """
    if is_uri(output):
        raise UsageError(
            f"{option} {output}: is in a store, where kdump writes nothing but a directory of "
            "Parquet parts (--format parquet --output URI/)"
        )
    target = Path(os.path.realpath(output))
    for path in inputs:
        if is_uri(path):
            continue
        read = Path(os.path.realpath(path))
        if target == read or _same_file(target, read):
            raise UsageError(f"{option} {output}: is one of the files to be read")
        if os.path.isdir(read):  # what may not be entered is told of when it is read
            inside = read in target.parents
        else:
            inside = target.parent == read.parent and bool(
                _PARTITION_DIRECTORY.fullmatch(read.parent.name)
            )
        if inside:
            raise UsageError(
                f"{option} {output}: lies in a directory that is read; kdump writes nothing there"
            )


def refuse_store_as_output(output: str, inputs: Iterable[str]) -> None:
    """Raise where a directory of a store to be written to lies in one that is read."""
    inside = normal(output).rstrip("/") + "/"
    for path in inputs:
        if is_uri(path) and inside.startswith(normal(path).rstrip("/") + "/"):
            raise UsageError(
                f"--output {output}: lies in a directory that is read; kdump writes nothing there"
            )


def _same_file(first: Path, second: Path) -> bool:
    try:
        return first.samefile(second)
    except OSError:
        return False
