"""How a run ends: outputs that take nothing, standard files that are closed, signals."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import builders
import forked
import pytest
from commands import DATA
from directories import batches, write_segment
from patience import PATIENCE_SECONDS

SOUND = DATA / "clean" / "2.8.2"
DAMAGED = DATA / "damaged" / "0.10.2.2"
KDUMP = f"{sys.executable} -m kdump"

pytestmark = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")


def shell(command: str, cwd: Path | None = None) -> tuple[int, list[str]]:
    """Run a line of a shell; return its status and the lines on standard error."""
    done = subprocess.run(
        command, shell=True, stderr=subprocess.PIPE, text=True, check=False, cwd=cwd
    )
    return done.returncode, done.stderr.splitlines()


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        (f"dump {SOUND} >/dev/full", 1, "kdump: standard output: No space left on device"),
        (f"dump {SOUND} >&-", 1, "kdump: standard output: Bad file descriptor"),
        (f"dump {SOUND} >&- 2>&-", 1, None),
        (f"verify {SOUND} >/dev/full", 1, "kdump: standard output: No space left on device"),
        (f"verify {DAMAGED} >&-", 3, "kdump: standard output: Bad file descriptor"),
        (f"verify {DAMAGED} 2>&- >/dev/null", 3, None),
        (f"dump {DAMAGED} 2>&- >/dev/null", 3, None),
        (f"dump {DAMAGED} 2>/dev/full >/dev/null", 3, None),
        (f"dump --fail-on never {DAMAGED} 2>/dev/full >/dev/null", 1, None),
        ("dump no-such-path 2>&-", 1, None),
        (f"verify --nagios {SOUND} >/dev/full", 3, "kdump: standard output: No space left"),
        (f"verify --nagios {SOUND} >&-", 3, "kdump: standard output: Bad file descriptor"),
        (f"verify --nagios {DAMAGED} >/dev/full", 3, "kdump: standard output: No space left"),
        ("--help >/dev/full", 1, "kdump: output: No space left on device"),
        ("dump --help >&-", 1, "kdump: output: Bad file descriptor"),
        ("--version >/dev/full", 1, "kdump: output: No space left on device"),
        (f"dump --output /dev/full {SOUND}", 1, "kdump: /dev/full: No space left on device"),
        (f"dump --format csv --output /dev/full {SOUND}", 1, "kdump: /dev/full: No space left"),
        (f"dump --output {'x' * 256} {SOUND}", 1, f"kdump: --output {'x' * 256}: File name"),
        (f"verify --textfile /dev/full {SOUND} >/dev/null", 1, "kdump: /dev/full: No space left"),
        (f"verify --state /dev/full {SOUND} >/dev/null", 1, "kdump: /dev/full: No space left"),
        (f"usage {SOUND} >/dev/full", 1, "kdump: standard output: No space left on device"),
        (f"reindex {SOUND} >&-", 1, "kdump: standard output: Bad file descriptor"),
        (f"find-offset {SOUND} 1 >/dev/full", 1, "kdump: standard output: No space left"),
    ],
)
def test_output_that_accepts_nothing(
    tmp_path: Path, command: str, status: int, said: str | None
) -> None:
    """One line and a status, whatever is wrong with what is written to."""
    reached, lines = shell(f"{KDUMP} {command}", tmp_path)
    assert reached == status
    assert not any("Traceback" in line for line in lines)
    if said is not None:
        assert sum(line.startswith(said) for line in lines) == 1
        assert all(line.startswith(("kdump: ", '{"row":"finding"')) for line in lines)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", ["arrow", "parquet"])
def test_binary_output_that_accepts_nothing(form: str) -> None:
    pytest.importorskip("pyarrow")
    reached, lines = shell(f"{KDUMP} dump --format {form} --output /dev/full {SOUND}")
    assert (reached, lines) == (1, ["kdump: /dev/full: No space left on device"])


@pytest.mark.parametrize("option", ["textfile", "state"])
def test_endless_device_is_not_read(option: str) -> None:
    reached, _ = shell(f"ulimit -v 4000000; {KDUMP} verify --{option} /dev/zero {SOUND} >/dev/null")
    assert reached == 0


def test_data_is_not_written_into_a_reused_descriptor(tmp_path: Path) -> None:
    """A file opened while standard output is closed is not taken for it."""
    out = tmp_path / "out.csv"
    assert shell(f"{KDUMP} dump --output {out} {SOUND} >&- 2>&- <&-")[0] == 0
    assert out.read_bytes().startswith(b"row,")


@pytest.mark.parametrize(
    "size", ["9223372036854775807", "9223372036854775808", "2147483648", "9" * 30]
)
@pytest.mark.parametrize("option", ["--index-interval-bytes", "--max-index-bytes"])
def test_sizes_that_brokers_reject(option: str, size: str) -> None:
    done = forked.run("reindex", option, size, str(SOUND))
    assert done.returncode == 2
    fits = int(size) < 1 << 63
    assert (
        "is more than Kafka's limit, 2147483647" if fits else "does not fit in 64 bits"
    ) in done.stderr.decode().splitlines()[-1]


@pytest.fixture
def noisy(tmp_path: Path) -> Path:
    """Give a partition with so many findings that nobody has room for them unread."""
    log = b"".join(
        builders.batch(base_offset=base, crc=1) + batches(base + 1, 1) for base in range(0, 3000, 3)
    )
    write_segment(tmp_path / "data" / "noisy-0", 0, log, next_offset=3000)
    return tmp_path / "data" / "noisy-0"


def start_blocked(*words: object) -> "subprocess.Popen[bytes]":
    """Start kdump and wait until it writes findings, which nobody reads on."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kdump", *map(str, words)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        preexec_fn=_attentive,
    )
    assert process.stderr is not None
    assert os.read(process.stderr.fileno(), 1) == b"{"
    return process


