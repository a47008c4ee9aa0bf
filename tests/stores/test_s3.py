"""A server that speaks S3: reading, writing, and what goes wrong."""

import json
import os
import re
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from bulk import digest_files, two_partitions
from s3_server import BUCKET, delete, download, s3_environment, upload, why_no_server

pytest.importorskip("pyarrow", reason="PyArrow is not installed")
if reason := why_no_server():
    pytest.skip(reason, allow_module_level=True)

DATA = Path(__file__).parents[2] / "sample-data"


def kdump(*words: str, **settings: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "kdump", *words],
        env=os.environ | s3_environment() | settings,
        capture_output=True,
        text=True,
        check=False,
    )


def answer(root: str, *words: str) -> tuple[int, str, str]:
    result = kdump(*(word.replace("{}", root) for word in words))
    texts = (re.sub(r'"seconds":[0-9.e-]+', "", text) for text in (result.stdout, result.stderr))
    stdout, stderr = (text.replace(root, "ROOT") for text in texts)
    return result.returncode, stdout, stderr


@pytest.mark.parametrize("name", ["clean/4.1.1/d2", "damaged/4.1.1-stopped/d1"])
def test_uri_gives_the_same_as_the_path(name: str, tmp_path: Path) -> None:
    # Copies in which all files are of one time, as in a bucket, though not of this moment.
    directory = tmp_path / "copy"
    shutil.copytree(DATA / name, directory, copy_function=shutil.copyfile)
    for path in directory.rglob("*"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    uri = upload(directory, name)
    for words in (
        ["verify", "--deep", "--format", "jsonl", "{}"],
        ["verify", "--format", "jsonl", "-j", "2", "{}"],
        ["dump", "--format", "jsonl", "{}"],
        ["find-offset", "--format", "jsonl", "{}", "5"],
    ):
        assert answer(uri, *words) == answer(str(directory), *words)


def test_parts_are_byte_equal(tmp_path: Path) -> None:
    directory = two_partitions(tmp_path / "data")
    prefix = f"in-{uuid.uuid4().hex}"
    uri = upload(directory, prefix)
    for source in (uri, str(directory)):
        name = f"out-{uuid.uuid4().hex}"
        output = f"s3://{BUCKET}/{name}/"
        done = kdump("dump", "--format", "parquet", "-j", "2", "--output", output, source)
        assert (done.returncode, done.stderr) == (0, "")
        (tmp_path / name).mkdir()
        held = download(name)
        assert not [path for path in held if path.startswith("_staging")]
        told = json.loads(held["_SUCCESS"])
        assert told["rows"] == 2400
        for path, data in held.items():
            (tmp_path / name / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / path).write_bytes(data)
        local = tmp_path / f"{name}-here"
        assert kdump("dump", "--format", "parquet", "--output", f"{local}/", source).returncode == 0
        assert digest_files(tmp_path / name) == digest_files(local)
        again = kdump("dump", "--format", "parquet", "--output", output, source)
        assert again.returncode == 5
        assert "is not empty" in again.stderr


def test_failed_run_leaves_nothing(tmp_path: Path) -> None:
    directory = two_partitions(tmp_path / "data")
    name = f"out-{uuid.uuid4().hex}"
    done = kdump(
        "dump", "--format", "parquet", "--output", f"s3://{BUCKET}/{name}/", str(directory / "no")
    )
    assert done.returncode == 1
    assert download(name) == {}


def test_deleted_object(tmp_path: Path) -> None:
    uri = upload(two_partitions(tmp_path / "data"), f"gone-{uuid.uuid4().hex}")
    delete(f"{uri}/orders-0/00000000000000000400.log")
    result = kdump("dump", "--format", "jsonl", f"{uri}/orders-0/00000000000000000400.log")
    assert result.returncode == 1
    assert "No such file or directory" in result.stderr


def test_missing_bucket_is_an_error() -> None:
    result = kdump("verify", "--format", "jsonl", "s3://no-such-bucket/x")
    assert result.returncode == 1
    assert result.stderr == "kdump: s3://no-such-bucket/x: No such file or directory\n"


def test_unavailable_server_is_an_error() -> None:
    result = kdump("dump", "s3://b/x", AWS_ENDPOINT_URL="http://127.0.0.1:1")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("kdump: s3://b/x: ")
    assert result.stderr.count("\n") == 1
