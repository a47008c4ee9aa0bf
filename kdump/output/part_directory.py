"""A directory that workers fill with part files, and that readers see only when complete.

    DIR/_staging/JOB/NUMBER-ATTEMPT.parquet      while the work runs
    DIR/topic=T/partition=P/part-NUMBER.parquet  afterwards
    DIR/_SUCCESS                                 last of all: what was written, as JSON

A worker writes under a name of its own, so that attempts which run twice, whether after a failure
or by speculation, never touch each other's files. Its result names the file; the process that
collects the results takes one for each split and renames just those, or copies them where a store
has no renaming. Whatever else was written goes with `_staging`. The names beneath are those of
Hive, which Spark, DuckDB and Arrow take for columns and for what can be passed over.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterable

from kdump.errors import KdumpError, path_errors
from kdump.output.escape import name_text
from kdump.output.part_files import files_at
from kdump.output.target import refuse_input_as_output, refuse_number, refuse_store_as_output
from kdump.storage.evidence import refuse_among_evidence
from kdump.stores.uris import is_uri, normal

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
        if is_uri(path):
            refuse_store_as_output(path, inputs)
        else:
            refuse_number(path)
            refuse_among_evidence(path, "--output")
            refuse_input_as_output(path, inputs)
        self.path = path
        self._made = not (is_uri(path) or os.path.exists(path))
        self._moved = False
        self._job = f"{STAGING}/{uuid.uuid4().hex}"
        #: Where workers write, for each of them the same place.
        self.staging = os.path.join(
            normal(path) if is_uri(path) else os.path.abspath(path), self._job
        )
        with path_errors(path):
            self._files = files_at(path)
            self._files.make("")
            self._refuse_other_results()
            self._files.make(self._job)

    def _refuse_other_results(self) -> None:
        held = self._files.names()
        if held and SUCCESS not in held and STAGING in held:
            raise NotEmpty(
                f"{self.path}: another dump is writing there, or was killed (it contains "
                f"{STAGING} but not {SUCCESS}); if it was killed, remove the directory and run "
                "the command again"
            )
        if held:
            raise NotEmpty(f"{self.path}: is not empty ({held[0]}); --output needs a new directory")

    def keep(
        self, parts: Iterable[tuple[str, str | None, int | None, int]], summary: object
    ) -> None:
        """Move parts into place: (staged name, topic, partition, number) of each."""
        with path_errors(self.path):
            self._moved = True
            touched = {""}
            for name, topic, partition, number in parts:
                above = _level("topic", topic)
                directory = f"{above}/{_level('partition', partition)}"
                self._files.move(f"{self._job}/{name}", f"{directory}/{part_name(number)}")
                touched |= {directory, above}
            self._files.settle(touched)
            self._clear()
            file = self._files.create(SUCCESS)
            file.write(json.dumps(summary).encode() + b"\n")
            self._files.close(file)
            self._files.settle([""])

    def drop(self) -> None:
        """Leave nothing behind, unless parts are in place already: then what is there is kept."""
        self._clear()
        if self._made and not self._moved:
            self._files.drop()

    def _clear(self) -> None:
        """Remove what was staged; a late attempt may be writing there still."""
        for _ in range(_REMOVALS):
            if self._files.clear(STAGING):
                return
            time.sleep(0.1)


def part_name(number: int) -> str:
    """Name a part so that parts sort in the order of the log."""
    return f"part-{number:08}.parquet"


def _level(column: str, value: object) -> str:
    if value is None:
        return f"{column}={NO_VALUE}"
    text = "".join(
        letter if letter in _PLAIN else "".join(f"%{byte:02X}" for byte in letter.encode())
        for letter in name_text(str(value))  # one name that is no UTF-8 would hide all the others
    )
    return f"{column}={text}"
