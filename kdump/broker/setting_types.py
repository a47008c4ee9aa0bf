"""What a release says of the value of a setting as it reads it, by Kafka's own definitions (N1).

`setting_types.json` has them for some releases; between two of these a value counts as refused
where both refuse it. Checks that Kafka has as code and not as data are in `node_settings`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from kdump.broker.versions import Version, is_newer, note_more, read_version
from kdump.storage.checkpoints import java_int

_BITS = {"SHORT": 15, "INT": 31, "LONG": 63}
_DOUBLE = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFdD]?"
    r"|0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?\d+[fFdD]?)"
)


class _RefusedValueError(Exception):
    """A value is not taken; the message is all that is said of it."""


@cache
def _table() -> dict[str, Any]:
    path = os.path.join(os.path.dirname(__file__), "setting_types.json")
    with open(path, encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    found["releases"] = [read_version(one) for one in found["releases"]]
    return found


@cache
def _releases_around(broker: Version) -> tuple[int, int]:
    releases = _table()["releases"]
    older = max((n for n, one in enumerate(releases) if not is_newer(one, broker)), default=0)
    newer = next((n for n, one in enumerate(releases) if not is_newer(broker, one)), older)
    return older, newer


def _kinds_of(name: str, broker: Version) -> list[list[Any]]:
    """The kinds of a setting in the releases around one, none where either lacks it."""
    table = _table()
    rows = table["settings"].get(name)
    if rows is None:
        return []
    note_more()
    older, newer = _releases_around(broker)
    if rows[older] is None or rows[newer] is None:
        return []
    return [table["kinds"][rows[older]], table["kinds"][rows[newer]]]


def is_known_setting(name: str, broker: Version) -> bool:
    """Whether a release has a setting of this name."""
    return bool(_kinds_of(name, broker))


def is_class(name: str, broker: Version) -> bool:
    """Whether a setting names one class."""
    return any(kind[0] == "CLASS" for kind in _kinds_of(name, broker))


def check_values(values: Mapping[str, str], broker: Version) -> Iterator[tuple[str, str]]:
    """Yield name and the broker's sentence for each value it does not take, in its own order."""
    for name in _table()["settings"]:
        if name not in values:
            continue
        said = [_refusal_text(name, values[name], *kind) for kind in _kinds_of(name, broker)]
        if said and all(said):
            yield name, said[0]


def _refusal_text(name: str, value: str, kind: str, check: str, checked: Mapping[str, str]) -> str:
    try:
        for each in _parse(name, value, kind, checked):
            _check(name, each, check, checked)
    except _RefusedValueError as refused:
        return str(refused)
    return ""


def _invalid(name: str, value: object, why: str) -> _RefusedValueError:
    return _RefusedValueError(f"Invalid value {value} for configuration {name}: {why}")


def _parse(name: str, value: str, kind: str, checked: Mapping[str, str]) -> list[Any]:
    """Return the value as its type has it: the elements of a list, else one."""
    text = value.strip()
    if kind in _BITS:
        number = java_int(text, 1 << _BITS[kind])
        if number is None:
            raise _invalid(name, value, f"Not a number of type {kind}")
        return [number]
    if kind == "DOUBLE":
        if not _DOUBLE.fullmatch(text):
            raise _invalid(name, value, f"Not a number of type {kind}")
        digits = text.rstrip("fFdD") if "x" not in text.lower() else text
        return [float.fromhex(digits) if "x" in text.lower() else float(digits)]
    if kind == "BOOLEAN" and text.lower() not in ("true", "false"):
        raise _invalid(name, value, "Expected value to be either true or false")
    if kind != "LIST":
        return [text]
    found = re.split(r"\s*,\s*", text) if text else []
    if not found and checked.get("isEmptyAllowed") == "false":  # since 4.2
        allowed = checked["validStrings"].replace(",", ", ")
        allowed = f"[{allowed}]" if allowed else "any non-empty value"
        raise _RefusedValueError(
            f"Configuration '{name}' must not be empty. Valid values include: {allowed}"
        )
    return found


def _check(name: str, value: Any, check: str, checked: Mapping[str, str]) -> None:
    allowed = checked.get("validStrings", "")
    among = allowed.replace(",", ", ")
    if check == "Range":
        if float(value) < float(checked.get("min", "-Infinity")):
            raise _invalid(name, value, f"Value must be at least {checked['min']}")
        if float(value) > float(checked.get("max", "Infinity")):
            raise _invalid(name, value, f"Value must be no more than {checked['max']}")
    elif check == "NonEmptyString" and not value:
        raise _invalid(name, value, "String must be non-empty")
    elif check == "CaseInsensitiveValidString" and value.upper() not in allowed.split(","):
        raise _invalid(name, value, f"String must be one of (case insensitive): {among}")
    elif check == "ValidList" and "isEmptyAllowed" in checked and not value:
        raise _RefusedValueError(f"Configuration '{name}' values must not be empty.")
    elif check in ("ValidString", "ValidList") and allowed and value not in allowed.split(","):
        raise _invalid(name, value, f"String must be one of: {among}")
