"""Write kdump/broker/setting_types.json from Kafka's own definitions of a broker's settings.

    python tools/setting_table.py RELEASE=CLASSPATH...

Each release is one whose jars lie on that class path (`kafka_2.13` and what it needs), the oldest
first. Needs a JDK.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

TABLE = Path(__file__).parents[1] / "kdump/broker/setting_types.json"
PROGRAM = Path(__file__).with_name("SettingDefinitions.java")
#: Checks that are known by what they say; others are made of code.
_CHECKS = ("Range", "ValidString", "CaseInsensitiveValidString", "ValidList", "NonEmptyString")


def compile_program(classpath: str, directory: str) -> list[str]:
    """Compile the program for a release; give the command that runs it."""
    subprocess.run(
        ["javac", "-nowarn", "-cp", classpath, "-d", directory, PROGRAM],
        check=True,
        capture_output=True,
    )
    return ["java", "-cp", f"{directory}:{classpath}", PROGRAM.stem]


def main(arguments: list[str]) -> None:
    """Write the table."""
    kinds: list[Any] = []
    releases: list[str] = []
    settings: dict[str, list[int | None]] = {}
    for argument in arguments:
        release, _, classpath = argument.partition("=")
        with tempfile.TemporaryDirectory() as directory:
            command = [*compile_program(classpath, directory), "list"]
            text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found = dict(map(_definition, text.splitlines()))
        # In the order of the newest release: that is the order in which it looks at them.
        settings = {
            name: settings.get(name) or [None] * len(releases) for name in {**found, **settings}
        }
        releases.append(release)
        for name, row in settings.items():
            kind = found.get(name)
            if kind is not None and kind not in kinds:
                kinds.append(kind)
            row.append(None if kind is None else kinds.index(kind))
    lines = [
        f'"releases":{json.dumps(releases)}',
        _format_names("kinds", "[]", map(json.dumps, kinds)),
    ]
    rows = (f"{json.dumps(name)}:{json.dumps(row)}" for name, row in settings.items())
    lines.append(_format_names("settings", "{}", rows))
    TABLE.write_text("{\n" + ",\n".join(lines).replace(", ", ",") + "\n}\n", "utf-8")


def _format_names(name: str, ends: str, lines: Any) -> str:
    return f'"{name}":{ends[0]}\n' + ",\n".join(lines) + f"\n{ends[1]}"


def _definition(line: str) -> tuple[str, Any]:
    name, kind, check, *fields = line.split("\t")
    said = dict(field.split("=", 1) for field in fields) if check in _CHECKS else {}
    return name, [kind, check if check in _CHECKS else "", said]


if __name__ == "__main__":
    main(sys.argv[1:])
