"""The classes that Kafka generates from its message specifications, asked one message at a time.

They are those of a server's jars in the local Maven repository, where the oracle and the brokers
that KDUMP_SHARED has put theirs. Where they or Java are missing the tests that ask skip.
"""

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from line_process import LineProcess

_REPOSITORY = Path.home() / ".m2/repository"
_OTHERS = ("jackson-annotations", "jackson-core", "jackson-databind", "slf4j-api")


def server_jars(version: str) -> list[Path]:
    """Give the jars of a server; none where they are not at hand."""
    jars = sorted((_REPOSITORY / "org/apache/kafka").glob(f"*/{version}/*-{version}.jar"))
    return jars if any("kafka-metadata" in jar.name for jar in jars) else []


def java_program(source: str, version: str) -> list[str | Path]:
    """Return the command of a program with a server's classes; skip where they are missing."""
    jars = server_jars(version)
    if not jars or shutil.which("java") is None:
        pytest.skip(f"no Java, or no jars of Kafka {version} in the local Maven repository")
    others = [max(_REPOSITORY.rglob(f"{name}-[0-9]*.jar"), default=None) for name in _OTHERS]
    path = ":".join(str(jar) for jar in (*jars, *filter(None, others)))
    return ["java", "-XX:TieredStopAtLevel=1", "-cp", path, Path(__file__).with_name(source)]


class MessageClasses(LineProcess):
    """One Java process that reads and writes messages."""

    def read(self, name: str, version: int, data: bytes) -> dict[str, Any]:
        """Say what the class reads (`json`), how much it left, and how it writes that (`hex`)."""
        return self._ask(f"{name} {version} {data.hex()}")

    def write(self, name: str, version: int, fields: dict[str, Any]) -> dict[str, Any]:
        """Say how the class writes a message that is given as Kafka's JSON."""
        return self._ask(f"{name} {version} {json.dumps(fields)}")

    def _ask(self, line: str) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.exchange(line))
        return answer


@cache
def message_classes(version: str = "4.4.0") -> MessageClasses:
    """Give the classes of a version; skip where they are not at hand."""
    return MessageClasses(java_program("MessageClasses.java", version))
