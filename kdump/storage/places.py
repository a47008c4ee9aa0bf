"""Ask the file system about a path, on this machine or in a store.

All that is asked of it for reading goes through here: a path of this machine straight to `os`, a
URI to `kdump.stores`. A store that does not answer is a `StoreError`, and never a file that is not
there. A store has no locks, links, owners or modes, and what is asked about them has no answer.

Read a directory again where files went since it was listed: a running broker takes them away.

Retention deletes segments, and the cleaner replaces them.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from kdump.errors import PathError
from kdump.stores import uris
from kdump.stores.uris import is_uri as is_uri
from kdump.stores.uris import is_view as is_view

if TYPE_CHECKING:
    from kdump.stores.cached_store import CachedStore
    from kdump.stores.store import Entry, Status
    from kdump.stores.windows import Windows

    FileStatus = os.stat_result | Status | OSError

    #: What is said of a file, through symbolic links, or why nothing is.

Answer = TypeVar("Answer")

#: Names by directory, for as long as a run holds them.
_held: dict[str, list[str]] | None = None
_HELD_MOST = 64

#: Gives the path that was given for a loose file; any other path as it is.
given = uris.find_given_path

#: An absolute path that is spelled as `os.path.abspath` spells it, at least two directories deep.
_PLAIN = re.compile(r"(?:/(?!\.{1,2}(?:/|\Z))[^/\0]+){2,}")

#: Stores that a broker may have written to. Elsewhere the time of a file is that of its copying.
_KEEP_TIMES = frozenset({"file", "sftp", "ssh"})


def has_password(path: str) -> bool:
    """Whether a path is a URI with a password, a token or a signature."""
    if not is_uri(path):
        return False
    from kdump.stores.passwords import has_password as asked

    return asked(path)


def container(path: str) -> str:
    """Return the archive, or the remote storage, that a view shows; any other path as it is."""
    if not is_view(path):
        return path
    from kdump.stores.view_store import file_of

    return file_of(path)


def stat(path: str) -> os.stat_result | Status:
    """Ask what lies at a path, through symbolic links; OSError where nothing does."""
    if not is_uri(path):
        return os.stat(path)
    return status_in_store(path)


def getsize(path: str) -> int:
    """Return the size of a file, in bytes."""
    return stat(path).st_size


def size_or_zero(path: str) -> int:
    """Return the size of a file for a plan: 0 where nobody says, as reading it will say why."""
    try:
        return getsize(path)
    except (OSError, ValueError):
        return 0


def lexists(path: str) -> bool:
    """Whether there is something at a path; in a store also where it does not say."""
    if not is_uri(path):
        return os.path.lexists(path)
    try:
        return _status(path) is not None
    except PermissionError:
        return True
    except OSError:
        return False


def isdir(path: str) -> bool:
    """Whether a path is that of a directory."""
    if not is_uri(path):
        return os.path.isdir(path)
    with suppress(OSError):
        return status_in_store(path).is_dir
    return False


def isfile(path: str) -> bool:
    """Whether a path is that of a regular file."""
    if not is_uri(path):
        return os.path.isfile(path)
    with suppress(OSError):
        return status_in_store(path).is_file
    return False


@contextmanager
def keep_listings() -> Iterator[None]:
    """Hold the names in directories of this machine, as they are when first asked for.

    A run looks at the same few before it begins; before it reads a directory, it lists it again.
    """
    global _held
    before, _held = _held, {}
    try:
        yield
    finally:
        _held = before


def listdir(path: str, *, fresh: bool = False) -> list[str]:
    """Return the names in a directory; see `entries`. A run that holds them lists it once."""
    if not is_uri(path):
        if fresh or _held is None:
            return os.listdir(path)
        place = os.path.abspath(path)
        if place not in _held and len(_held) >= _HELD_MOST:
            return os.listdir(path)
        return _held.get(place) or _held.setdefault(place, os.listdir(path))
    return [entry.name for entry in entries(path, fresh=fresh)]


def entries(path: str, *, fresh: bool = False) -> Sequence[os.DirEntry[str] | Entry]:
    """List a directory. `fresh`: as it is now, and not as it was a moment ago."""
    if not is_uri(path):
        with os.scandir(path) as found:
            return list(found)
    store, inside = _store(path)
    return store.entries(inside, path, fresh=fresh)


def statuses(path: str) -> dict[str, FileStatus]:
    """List a directory as it is now, with what is said of each entry, or the error of asking."""
    found: dict[str, FileStatus] = {}
    for entry in entries(path, fresh=True):
        try:
            found[entry.name] = entry.stat()
        except OSError as error:
            found[entry.name] = error
    return found


def ask_ahead(
    ask: Callable[[str], Answer], paths: Sequence[str]
) -> Iterator[tuple[str, Callable[[], Answer]]]:
    """Yield each path with what gives the answer about it; some in a store are asked about at once.

    Of clients of stores only those of pyarrow are known to take that from several threads.
    """
    from kdump.stores.arrow_store import SCHEMES

    if not paths or not is_uri(paths[0]) or uris.scheme_of(paths[0]) not in SCHEMES:
        yield from ((path, partial(ask, path)) for path in paths)
        return
    from concurrent.futures import ThreadPoolExecutor

    from kdump.stores.cached_store import LISTED_AT_ONCE

    with ThreadPoolExecutor(LISTED_AT_ONCE) as pool:
        asked: deque[tuple[str, Callable[[], Answer]]] = deque()
        for path in paths:
            asked.append((path, pool.submit(ask, path).result))
            if len(asked) > LISTED_AT_ONCE:
                yield asked.popleft()
        yield from asked


def is_dir(entry: os.DirEntry[str] | Entry) -> bool:
    """Whether an entry of a listing is a directory; not where the system does not say, as Java."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def absolute(path: str) -> str:
    """Name a place independently of the working directory, in one spelling."""
    return uris.normal(path) if is_uri(path) else os.path.abspath(path)


