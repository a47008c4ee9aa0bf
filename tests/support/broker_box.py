"""Real brokers of several versions, started, asked and killed on a directory of a test's own.

They come with KDUMP_SHARED and need Java 17, and Maven the first time; a test that asks for one is
skipped where something is missing.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from corpus import find_shared
from patience import PATIENCE_SECONDS

Json = dict[str, Any]


def program() -> Path:
    """Give the program that starts brokers; skip where it cannot run."""
    root = find_shared()
    if root is None or not (root / "broker" / "broker").is_file():
        pytest.skip("no broker: KDUMP_SHARED names none, and there is no ../shared")
    for needed in ("java", "mvn"):
        if shutil.which(needed) is None:
            pytest.skip(f"the broker needs {needed}, which is not on PATH")
    return root / "broker" / "broker"


class Broker:
    """One broker of a version on a directory; it ends with the process of the test."""

    def __init__(self, directory: Path, version: str) -> None:
        self._program = program()
        self.directory = directory
        self.version = version

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run one of the program's commands on the directory, whatever comes of it."""
        return subprocess.run(
            [str(self._program), arguments[0], "--dir", str(self.directory), *arguments[1:]],
            capture_output=True,
            text=True,
            check=False,
        )

    def start(self, **settings: object) -> None:
        """Start it; no partition may be without a leader, or unknown to the cluster.

        Settings of the broker are named with underscores for dots.
        """
        more = [f"--set={name.replace('_', '.')}={value}" for name, value in settings.items()]
        done = self.run("start", "--version", self.version, "--owner", str(os.getpid()), *more)
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        assert not answer["offline"]
        assert not answer["unknown"]

    def ask(self, *operations: Json) -> list[Json]:
        """Let clients do operations; answers may say that one failed.

        The client's own limit of 30 s is too short for a busy machine.
        """
        patient = (json.dumps({"timeout": PATIENCE_SECONDS} | one) for one in operations)
        lines = self.run("client", *patient).stdout.splitlines()
        return [json.loads(line) for line in lines]
