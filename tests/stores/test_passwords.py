"""A password in a URI reaches its store, and nothing that is shown."""

from contextlib import suppress

import pytest
from click.testing import CliRunner

import kdump
from kdump.cli import cli
from kdump.errors import KdumpError, PathError
from kdump.stores import passwords
from kdump.stores.uris import normal


@pytest.fixture(autouse=True)
def none_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "_known", {})
    monkeypatch.setattr(passwords, "_signed", {})


@pytest.mark.parametrize(
    ("uri", "plain", "root"),
    [
        ("sftp://me:hunter2@host/a/b", "sftp://me@host/a/b", "sftp://me@host"),
        ("SFTP://me:hunt:er2@host:22/a", "SFTP://me@host:22/a", "sftp://me@host:22"),
        ("s3a://key:hunter%2F2@bucket/a", "s3a://key@bucket/a", "s3://key@bucket"),
        ("ftp://me:p@ss@host/a@b:c", "ftp://me@host/a@b:c", "ftp://me@host"),
        ("sftp://me:hun/ter2@host/a", "sftp://me@host/a", "sftp://me@host"),
    ],
)
def test_password_is_kept_for_the_store(uri: str, plain: str, root: str) -> None:
    assert passwords.has_password(uri)
    assert passwords.without_password(uri) == plain
    password = uri.partition("://")[2].partition(":")[2].rpartition("@")[0].split("@host")[0]
    assert passwords.with_password(root) == root.replace("@", f":{password}@", 1)
    assert password not in passwords.hidden(f"cannot log in to {uri}: {password} is wrong")


@pytest.mark.parametrize(
    "path",
    [
        "s3://bucket/a:b@c",
        "abfs://box@account/x",
        "/a:b@c",
        "a:b@c",
        "sftp://me@host/x",
        "http://h:80/a@b",
    ],
)
def test_path_without_a_password(path: str) -> None:
    assert not passwords.has_password(path)
    assert passwords.without_password(path) == path
    assert passwords.with_password(path) == path


@pytest.mark.parametrize(
    "query",
    [
        "sv=2024-11-04&sp=r&sig=hunter2%2B%3D",
        "X-Amz-Expires=900&X-Amz-Credential=hunter2%2Fus-east-1&X-Amz-Signature=hunter2",
        "GoogleAccessId=hunter2&Signature=hunter2",
        "X-Goog-Signature=hunter2&alt=media",
        "token=hunter2",
        "a=1&access_key=hunter2&secret_key=hunter2",
    ],
)
def test_a_signature_is_kept_for_the_store(query: str) -> None:
    uri = f"HTTPS://host/a/{0:020}.log?{query}"
    assert passwords.has_password(uri)
    plain = passwords.without_password(uri)
    assert "hunter2" not in plain
    assert plain.count("***") == query.count("hunter2")
    assert passwords.with_signature(normal(plain)) == normal(uri)
    assert passwords.without_password(plain) == plain
    assert passwords.with_signature(normal(plain)) == normal(uri)
    assert "hunter2" not in passwords.hidden(f"403 Forbidden for {uri}")
    assert "hunter2" not in str(PathError(uri, f"no answer of {uri}"))
    for command in ("dump", "verify", "salvage", "predict"):
        result = CliRunner().invoke(cli, [command, uri.replace("host", "127.0.0.1:1")])
        assert "hunter2" not in result.stdout + result.stderr
    with suppress(KdumpError):
        assert "hunter2" not in str(list(kdump.open(uri).verify()))
    assert "hunter2" not in repr(kdump.open(uri))


def test_a_query_without_a_secret_stays() -> None:
    uri = "https://host/x?sum=1&monkey=2&signal=3"
    assert not passwords.has_password(uri)
    assert passwords.without_password(uri) == uri


@pytest.mark.parametrize("command", ["dump", "verify", "verify --nagios", "usage", "salvage"])
def test_password_is_not_shown(command: str) -> None:
    for uri in ("ftp://me:hunter2@127.0.0.1:1/x", "nothing://me:hunter2@127.0.0.1/x"):
        result = CliRunner().invoke(cli, [*command.split(), uri])
        shown = result.stdout + result.stderr
        assert "me@127.0.0.1" in shown
        assert "hunter2" not in shown


def test_password_is_not_shown_with_spark_or_as_output() -> None:
    for words in (
        ("dump", "--engine", "spark", "ftp://me:hunter2@127.0.0.1:1/x"),
        ("dump", "--output", "ftp://me:hunter2@127.0.0.1:1/x", "."),
        ("dump", "--format", "parquet", "--output", "ftp://me:hunter2@127.0.0.1:1/x/", "."),
    ):
        result = CliRunner().invoke(cli, list(words))
        assert result.exit_code in (1, 2)
        assert "hunter2" not in result.stdout + result.stderr


def test_password_is_shown_by_no_error_of_an_option() -> None:
    uri = "ftp://me:hunter2@127.0.0.1:1/x"
    for words in (
        ("verify", "--state", uri),
        ("verify", "--textfile", uri),
        ("verify", "--server-properties", uri),
        ("reindex", "--out", uri),
        ("salvage", "--out", uri),
        ("salvage", "--out", "new", "--topic-map", uri),
        ("salvage", "--check", uri),
        ("dump", "--output", f"folder/{uri}"),
        ("dump", "s3://bucket/x?secret_key=hunter2"),
        ("dump", "ftp:/me:hunter2@127.0.0.1/x"),
    ):
        result = CliRunner().invoke(cli, [*words, "."])
        assert result.exit_code, words
        assert "hunter2" not in result.stdout + result.stderr, words
