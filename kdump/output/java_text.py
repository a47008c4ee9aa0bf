"""Write JSON as Jackson does."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping


def jackson(value: object) -> str:
    """Write JSON without spaces and with upper-case escapes, as Jackson does."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return re.sub(r"\\u00[0-9a-f]{2}", lambda match: "\\u" + match.group()[2:].upper(), text)


def camel_case(value: object) -> object:
    """Turn the names of members from snake_case to camelCase, all the way down."""
    if isinstance(value, Mapping):
        return {_camel(name): camel_case(member) for name, member in value.items()}
    if isinstance(value, list):
        return [camel_case(member) for member in value]
    return value


def _camel(name: str) -> str:
    if name.startswith("kraft_"):  # Kafka spells it kRaftVersion
        name = f"k_raft_{name[6:]}"
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
