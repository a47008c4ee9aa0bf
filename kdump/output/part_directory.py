"""A directory that many workers fill with part files, and that readers see only when it is whole.

    DIR/_staging/JOB/NUMBER-ATTEMPT.parquet      while the work runs
    DIR/topic=T/partition=P/part-NUMBER.parquet  afterwards
    DIR/_SUCCESS                                 last of all: what was written, as JSON

A worker writes under a name of its own, so that attempts which run twice, whether after a failure
or by speculation, never touch each other's files. Its result names the file; the process that
collects the results takes one for each split and renames just those. Whatever else was written
goes with `_staging`. The names beneath are those of Hive, which Spark, DuckDB and Arrow take for
columns and for what can be passed over.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from kdump.errors import KdumpError, PathError
from kdump.output.target import refuse_input_as_output

if TYPE_CHECKING:
    from collections.abc import Iterable

STAGING = "_staging"
SUCCESS = "_SUCCESS"
#: What Hive writes for a null.
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
# What may stand in a directory name; Hive writes all else as %XX.
_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
_REMOVALS = 20


class NotEmpty(KdumpError):
    """The directory holds something already."""

    status = 5


class PartDirectory:
    """The output directory of one run. Everything here is done by the process that leads it."""

    def __init__(self, path: str, inputs: Iterable[str]) -> None:
        refuse_input_as_output(path, inputs)
        self.path = Path(path)
        self._made = not self.path.exists()
        self._moved = False
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._refuse_other_results()
            self.staging = self.path.absolute() / STAGING / uuid.uuid4().hex
            self.staging.mkdir(parents=True)
        except OSError as error:
            raise PathError.from_os(path, error) from error

    def _refuse_other_results(self) -> None:
        held = sorted(entry.name for entry in self.path.iterdir())
        if held and SUCCESS not in held and STAGING in held:
            raise NotEmpty(
                f"{self.path}: another dump is being written there, or one was killed (it has "
                f"{STAGING} and no {SUCCESS}); in the second case remove it and dump again"
            )
        if held:
            raise NotEmpty(f"{self.path}: is not empty ({held[0]}); --output wants a new directory")

    def keep(self, parts: Iterable[tuple[str, str | None, int | None, int]], told: object) -> None:
        """Move parts into place: (staged name, topic, partition, number) of each."""
        try:
            self._moved = True
            touched = {self.path}
            for name, topic, partition, number in parts:
                directory = self.path / _level("topic", topic) / _level("partition", partition)
                directory.mkdir(parents=True, exist_ok=True)
                (self.staging / name).rename(directory / part_name(number))
                touched |= {directory, directory.parent}
            for directory in touched:
                _flush(directory)
            self._clear()
            success = self.path / SUCCESS
            with success.open("w", encoding="utf-8") as file:
                file.write(json.dumps(told) + "\n")
                file.flush()
                os.fsync(file.fileno())
            _flush(self.path)
        except OSError as error:
            raise PathError.from_os(str(self.path), error) from error

    def drop(self) -> None:
        """Leave nothing behind, unless parts are in place already: then what is there is kept."""
        self._clear()
        if self._made and not self._moved:
            try:
                self.path.rmdir()
            except OSError:
                pass

    def _clear(self) -> None:
        """Remove what was staged; a late attempt may be writing there still."""
        for _ in range(_REMOVALS):
            shutil.rmtree(self.staging.parent, ignore_errors=True)
            if not self.staging.parent.exists():
                return
            time.sleep(0.1)


def part_name(number: int) -> str:
    """Name a part so that parts sort in the order of the log."""
    return f"part-{number:08}.parquet"


def _level(column: str, value: object) -> str:
    if value is None:
        return f"{column}={NO_VALUE}"
    text = "".join(
        letter if letter in _PLAIN else "".join(f"%{byte:02X}" for byte in os.fsencode(letter))
        for letter in str(value)
    )
    return f"{column}={text}"


def _flush(directory: Path) -> None:
    """See to it that a directory's entries survive a power failure."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
