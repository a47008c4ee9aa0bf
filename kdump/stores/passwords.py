"""Keep passwords of URIs apart: no row, no message and no name of a file has one.

A URI loses its password where it comes in, and gets it back where its store is opened, in the same
process or a fork of it.
"""

from __future__ import annotations

from urllib.parse import unquote

from kdump.errors import LOGIN
from kdump.stores.uris import is_uri, split

_MASK = "***"

#: By the root of a URI, as it is without.
_known: dict[str, str] = {}


def has_password(path: str) -> bool:
    """Whether a path is a URI with a password."""
    return is_uri(path) and LOGIN.match(path) is not None


def without_password(path: str) -> str:
    """Return a URI without its password, which is kept; any other path as it is."""
    found = LOGIN.match(path) if is_uri(path) else None
    if found is None:
        return path
    plain = f"{found[1]}@{path[found.end() :]}"
    _known[split(plain.partition("?")[0])[0]] = found[2]
    return plain


def with_password(root: str) -> str:
    """Return the root of a URI with the password that it came with."""
    password = _known.get(root)
    if password is None:
        return root
    user, _, host = root.rpartition("@")
    return f"{user}:{password}@{host}"


def hidden(text: str) -> str:
    """Return what a store's client said, without passwords."""
    for password in _known.values():
        for spelled in {password, unquote(password)} - {""}:
            text = text.replace(spelled, _MASK)
    return text
