"""What is a URI, and what lies above it."""

import posixpath
from pathlib import Path

import pytest
from each import each

from kdump.errors import PathError
from kdump.storage import places
from kdump.stores import uris


@each("path", ["s3://b/c", "file:///c", "WEBHDFS://h:1/c", "a+b.c-1://x"])
def test_uris_are_recognized(path: str) -> None:
    assert uris.is_uri(path)


@each("path", ["/c", "c", "./s3://b", "s3:/b", "://b", "1a://b", "a b://c", ""])
def test_local_paths_are_not_uris(path: str) -> None:
    assert not uris.is_uri(path)


@each(
    ("uri", "root", "path"),
    [
        ("s3://bucket", "s3://bucket", ""),
        ("s3a://bucket/a/b/", "s3://bucket", "a/b"),
        ("S3://bucket/a//./b/../c", "s3://bucket", "a/c"),
        ("file:///data/orders-0", "file://", "data/orders-0"),
        ("hdfs://name:8020/", "hdfs://name:8020", ""),
        ("abfss://c@account.dfs.core.windows.net/x", "abfss://c@account.dfs.core.windows.net", "x"),
        ("https://host/a%20b/c?sum=1", "https://host", "a%20b/c?sum=1"),
    ],
)
def test_uris_are_split(uri: str, root: str, path: str) -> None:
    assert uris.split(uri) == (root, path)


def test_uri_query_options_are_refused() -> None:
    with pytest.raises(PathError, match="AWS_ENDPOINT_URL"):
        uris.split("s3://bucket/orders-0?endpoint_override=localhost")


@each(
    ("uri", "above"),
    [
        ("s3://bucket/data/orders-0", "s3://bucket/data"),
        ("s3://bucket/orders-0/", "s3://bucket/"),
        ("s3://bucket", "s3://bucket/"),
        ("file:///orders-0", "file:///"),
    ],
)
def test_uris_have_a_parent(uri: str, above: str) -> None:
    assert places.parent(uri) == above
    root, path = uris.split(above)
    assert uris.split(posixpath.join(above, "x")) == (root, f"{path}/x".strip("/"))


def test_each_place_has_one_spelling() -> None:
    assert places.absolute("s3a://bucket/a/../b/") == places.real("s3://bucket/b")
    assert places.absolute("orders-0") == str(Path.cwd() / "orders-0")
