"""Translate a store's exceptions: something it says for certain, or no answer."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from kdump.errors import StoreError
from kdump.stores.passwords import hide_passwords

_CERTAIN = {
    errno.ENOENT: FileNotFoundError,
    errno.EACCES: PermissionError,
    errno.EPERM: PermissionError,
    errno.ENOTDIR: NotADirectoryError,
    errno.EISDIR: IsADirectoryError,
    errno.ELOOP: OSError,
    errno.ENAMETOOLONG: OSError,
}
# pyarrow's file systems hand over what the store said as text, without a number.
_WORDS = (
    ("NO_SUCH_BUCKET", errno.ENOENT),
    ("NO_SUCH_KEY", errno.ENOENT),
    ("ACCESS_DENIED", errno.EACCES),
    ("HTTP status 403", errno.EACCES),
    ("HTTP status 401", errno.EACCES),
    ("403 Forbidden", errno.EACCES),
)
_ANSWERS = {404: errno.ENOENT, 410: errno.ENOENT, 401: errno.EACCES, 403: errno.EACCES}
_LONGEST = 300


def failure(uri: str, error: Exception) -> OSError | StoreError:
    """Return what is to be raised instead of an exception of a store's client."""
    if isinstance(error, StoreError):
        return error
    number = error.errno if isinstance(error, OSError) else None
    if number is None:
        number = _ANSWERS.get(_http_status(error) or 0)
    for kind in (FileNotFoundError, PermissionError, NotADirectoryError, IsADirectoryError):
        if number is None and isinstance(error, kind):
            number = next(known for known, made in _CERTAIN.items() if made is kind)
    text = hide_passwords(str(error))
    if number is None:
        number = next((known for word, known in _WORDS if word in text), None)
    if number in _CERTAIN:
        return _CERTAIN[number](number, os.strerror(number))
    return StoreError(uri, _first_line(text) or type(error).__name__)


@contextmanager
def failures(uri: str) -> Iterator[None]:
    """Raise what a store's client raises meanwhile, whatever that is, as a failure of this URI."""
    try:
        yield
    except Exception as error:
        raise failure(uri, error) from error


def _http_status(error: Exception) -> int | None:
    """The answer of a server, where the error of an HTTP client has one."""
    own = getattr(error, "status", None)
    found = getattr(getattr(error, "response", None), "status_code", own)
    return found if isinstance(found, int) else None


def _first_line(text: str) -> str:
    line = text.strip().partition("\n")[0].strip()
    return line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."
