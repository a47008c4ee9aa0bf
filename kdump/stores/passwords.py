"""Keep passwords of URIs apart: no row, no message and no name of a file has one.

A URI loses its password, and the signature or token of its query, where it comes in, and gets it
back where its store is opened, in the same process or a fork of it.
"""

from __future__ import annotations

import re
from contextlib import suppress
from itertools import count
from urllib.parse import unquote

from kdump.errors import MASK, PathError, login_pattern, mask_login, mask_members
from kdump.stores.uris import is_uri, normal, split

_SHORT = 4  # characters; a password of fewer is looked for as a word only

#: The login, by the root of a URI, as it is without.
_known: dict[str, str] = {}
#: URIs with the signatures of their queries, by what they are without.
_signed: dict[str, str] = {}


def has_password(path: str) -> bool:
    """Whether a path is a URI with a password, a token or a signature."""
    return is_uri(path) and (_login(path) is not None or mask_members(path) != path)


def without_password(path: str) -> str:
    """Return a URI without its password, which is kept; any other path as it is.

    URIs that differ only in what is masked have masks that differ.
    """
    if is_uri(path) and mask_members(path) != path:
        plain = path
        with suppress(PathError):  # of a store that takes no query; said where it is opened
            full = without_login(normal(path))
            for number in count(1):
                plain = mask_members(path, MASK if number == 1 else f"{MASK}{number}")
                if _signed.setdefault(without_login(normal(plain)), full) == full:
                    break
        path = mask_members(plain)
    return without_login(path)


def without_login(path: str) -> str:
    """Return a URI without the password or token before its host, which is kept."""
    found = _login(path) if is_uri(path) else None
    if found is None:
        return path
    plain = f"{found[1]}{MASK}" if found[1] else found[3]
    plain = f"{plain}@{path[found.end() :]}"
    login = found[0].partition("://")[2][:-1]
    _known[split(plain.partition("?")[0])[0]] = login
    return plain


def _login(uri: str) -> re.Match[str] | None:
    found = login_pattern().match(uri)
    return None if found is None or found[2] == MASK else found


def with_password(root: str) -> str:
    """Return the root of a URI with the login that it came with."""
    login = _known.get(root)
    if login is None:
        return root
    scheme, _, host = root.partition("://")
    return f"{scheme}://{login}@{host.rpartition('@')[2]}"


def with_signature(uri: str) -> str:
    """Return a URI as its root has it, with the signature that it came with."""
    return _signed.get(uri, uri)


def hide_passwords(text: str) -> str:
    """Return what a store's client said, without passwords."""
    text = mask_members(mask_login(text))
    for login in _known.values():
        user, colon, password = login.partition(":")
        secret = password if colon else user
        for spelled in {secret, unquote(secret)} - {""}:
            is_word = len(spelled) < _SHORT
            pattern = rf"(?<!\w){re.escape(spelled)}(?!\w)" if is_word else re.escape(spelled)
            text = re.sub(pattern, MASK, text)
    return text
