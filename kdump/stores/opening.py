"""Open the store of a URI, once in each process."""

from __future__ import annotations

import os
from typing import Any

from kdump.errors import StoreError, UsageError
from kdump.stores import uris
from kdump.stores.arrow_store import SCHEMES, ArrowStore
from kdump.stores.cached_store import CachedStore
from kdump.stores.fsspec_store import FsspecStore
from kdump.stores.view_store import SCHEME, ViewStore

_BY_LIBHDFS = ("hdfs", "viewfs")
_LIBHDFS = "libhdfs needs JAVA_HOME, HADOOP_HOME and CLASSPATH to be set, webhdfs:// does not"
#: By process and root: threads and connections do not outlive a fork.
_open: dict[tuple[int, str], CachedStore] = {}


def store_of(uri: str) -> tuple[CachedStore, str]:
    """Return the store of a URI and the path in it."""
    root, path = uris.split(uri)
    key = (os.getpid(), root)
    store = _open.get(key)
    if store is None or (isinstance(store.store, ViewStore) and store.store.is_replaced):
        store = _open[key] = CachedStore(_new(root))
    return store, path


def is_any_open() -> bool:
    """Whether this process has a store open, and so threads that a fork would lose."""
    pid = os.getpid()
    return any(process == pid and not root.startswith(SCHEME) for process, root in _open)


def _new(root: str) -> ArrowStore | FsspecStore | ViewStore:
    scheme = uris.scheme_of(root)
    if scheme == SCHEME:
        return ViewStore(root)
    try:
        return ArrowStore(root) if scheme in SCHEMES else FsspecStore(root)
    except StoreError as error:
        missing = error.__cause__
        if isinstance(missing, ImportError) and missing.name is not None:
            package = missing.name.partition(".")[0]
            if package in ("pyarrow", "fsspec"):
                raise UsageError(
                    f"{root}: {package} is not installed; it comes with kdump[stores]"
                ) from None
        if scheme in _BY_LIBHDFS:
            raise StoreError(root, f"{error.reason}; {_LIBHDFS}") from None
        raise


def writable(uri: str) -> tuple[Any, str, str]:
    """Return pyarrow's file system of a URI, the path in it, and the scheme, to write there."""
    store, path = store_of(uri)
    inner = store.store
    at: str = inner.at(path)
    if isinstance(inner, FsspecStore):
        from pyarrow.fs import FSSpecHandler, PyFileSystem

        return PyFileSystem(FSSpecHandler(inner.files)), at, uris.scheme_of(uri)
    return inner.files, at, uris.scheme_of(uri)
