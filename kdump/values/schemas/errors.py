"""Why a key or a value, or a schema, cannot be read."""

from __future__ import annotations


class UndecodedError(Exception):
    """Bytes stay as they are; `reason` is counted, `detail` is only of these bytes."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}" if self.detail else self.reason


TRUNCATED, MALFORMED, TRAILING = "truncated", "malformed", "trailing bytes"
TOO_DEEP, TOO_MANY = "nested too deeply", "too many items"
BAD_SCHEMA = "schema cannot be read"
#: Items that a value may have: a few bytes can stand for any number of nulls.
MOST_ITEMS = 1 << 20
#: Schemas larger than this are not read: what is made of one takes many times its bytes.
MOST_SCHEMA_BYTES = 4 << 20
