"""What is a fact about a file, and what is only a store that does not answer."""

import errno

import pytest
from each import each

from kdump.errors import PathError, StoreError
from kdump.storage.source import Source
from kdump.stores.failures import failure

URI = "s3://bucket/x"


class Response:
    def __init__(self, status_code: int) -> None:
        self.status_code = status_code


class HttpError(OSError):
    def __init__(self, status_code: int) -> None:
        super().__init__(f"{status_code} Client Error")
        self.response = Response(status_code)


@each(
    ("error", "kind"),
    [
        (FileNotFoundError(errno.ENOENT, "Path does not exist 'bucket/x'"), FileNotFoundError),
        (FileNotFoundError("bucket/x"), FileNotFoundError),
        (OSError("AWS Error NO_SUCH_BUCKET during ListObjectsV2"), FileNotFoundError),
        (OSError("AWS Error ACCESS_DENIED during HeadObject operation"), PermissionError),
        (HttpError(404), FileNotFoundError),
        (HttpError(403), PermissionError),
        (NotADirectoryError("x"), NotADirectoryError),
    ],
)
def test_definite_store_errors(error: Exception, kind: type[Exception]) -> None:
    told = failure(URI, error)
    assert isinstance(told, kind)
    assert told.strerror


@each(
    "error",
    [
        OSError("AWS Error NETWORK_CONNECTION during HeadObject operation"),
        OSError(errno.ECONNRESET, "reset"),
        OSError(errno.EIO, "I/O error"),
        TimeoutError(),
        HttpError(503),
        RuntimeError("expired token\nat line 1"),
    ],
)
def test_errors_without_an_answer(error: Exception) -> None:
    told = failure(URI, error)
    assert isinstance(told, StoreError)
    assert "\n" not in str(told)


def test_missing_client_has_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from kdump.errors import UsageError

    monkeypatch.setitem(sys.modules, "fsspec", None)
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(UsageError, match=r"fsspec is not installed; it comes with kdump\[stores\]"):
        Source("webhdfs://nowhere.invalid:1/x")


def test_missing_file_is_an_error() -> None:
    pytest.importorskip("pyarrow")
    with pytest.raises(PathError, match="No such file or directory"):
        Source("file:///no/such/file")
