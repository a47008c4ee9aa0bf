"""Write text as Java does: bytes like `new String(bytes, UTF_8)`, JSON like Jackson."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

#: The start of a UTF-16 surrogate written as UTF-8. Java takes all of it for one malformed
#: sequence, Python every byte for one.
_SURROGATE = re.compile(b"\xed[\xa0-\xbf][\x80-\xbf]?")


def java_text(data: bytes) -> str:
    """Decode UTF-8 with one U+FFFD for each malformed sequence, cut as Java cuts them."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return _SURROGATE.sub(b"\xff", data).decode("utf-8", "replace")


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
