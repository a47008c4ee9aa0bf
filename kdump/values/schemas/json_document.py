"""Read values written by a JSON Schema: the document as it is, with its numbers as written."""

from __future__ import annotations

import json
from typing import NoReturn

from kdump.findings.escape import escape_json
from kdump.values.schemas.errors import MALFORMED, TOO_DEEP, TRAILING, UndecodedError

_ONE_LINE = str.maketrans("\t\n\r", "   ")


def document(data: bytes, at: int) -> str:
    """Return a document on one line. It is only checked: reading a number may change it."""
    try:
        text = data[at:].decode()
        _check(text)
    except RecursionError:
        raise UndecodedError(TOO_DEEP) from None
    except json.JSONDecodeError as error:
        trailing = error.msg == "Extra data"
        raise UndecodedError(
            TRAILING if trailing else "truncated or malformed", error.msg
        ) from None
    except ValueError:
        raise UndecodedError(MALFORMED, "not JSON in UTF-8") from None
    return escape_json(text.strip(" \t\n\r").translate(_ONE_LINE))


def title(text: str) -> str | None:
    """Return the title of a schema, by which a strategy names subjects."""
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError):
        return None
    found = schema.get("title") if isinstance(schema, dict) else None
    return found if isinstance(found, str) else None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


_check = json.JSONDecoder(
    parse_float=lambda _: None, parse_int=lambda _: None, parse_constant=_no_constant
).decode
