"""An output file appears whole or not at all, and never where something is read."""

import errno
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from each import each

from kdump import writing
from kdump.errors import PathError, UsageError
from kdump.output.target import OutputFile, refuse_input_as_output


def test_file_appears_when_it_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_bytes(b"before")
    target = OutputFile(str(path))
    target.stream.write(b"after")
    assert path.read_bytes() == b"before"
    target.keep()
    assert path.read_bytes() == b"after"
    assert list(tmp_path.iterdir()) == [path]


def test_dropped_file_is_removed(tmp_path: Path) -> None:
    target = OutputFile(str(tmp_path / "out.jsonl"))
    target.stream.write(b"x")
    target.drop()
    assert list(tmp_path.iterdir()) == []


def test_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    target = OutputFile(str(tmp_path / "link"))
    target.keep()
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").exists()


def test_device_is_written_to_directly() -> None:
    target = OutputFile("/dev/null")
    target.stream.write(b"x")
    target.keep()
    assert Path("/dev/null").is_char_device()


def test_missing_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PathError, match="No such file"):
        OutputFile(str(tmp_path / "none" / "out"))


@pytest.mark.parametrize(
    ("output", "inputs"),
    [
        ("orders-0/1.log", ["orders-0/1.log"]),
        ("hard", ["orders-0/1.log"]),
        ("orders-0/out", ["orders-0"]),
        ("orders-0/out", ["."]),
        ("orders-0/out", ["orders-0/1.log"]),
        ("x/../orders-0/out", ["orders-0"]),
    ],
)
def test_input_is_never_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, inputs: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("orders-0", "x"):
        Path(name).mkdir()
    Path("orders-0/1.log").touch()
    Path("hard").hardlink_to("orders-0/1.log")
    with pytest.raises(UsageError):
        refuse_input_as_output(output, inputs)


def test_file_next_to_a_lone_copy_may_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("copies").mkdir()
    Path("copies/1.log").touch()
    refuse_input_as_output("copies/out.jsonl", ["copies/1.log"])


def test_old_file_keeps_mode_and_owner(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.touch(mode=0o640)
    if os.geteuid() == 0:
        os.chown(path, 12345, 23456)
    before = path.stat()
    target = OutputFile(str(path))
    assert stat.S_IMODE(os.fstat(target.file.fileno()).st_mode) & 0o077 == 0  # nobody looks in
    target.keep()
    after = path.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (
        before.st_mode,
        before.st_uid,
        before.st_gid,
    )


def test_preexisting_link_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where somebody knew the temporary name."""
    monkeypatch.setattr(os, "urandom", bytes)
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    (tmp_path / f".kdump-{bytes(8).hex()}").symlink_to(victim)
    for _ in range(2):
        with pytest.raises(PathError, match="File exists"):
            OutputFile(str(tmp_path / "out"))
    assert victim.read_bytes() == b"mine"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("size", [240, 250, 255])
def test_longest_possible_name_is_written(tmp_path: Path, size: int) -> None:
    target = OutputFile(str(tmp_path / ("x" * size)))
    target.keep()
    assert len(next(tmp_path.iterdir()).name) == size


@each("name", ["x" * 256, "loop", "none/x", "nul\0", "file/x"])
def test_unwritable_output_is_an_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").touch()
    with pytest.raises(PathError):
        OutputFile(str(tmp_path / name))
    assert {path.name for path in tmp_path.iterdir()} == {"loop", "file"}


def test_order_of_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written is flushed before its name is given, and the name after it."""
    calls: list[str] = []

    class Noting:
        def __getattr__(self, name: str) -> Any:
            calls.append(name)
            return getattr(os, name)

    (tmp_path / "out").touch()
    monkeypatch.setattr(writing, "_os", Noting())
    target = OutputFile(str(tmp_path / "out"))
    target.stream.write(b"x")
    target.keep()
    told = [name for name in calls if name in ("fchmod", "fsync", "close", "rename")]
    assert told == ["fchmod", "close", "fsync", "close", "rename", "fsync"]


def written(path: Path) -> None:
    """Write a file as commands do."""
    target = OutputFile(str(path))
    try:
        target.stream.write(b"x")
        target.keep()
    finally:
        target.drop()


@pytest.mark.parametrize("call", ["open", "fchmod", "fsync", "rename"])
def test_every_failure_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    class Failing:
        def __getattr__(self, name: str) -> Any:
            if name == call:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return getattr(os, name)

    (tmp_path / "out").write_bytes(b"before")
    monkeypatch.setattr(writing, "_os", Failing())
    with pytest.raises(PathError, match="Input/output error"):
        written(tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b"before"
    assert len(list(tmp_path.iterdir())) == 1


def test_pipe_is_written_to_directly(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    target = OutputFile(str(tmp_path / "pipe"))
    target.stream.write(b"x")
    target.keep()
    assert os.read(reader, 10) == b"x"
    os.close(reader)


def test_open_file_of_this_process_is_appended_to(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb", buffering=0) as file:
        file.write(b"a")
        target = OutputFile(f"/dev/fd/{file.fileno()}")
        target.stream.write(b"b")
        target.keep()
        file.write(b"c")
    assert (tmp_path / "out").read_bytes() == b"abc"
