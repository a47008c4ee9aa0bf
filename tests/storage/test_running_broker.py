"""A running broker is found by its command line, and a file system by its mount."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kdump.storage.mounts import file_system_of
from kdump.storage.running_broker import settings_of_running_broker

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="what /proc says, on Linux")


def _broker(directory: Path) -> subprocess.Popen[bytes]:
    """Start a process that looks like a broker, and wait until it runs."""
    program = "import sys; print(flush=True); sys.stdin.read()"
    words = [sys.executable, "-c", program, "kafka.Kafka", "config/server.properties"]
    process = subprocess.Popen(words, cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def test_settings_of_the_only_broker_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    ours: list[str] = []
    monkeypatch.setattr(os, "listdir", lambda path: ours)  # brokers of other tests may run
    assert settings_of_running_broker() is None
    first = _broker(tmp_path)
    ours.append(str(first.pid))
    try:
        assert settings_of_running_broker() == str(tmp_path / "config/server.properties")
        second = _broker(other)
        ours.append(str(second.pid))
        try:
            assert settings_of_running_broker() is None
        finally:
            second.communicate()
    finally:
        first.communicate()
    assert settings_of_running_broker() is None


def test_file_systems_are_compared() -> None:
    assert file_system_of("/proc/self") == "proc"
    assert file_system_of("s3://bucket/path") is None
