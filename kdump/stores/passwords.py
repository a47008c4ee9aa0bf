"""Keep passwords of URIs apart: no row, no message and no name of a file has one.

A URI loses its password, and the signature or token of its query, where it comes in, and gets it
back where its store is opened, in the same process or a fork of it.
"""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import unquote

from kdump.errors import LOGIN, SIGNATURE, PathError
from kdump.stores.uris import is_uri, normal, split

_MASK = "***"

#: By the root of a URI, as it is without.
_known: dict[str, str] = {}
#: URIs with the signatures of their queries, by what they are without.
_signed: dict[str, str] = {}


def has_password(path: str) -> bool:
    """Whether a path is a URI with a password."""
    return is_uri(path) and bool(LOGIN.match(path) or SIGNATURE.search(path))


def without_password(path: str) -> str:
    """Return a URI without its password, which is kept; any other path as it is."""
    if is_uri(path) and SIGNATURE.search(path):
        masked = SIGNATURE.sub(rf"\1{_MASK}", path)
        with suppress(PathError):  # of a store that takes no query; said where it is opened
            if f"={_MASK}" not in path:
                _signed[without_login(normal(masked))] = without_login(normal(path))
        path = masked
    return without_login(path)


def without_login(path: str) -> str:
    """Return a URI without the password before its host, which is kept."""
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


def with_signature(uri: str) -> str:
    """Return a URI as its root has it, with the signature that it came with."""
    return _signed.get(uri, uri)


def hidden(text: str) -> str:
    """Return what a store's client said, without passwords."""
    text = SIGNATURE.sub(rf"\1{_MASK}", text)
    for password in _known.values():
        for spelled in {password, unquote(password)} - {""}:
            text = text.replace(spelled, _MASK)
    return text
