"""A server that speaks S3, for tests: `versitygw` on the path, else moto where it is installed.

Started once for a run, as a process of its own on a free port. Without either the tests skip.
"""

import atexit
import http.client
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

BUCKET = "kafka-backups"
_SECONDS = 60


def why_no_server() -> str:
    """Say in one line why there is none; empty if one can be started."""
    if shutil.which("versitygw") or (find_spec("moto") and find_spec("flask_cors")):
        return ""
    return "no S3 server: versitygw is not on the path, and kdump[test-stores] is not installed"


def s3_environment() -> dict[str, str]:
    """Give the environment in which `s3://` leads to the server."""
    port = _start()
    return {
        "AWS_ACCESS_KEY_ID": "reader",
        "AWS_SECRET_ACCESS_KEY": "reader-secret",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_REGION": "us-east-1",
    }


def upload(directory: Path, prefix: str) -> str:
    """Copy a directory to the bucket and give its URI."""
    files = _client()
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            name = f"{BUCKET}/{prefix}/{path.relative_to(directory)}"
            with files.open_output_stream(name) as stream:
                stream.write(path.read_bytes())
    return f"s3://{BUCKET}/{prefix}"


def download(prefix: str) -> dict[str, bytes]:
    """Give every object under a prefix, by its name behind it."""
    from pyarrow.fs import FileSelector

    files = _client()
    root = f"{BUCKET}/{prefix}"
    found = files.get_file_info(FileSelector(root, recursive=True, allow_not_found=True))
    return {
        one.path[len(root) + 1 :]: files.open_input_file(one.path).read()
        for one in found
        if one.is_file
    }


def delete(uri: str) -> None:
    """Remove one object."""
    _client().delete_file(uri.removeprefix("s3://"))


@cache
def _client() -> Any:
    from pyarrow.fs import S3FileSystem

    settings = s3_environment()
    files = S3FileSystem(
        access_key=settings["AWS_ACCESS_KEY_ID"],
        secret_key=settings["AWS_SECRET_ACCESS_KEY"],
        endpoint_override=settings["AWS_ENDPOINT_URL"],
        region=settings["AWS_REGION"],
        allow_bucket_creation=True,
    )
    files.create_dir(BUCKET)
    return files


@cache
def _start() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    directory = Path(tempfile.mkdtemp(prefix="kdump-s3-"))
    environment = dict(os.environ)
    gateway = shutil.which("versitygw")
    if gateway is not None:
        environment |= {"ROOT_ACCESS_KEY": "reader", "ROOT_SECRET_KEY": "reader-secret"}
        command = [gateway, "--port", f"127.0.0.1:{port}", "posix", str(directory)]
    else:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    atexit.register(_end, process, directory)
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
            connection.request("GET", "/")
            connection.getresponse()
        except OSError:
            time.sleep(0.1)
        else:
            return port
    raise RuntimeError(f"the S3 server does not start: {' '.join(command)}")


def _end(process: "subprocess.Popen[bytes]", directory: Path) -> None:
    process.terminate()
    process.wait(10)
    shutil.rmtree(directory, ignore_errors=True)
