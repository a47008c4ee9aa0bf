"""Reading leaves no trace: neither on what is read, nor names of what is unpacked."""

import gzip
import os
import tarfile
import zipfile
from pathlib import Path

import pytest
from commands import run
from directories import batches

from kdump.storage import disk_rate
from kdump.stores import unpacking
from kdump.stores.quiet_open import open_quietly
from kdump.stores.unpacking import Unpacker

LOG = f"{0:020}.log"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[int]]:
    """Note the flags with which each file is opened."""
    found: dict[str, list[int]] = {}
    before = os.open

    def noted(path: str, flags: int, *more: int, **named: int) -> int:
        found.setdefault(os.fspath(path), []).append(flags)
        return before(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", noted)
    return found


def archives(directory: Path) -> list[Path]:
    log = directory / "orders-0" / LOG
    log.parent.mkdir()
    log.write_bytes(batches(0, 5))
    made = [directory / name for name in ("a.tar", "a.tar.gz", "a.zip", "stored.zip", "log.gz")]
    for path, mode in zip(made, ("w", "w:gz"), strict=False):
        with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
            tar.add(log, f"orders-0/{LOG}")
    for path, kind in zip(made[2:], (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED), strict=False):
        with zipfile.ZipFile(path, "w", kind) as packed:
            packed.write(log, f"orders-0/{LOG}")
    made[-1].write_bytes(gzip.compress(log.read_bytes()))
    return made


@pytest.mark.skipif(not hasattr(os, "O_NOATIME"), reason="the system has no O_NOATIME")
def test_archives_are_opened_without_changing_the_access_time(
    tmp_path: Path, opened: dict[str, list[int]]
) -> None:
    for path in archives(tmp_path):
        result = run("dump", path)
        assert len(result.stdout.splitlines()) == 10
        assert opened[str(path)]
        assert all(flags & os.O_NOATIME for flags in opened[str(path)]), path


@pytest.mark.skipif(not hasattr(os, "O_NOATIME"), reason="the system has no O_NOATIME")
def test_measured_files_are_opened_without_changing_the_access_time(
    tmp_path: Path, opened: dict[str, list[int]]
) -> None:
    log = tmp_path / LOG
    log.write_bytes(bytes(1 << 20))
    disk_rate.measure([(str(log), 1 << 20)])
    assert opened[str(log)]
    assert all(flags & os.O_NOATIME for flags in opened[str(log)])


def test_file_of_another_user_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only its owner may ask for that."""
    (tmp_path / "file").write_bytes(b"x")
    before = os.open

    def refused(path: str, flags: int) -> int:
        if flags & getattr(os, "O_NOATIME", 0):
            raise PermissionError
        return before(path, flags)

    monkeypatch.setattr(os, "open", refused)
    with open(open_quietly(str(tmp_path / "file")), "rb") as file:  # noqa: PTH123
        assert file.read() == b"x"


@pytest.mark.parametrize("way", ["tmpfile", "unlinked", "named"])
def test_unpacked_files_have_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    if way != "tmpfile":
        monkeypatch.setattr(unpacking, "_TEMPORARY", 0)
    if way == "named":
        monkeypatch.setattr(unpacking, "_LENT", str(tmp_path / "none"))
    into = tmp_path / "into"
    into.mkdir()
    for path in archives(tmp_path)[1:3]:
        unpacker = Unpacker(str(into), 1 << 30, lambda _: None)
        found = unpacker.view_of(str(path))
        assert found is not None
        (member,) = found.members.values()
        assert bool(list(into.iterdir())) is (way == "named")
        child = os.fork()  # as a worker
        if not child:
            with open(member.file, "rb") as file:  # noqa: PTH123
                file.seek(member.start)
                os._exit(file.read(member.size) != batches(0, 5))
        assert os.waitpid(child, 0)[1] == 0
