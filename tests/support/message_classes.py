"""The classes that Kafka generates from its message specifications, asked one message at a time.

They are those of a server's jars in the local Maven repository, where the oracle and the brokers
that KDUMP_SHARED has put theirs. Where they or Java are missing the tests that ask skip.
"""

import atexit
import json
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import IO, Any

import pytest

_REPOSITORY = Path.home() / ".m2/repository"
_SOURCE = Path(__file__).with_name("MessageClasses.java")
_OTHERS = ("jackson-annotations", "jackson-core", "jackson-databind", "slf4j-api")


def server_jars(version: str) -> list[Path]:
    """Give the jars of a server; none where they are not at hand."""
    jars = sorted((_REPOSITORY / "org/apache/kafka").glob(f"*/{version}/*-{version}.jar"))
    return jars if any("kafka-metadata" in jar.name for jar in jars) else []


class MessageClasses:
    """One Java process that reads and writes messages."""

    def __init__(self, jars: list[Path]) -> None:
        others = [max(_REPOSITORY.rglob(f"{name}-[0-9]*.jar"), default=None) for name in _OTHERS]
        path = ":".join(str(jar) for jar in (*jars, *filter(None, others)))
        self._process = subprocess.Popen(
            ["java", "-XX:TieredStopAtLevel=1", "-cp", path, str(_SOURCE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )
        atexit.register(self.close)

    def read(self, name: str, version: int, data: bytes) -> dict[str, Any]:
        """Say what the class reads (`json`), how much it left, and how it writes that (`hex`)."""
        return self._ask(f"{name} {version} {data.hex()}")

    def write(self, name: str, version: int, fields: dict[str, Any]) -> dict[str, Any]:
        """Say how the class writes a message that is given as Kafka's JSON."""
        return self._ask(f"{name} {version} {json.dumps(fields)}")

    def _ask(self, line: str) -> dict[str, Any]:
        requests, answers = self._pipes()
        requests.write(line + "\n")
        requests.flush()
        answer: dict[str, Any] = json.loads(answers.readline())
        return answer

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


@cache
def message_classes(version: str = "4.4.0") -> MessageClasses:
    """Give the classes of a version; skip where they are not at hand."""
    jars = server_jars(version)
    if not jars or shutil.which("java") is None:
        pytest.skip(f"no Java, or no jars of Kafka {version} in the local Maven repository")
    return MessageClasses(jars)