def parent(path: str) -> str:
    """Name the directory that a path lies in."""
    if _PLAIN.fullmatch(path) is not None:  # as most are, and asked for at every turn
        return path[: path.rindex("/")]
    return uris.parent(path) if is_uri(path) else os.path.dirname(os.path.abspath(path))


def file_name(path: str) -> str:
    """Return the name of a file, without the query that a URI may have behind it."""
    if is_uri(path):
        path = path.partition("?")[0].partition("#")[0]
    return os.path.basename(path)


def real(path: str) -> str:
    """Name a place in the one way that all links to it lead to."""
    if is_uri(path):
        return uris.normal(path)
    try:
        return os.path.realpath(path)
    except ValueError:  # a null character: nothing can lie there
        return path


def keeps_times(path: str) -> bool:
    """Whether the time of a file is that of its last change, and not that of its copying."""
    return not is_uri(path) or uris.scheme_of(path) in _KEEP_TIMES


def status_in_store(uri: str) -> Status:
    """Ask what lies at a URI; OSError where nothing does."""
    found = _status(uri)
    if found is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    return found


def open_in_store(uri: str) -> Windows:
    """Open a file of a store for reading; OSError where that cannot be."""
    from kdump.stores.windows import Windows

    store, inside = _store(uri)

    def now() -> Status | None:
        found = store.store.status(inside)
        if found is None:
            store.forget(inside)
        return found

    return Windows(store.open(inside), now)


def is_any_store_open() -> bool:
    """Whether this process reads from a store, which no fork of it can go on with."""
    opening = sys.modules.get("kdump.stores.opening")
    return opening is not None and bool(opening.is_any_open())


def _status(uri: str) -> Status | None:
    store, inside = _store(uri)
    return store.status(inside)


def _store(uri: str) -> tuple[CachedStore, str]:
    from kdump.stores.opening import store_of

    return store_of(uri)


_GONE = os.strerror(errno.ENOENT)
_LISTINGS = 6  # of a partition from which files go while it is read
_PAUSE_SECONDS = 0.01  # a cleaner puts its segment in place in less
_Read = TypeVar("_Read")


def is_gone(error: PathError | OSError) -> bool:
    """Whether an error says that a file is not there, which was when it was listed."""
    if isinstance(error, PathError):
        return error.reason == _GONE and not _is_dangling(error.path)
    return error.errno == errno.ENOENT


def _is_dangling(path: str) -> bool:
    return lexists(path) and not isfile(path)


def read_listed(read: Callable[[], _Read], *directories: str) -> _Read:
    """Return what `read` gives, which lists directories; call it again where files went meanwhile.

    Raise its error where that is another, or a directory itself is gone.
    """
    for turn in range(1, _LISTINGS):
        try:
            return read()
        except (PathError, FileNotFoundError) as error:
            if not is_gone(error) or not all(map(isdir, directories)):
                raise
        time.sleep(_PAUSE_SECONDS * turn)
    return read()
