"""A password in a URI reaches its store, and nothing that is shown."""

from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from commands import run
from each import each

import kdump
from kdump.errors import KdumpError, PathError
from kdump.stores import passwords
from kdump.stores.uris import normal

SAMPLE = Path(__file__).parents[2] / "sample-data"


@pytest.fixture(autouse=True)
def none_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "_known", {})
    monkeypatch.setattr(passwords, "_signed", {})


@each(
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
    assert password not in passwords.hide_passwords(f"cannot log in to {uri}: {password} is wrong")


@each(
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
def test_path_without_a_password_is_unchanged(path: str) -> None:
    assert not passwords.has_password(path)
    assert passwords.without_password(path) == path
    assert passwords.with_password(path) == path


@each(
    "query",
    [
        "sv=2024-11-04&sp=r&sig=hunter2%2B%3D",
        "X-Amz-Expires=900&X-Amz-Credential=hunter2%2Fus-east-1&X-Amz-Signature=hunter2",
        "GoogleAccessId=hunter2&Signature=hunter2",
        "X-Goog-Signature=hunter2&alt=media",
        "token=hunter2",
        "a=1&access_key=hunter2&secret_key=hunter2",
        "client_secret=hunter2&id_token=hunter2&refresh_token=hunter2&code=hunter2&auth=hunter2",
        "X-Ms-Token=hunter2&Policy=hunter2&Key-Pair-Id=hunter2&key=hunter2",
        "sv=2;sig=hunter2;se=1",
        "sv=2&amp;sig=hunter2",
        "access%5Ftoken=hunter2&%73ig=hunter2",
        "x=1#access_token=hunter2",
    ],
)
def test_signature_is_kept_for_the_store(query: str) -> None:
    uri = f"HTTPS://host/a/{0:020}.log?{query}"
    assert passwords.has_password(uri)
    plain = passwords.without_password(uri)
    assert "hunter2" not in plain
    assert plain.count("***") == query.count("hunter2")
    assert passwords.with_signature(normal(plain)) == normal(uri)
    assert passwords.without_password(plain) == plain
    assert passwords.with_signature(normal(plain)) == normal(uri)
    assert "hunter2" not in passwords.hide_passwords(f"403 Forbidden for {uri}")
    assert "hunter2" not in str(PathError(uri, f"no answer of {uri}"))
    for command in ("dump", "verify", "salvage", "predict"):
        result = run(command, uri.replace("host", "127.0.0.1:1"))
        assert "hunter2" not in result.stdout + result.stderr
    uri = uri.replace("host", "127.0.0.1:1")
    with suppress(KdumpError):
        assert "hunter2" not in str(list(kdump.open(uri).verify()))
    assert "hunter2" not in repr(kdump.open(uri))


def test_single_token_before_the_host_is_kept_for_the_store() -> None:
    uri = "https://hunter2@host/a?sig=hunter3"
    plain = passwords.without_password(uri)
    assert plain == "https://***@host/a?sig=***"
    assert passwords.without_password(plain) == plain
    assert not passwords.has_password(plain)
    assert passwords.with_password("https://***@host") == "https://hunter2@host"
    assert passwords.with_signature(plain) == "https://***@host/a?sig=hunter3"
    assert passwords.hide_passwords(f"401 for {uri}: hunter2") == f"401 for {plain}: ***"
    assert str(PathError(uri, "no answer")) == f"{plain}: no answer"


def test_files_with_different_secrets_stay_separate() -> None:
    one, two = (f"https://host/log?key={name}" for name in ("a.log", "b.log"))
    plain = [passwords.without_password(uri) for uri in (one, two, one, two)]
    assert plain == ["https://host/log?key=***", "https://host/log?key=***2"] * 2
    assert [passwords.with_signature(uri) for uri in plain[:2]] == [one, two]


def test_one_letter_password_does_not_alter_words() -> None:
    passwords.without_password("ftp://me:a@host/x")
    shown = passwords.hide_passwords("ftp://me:a@host/x: bad answer, password a")
    assert shown == "ftp://me:***@host/x: bad answer, password ***"


@pytest.mark.parametrize("before", ["hunter2@", "me:hunter2@", ""])
def test_server_receives_the_masked_secrets(before: str) -> None:
    pytest.importorskip("aiohttp")
    asked = []
    log = SAMPLE / "clean/4.1.1/d1/orders.zstd-0/00000000000000000293.log"

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers.get("Authorization")))
            super().do_GET()

        def log_message(self, *_: object) -> None:
            pass

    handler = partial(Handler, directory=str(log.parent))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        uri = f"http://{before}127.0.0.1:{server.server_port}/{log.name}?sig=hunter3"
        result = run("dump", uri)
        server.shutdown()
    assert "hunter" not in result.stdout + result.stderr
    assert result.stdout.count("\n") > 300
    assert {path for path, _ in asked} == {f"/{log.name}?sig=hunter3", "/"}
    assert all((login is not None) == bool(before) for _, login in asked)


def test_query_without_a_secret_is_unchanged() -> None:
    uri = "https://host/x?sum=1&monkey=2&signal=3"
    assert not passwords.has_password(uri)
    assert passwords.without_password(uri) == uri


@each("command", ["dump", "verify", "verify --nagios", "usage", "salvage"])
def test_password_is_not_shown(command: str) -> None:
    for uri, user in (
        ("ftp://me:hunter2@127.0.0.1:1/x", "me"),
        ("nothing://me:hunter2@127.0.0.1/x", "me"),
        ("http://me:hunter2@127.0.0.1:1/x", "***"),
    ):
        result = run(*command.split(), uri)
        shown = result.stdout + result.stderr
        assert f"{user}@127.0.0.1" in shown
        assert "hunter2" not in shown


def test_password_is_not_shown_with_spark_or_as_output() -> None:
    for words in (
        ("dump", "--engine", "spark", "ftp://me:hunter2@127.0.0.1:1/x"),
        ("dump", "--output", "ftp://me:hunter2@127.0.0.1:1/x", "."),
        ("dump", "--format", "parquet", "--output", "ftp://me:hunter2@127.0.0.1:1/x/", "."),
    ):
        result = run(*words)
        assert result.exit_code in (1, 2)
        assert "hunter2" not in result.stdout + result.stderr


def test_option_errors_do_not_show_passwords(tmp_path: Path) -> None:
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
        result = run(*words, tmp_path)
        assert result.exit_code, words
        assert "hunter2" not in result.stdout + result.stderr, words
