"""Tell URIs from paths of this machine, and split them into parts."""

from __future__ import annotations

import posixpath
import re

from kdump.errors import PathError

_URI = r"[A-Za-z][A-Za-z0-9+.-]*://"
#: Hadoop's words for what its own clients make of them.
_SAME = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
_HTTP = ("http", "https")
#: The roots of views of one loose file, and the path that was given for each.
_given: dict[str, str] = {}


def is_uri(path: str) -> bool:
    """Whether a path names a file of a store."""
    return "://" in path and re.match(_URI, path) is not None


def is_view(path: str) -> bool:
    """Whether a path names a file of an archive, or one of this machine under another name."""
    return path.startswith("archive://")


def name_view(root: str, path: str) -> None:
    """Have the view of one loose file reported by the path that was given for it."""
    _given[root] = path


def has_given_paths() -> bool:
    """Whether any view is reported by another path than its own."""
    return bool(_given)


def find_given_path(path: str) -> str:
    """Return the path that was given for a loose file; any other path as it is."""
    return _given.get(path.partition("!")[0] + "!", path) if is_view(path) else path


def split(uri: str) -> tuple[str, str]:
    """Take a URI apart into the store's root and the path in it, which has no slash around it."""
    scheme, _, rest = uri.partition("://")
    scheme = scheme.lower()
    scheme = _SAME.get(scheme, scheme)
    if is_view(uri):  # its root ends where the name of its file does
        root, _, path = rest.partition("!")
        return f"archive://{root}!", posixpath.normpath("/" + path).strip("/")
    if scheme in _HTTP:
        place, _, path = rest.partition("/")
        return f"{scheme}://{place}", path.strip("/")
    if "?" in rest:
        reason = "set options of a store in the environment, for example AWS_ENDPOINT_URL"
        raise PathError(uri.partition("?")[0], f"{reason}, and not after a question mark")
    place, _, path = rest.partition("/")
    path = posixpath.normpath("/" + path).strip("/")
    return f"{scheme}://{place}", path


def normal(uri: str) -> str:
    """Spell a URI in one way only: what `os.path.abspath` is to paths."""
    root, path = split(uri)
    return f"{root}/{path}"


def parent(uri: str) -> str:
    """Return the directory that a path of a store lies in; that of a root is itself."""
    root, path = split(uri)
    above = path.rpartition("/")[0]
    return f"{root}/{above}"


def scheme_of(uri: str) -> str:
    """Return a URI's scheme, with one name for each kind of store."""
    return split(uri)[0].partition("://")[0]