def _attentive() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def end_process(process: "subprocess.Popen[bytes]", number: int) -> Any:
    process.send_signal(number)
    _, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert b"Traceback" not in errors
    assert errors.endswith(b"kdump: interrupted\n")
    return process.returncode


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet", "arrow"])
def test_signal_leaves_no_temporary_files(
    noisy: Path, tmp_path: Path, number: signal.Signals, form: str
) -> None:
    if form in ("parquet", "arrow"):
        pytest.importorskip("pyarrow")
    out = tmp_path / "out" / "rows"
    out.parent.mkdir()
    out.write_bytes(b"before")
    process = start_blocked("dump", "--force", "--format", form, "--output", out, noisy)
    assert len(list(out.parent.iterdir())) == 2
    assert end_process(process, number) == 1
    assert list(out.parent.iterdir()) == [out]
    assert out.read_bytes() == b"before"


def test_signal_in_a_finalizer_ends_the_run() -> None:
    code = (
        "import os, signal\n"
        "from kdump.cli.process import ended_by_signals\n"
        "class Finalized:\n"
        "    def __del__(self): os.kill(os.getpid(), signal.SIGTERM); sum(range(10))\n"
        "with ended_by_signals():\n"
        "    Finalized()\n"
        "    for _ in range(1 << 30): pass\n"
        "    print('went on')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.stdout == b""
    assert done.stderr.endswith(b"KeyboardInterrupt\n")


def test_signal_ends_a_bulk_dump(noisy: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    out = tmp_path / "out"
    words = ("--format", "parquet", "--output", f"{out}/", "-j", 2)
    process = start_blocked("dump", *words, noisy)
    assert end_process(process, signal.SIGTERM) == 1
    assert not (out / "_staging").exists()


def test_ignored_signal_stays_ignored(noisy: Path, tmp_path: Path) -> None:
    """As under nohup."""
    out = tmp_path / "rows"
    process = subprocess.Popen(
        [sys.executable, "-m", "kdump", "dump", "--output", str(out), str(noisy)],
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    assert process.stderr is not None
    os.read(process.stderr.fileno(), 1)
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 3
    assert out.exists()


@pytest.mark.parametrize("option", ["--output", "--textfile", "--state"])
def test_mode_of_the_old_file_is_kept(tmp_path: Path, option: str) -> None:
    out = tmp_path / "out"
    out.touch(mode=0o600)
    inode = out.stat().st_ino
    done = forked.run("verify", option, str(out), str(SOUND), before=lambda: os.umask(0o022))
    assert done.returncode == 0
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert out.stat().st_size
    assert out.stat().st_ino != inode  # another file, put in its place whole
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("option", ["--output", "--textfile", "--state"])
def test_new_file_has_the_default_mode(tmp_path: Path, option: str) -> None:
    out = tmp_path / "out"
    done = forked.run("verify", option, str(out), str(SOUND), before=lambda: os.umask(0o027))
    assert done.returncode == 0
    assert stat.S_IMODE(out.stat().st_mode) == 0o640
