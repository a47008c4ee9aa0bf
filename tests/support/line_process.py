"""A program that answers each line with a line."""

import atexit
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO


class LineProcess:
    """One process for all questions of a run."""

    def __init__(self, command: Sequence[str | Path], env: Mapping[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            env=env,
        )
        atexit.register(self.close)

    def exchange(self, line: str) -> str:
        """Send a line, and return the answer; it is empty where the process has ended."""
        requests, answers = self._pipes()
        requests.write(line + "\n")
        requests.flush()
        return answers.readline()

    def close(self) -> None:
        """End the process."""
        requests, answers = self._pipes()
        requests.close()
        self._process.wait(60)
        answers.close()

    def _pipes(self) -> tuple[IO[str], IO[str]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        return self._process.stdin, self._process.stdout
