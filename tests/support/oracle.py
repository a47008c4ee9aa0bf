"""The broker's own classes (Kafka 4.1.1), asked through the oracle that KDUMP_SHARED holds.

One process serves all tests of a run, one JSON object a line each way. It needs Java 17, and Maven
the first time; where something is missing the tests that ask for it skip, and say what.
"""

import json
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from corpus import find_shared
from line_process import LineProcess

# What `make` knows how to write, but for the big ones that are there to be measured.
PROFILES = (
    "tiny",
    "mixed-v0",
    "mixed-v1",
    "mixed-v2",
    "mixed-all",
    "leader-v0",
    "leader-v1",
    "leader-v2",
    "logappend",
    "txn",
    "compacted",
    "outoforder-time",
    "restarts",
    "huge-offsets",
    "group-offsets",
    "txn-state",
    "metadata",
    "share-state",
)


class OracleError(Exception):
    """The broker's code raised; the message is its own."""


class Oracle(LineProcess):
    """One `oracle serve`, or `oracle-old VERSION serve`."""

    def __init__(self, program: Path, *arguments: str) -> None:
        # Of its own, so that scratch copies go even where the process is killed.
        self._scratch = tempfile.mkdtemp(prefix="kdump-oracle-")
        super().__init__([program, *arguments, "serve"], {**os.environ, "TMPDIR": self._scratch})

    def ask(self, query: str, **members: Any) -> Any:
        """Return the result of a query; raise what the broker's code raised."""
        answer = self.answer(query, **members)
        if not answer["ok"]:
            raise OracleError(json.dumps(answer["error"]))
        return answer["result"]

    def answer(self, query: str, **members: Any) -> dict[str, Any]:
        """Return the whole answer to a query, `ok` or not."""
        line = self.exchange(json.dumps({"q": query, **members}, default=str))
        if not line:
            raise OracleError("the oracle has ended")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def make(self, profile: str, seed: int, directory: Path, **options: Any) -> Path:
        """Write a partition directory; the same profile, seed and options give the same bytes."""
        self.ask("make", profile=profile, seed=seed, dir=directory, options=options)
        return directory

    def dump(self, *arguments: str) -> str:
        """Return what kafka-dump-log prints on standard output."""
        text: str = self.ask("dump", args=list(arguments))["stdout"]
        return text

    def close(self) -> None:
        """End the process; its scratch copies go with it."""
        super().close()
        shutil.rmtree(self._scratch, ignore_errors=True)


@cache
def _start() -> Oracle | str:
    """Start the oracle, or say in one line why it cannot be."""
    root = find_shared()
    if root is None:
        return "no oracle: KDUMP_SHARED names none, and there is no ../shared"
    program = root / "oracle" / "oracle"
    if not program.is_file():
        return "no oracle in the directory that KDUMP_SHARED names"
    for needed in ("java", "mvn"):
        if shutil.which(needed) is None:
            return f"the oracle needs {needed}, which is not on PATH"
    built = subprocess.run([str(program), "--build"], capture_output=True, text=True, check=False)
    if built.returncode:
        lines = (built.stdout + built.stderr).strip().splitlines()
        return f"the oracle cannot be built: {lines[-1] if lines else built.returncode}"
    oracle = Oracle(program)
    try:
        oracle.ask("version")
    except OracleError as error:
        return f"the oracle does not answer: {error}"
    return oracle


def oracle() -> Oracle:
    """Give the oracle of this run; skip where there is none."""
    found = _start()
    if isinstance(found, str):
        pytest.skip(found)
    return found


@cache
def old_oracle(version: str) -> Oracle:
    """Give the oracle of Kafka 2.8 or 1.0, which knows a few queries; skip where there is none."""
    oracle()
    root = find_shared()
    assert root is not None
    program = root / "oracle" / "oracle-old"
    found = Oracle(program, version)
    try:
        found.answer("version")  # not every old one knows it: what matters is that it answers
    except OracleError as error:
        pytest.skip(f"the oracle of {version} does not answer: {error}")
    return found
