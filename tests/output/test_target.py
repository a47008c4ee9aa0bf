"""An output file appears whole or not at all, and never where something is read."""

from pathlib import Path

import pytest

from kdump.errors import PathError, UsageError
from kdump.output.target import OutputFile, refuse_input_as_output


def test_file_appears_when_kept(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_bytes(b"before")
    target = OutputFile(str(path))
    target.stream.write(b"after")
    assert path.read_bytes() == b"before"
    target.keep()
    assert path.read_bytes() == b"after"
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_is_left_when_dropped(tmp_path: Path) -> None:
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


def test_directory_that_is_not_there(tmp_path: Path) -> None:
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


def test_file_beside_a_lone_copy_may_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("copies").mkdir()
    Path("copies/1.log").touch()
    refuse_input_as_output("copies/out.jsonl", ["copies/1.log"])
