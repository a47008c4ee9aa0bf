"""The process: signals, workers, and what is imported."""

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import modules_after
from patience import PATIENCE_SECONDS


def start_kdump(*args: object) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "kdump", "verify", *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A run in the background of a shell leaves interruptions ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def children_of(pid: int) -> list[int]:
    done = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    return [int(word) for word in done.stdout.split()]


@pytest.mark.skipif(shutil.which("ps") is None, reason="no ps here")
def test_interrupt_ends_workers_silently(data: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    process = start_kdump("--bwlimit", "50", "-j", 2, "--state", state, data)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(workers := children_of(process.pid)) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert errors == "kdump: interrupted\n"
    assert workers
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)


def _catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal, which would end it before."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = status.partition("SigCgt:")[2].split()[0]
    return bool(int(caught, 16) >> (number - 1) & 1)


def test_sigusr1_prints_progress(data: Path) -> None:
    process = start_kdump("--bwlimit", "50", data)
    assert process.stderr is not None
    while not _catches(process.pid, signal.SIGUSR1) and process.poll() is None:
        time.sleep(0.05)
    line = ""
    for _ in range(100):  # those before the plan know of no partition
        process.send_signal(signal.SIGUSR1)
        line = process.stderr.readline()
        if " of 2 partitions" in line and "/s" in line:
            break
        time.sleep(0.05)
    process.kill()
    process.communicate()
    assert " of 2 partitions" in line
    assert "/s" in line


def test_pipe_loads_neither_tables_nor_workers(data: Path) -> None:
    loaded = modules_after("verify", str(data))
    assert not loaded & {"rich", "multiprocessing", "crcmod", "pyarrow", "hashlib", "lz4"}
