"""Archives, odd names, standard input, tiered storage: the same rows as of the files themselves."""

import gzip
import io
import json
import os
import random
import re
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import builders
import forked
import pytest
import zstandard
from commands import run

SAMPLES = Path(__file__).parents[2] / "sample-data"
OF_44 = SAMPLES / "clean" / "4.4.0"
OF_41 = SAMPLES / "clean" / "4.1.1"
Pack = Callable[[Path, Path], Path]


def kdump(*arguments: str, stdin: bytes = b"", **environment: str) -> tuple[int, str, str]:
    done = forked.run(*arguments, stdin=stdin, env=os.environ | environment)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def as_tar(form: str = "") -> Pack:
    def pack(root: Path, to: Path) -> Path:
        archive = to / f"backup{form or '.tar'}"
        with tarfile.open(archive, f"w:{form}") as tar:
            tar.add(root, "node")
        return archive

    return pack


def as_tar_zst(root: Path, to: Path) -> Path:
    plain = as_tar()(root, to)
    archive = to / "backup"  # bytes say what it is
    archive.write_bytes(zstandard.compress(plain.read_bytes()))
    return archive


def as_zip(method: int) -> Pack:
    def pack(root: Path, to: Path) -> Path:
        archive = to / "backup.zip"
        with zipfile.ZipFile(archive, "w", method) as packed:
            for file in sorted(root.rglob("*")):
                packed.write(file, f"node/{file.relative_to(root)}")
        return archive

    return pack


PACKS = {
    "tar": as_tar(),
    "tar.gz": as_tar("gz"),
    "tar.xz": as_tar("xz"),
    "tar.zst": as_tar_zst,
    "zip": as_zip(zipfile.ZIP_DEFLATED),
    "stored zip": as_zip(zipfile.ZIP_STORED),
}
#: Every command that reads; `why` also asks the file system for the blocks of each file.
COMMANDS = (
    "dump PATH",
    "dump --batches PATH",
    "verify --deep PATH",
    "predict PATH",
    "find-offset PATH 5",
    "find-time PATH 1763800000000",
    "groups PATH",
    "cluster PATH",
    "transactions PATH",
    "usage PATH",
    "sequences PATH",
    "salvage --dry-run PATH",
)


def rows(command: str, path: str) -> tuple[int, str]:
    words = [path if word == "PATH" else word for word in command.split()]
    status, out, _ = kdump(*words, "--format", "jsonl")
    return status, re.sub(r'"seconds":[\d.]+', "", out)


@pytest.mark.parametrize("command", COMMANDS)
def test_archive_is_read_like_its_contents(tmp_path: Path, command: str) -> None:
    archive = as_tar()(OF_44, tmp_path)
    status, theirs = rows(command, str(OF_44))
    found, ours = rows(command, str(archive))
    # Whether a node starts is asked of its own disks alone.
    theirs = "".join(line for line in theirs.splitlines(True) if '"node-start"' not in line)
    assert (found, ours.replace(f"archive://{archive}!/node", str(OF_44))) == (status, theirs)
    assert status == 0
    assert theirs or command == "transactions PATH"


@pytest.mark.parametrize("form", PACKS)
def test_every_archive_format_is_read(tmp_path: Path, form: str) -> None:
    archive = PACKS[form](OF_41 / "d2", tmp_path)
    status, theirs = rows("dump PATH", str(OF_41 / "d2"))
    assert rows("dump PATH", str(archive)) == (status, theirs)
    assert len(theirs.splitlines()) > 3000


def test_archives_are_compared_with_directories(tmp_path: Path) -> None:
    damaged = SAMPLES / "damaged" / "one-bit"
    archive = as_tar("gz")(damaged, tmp_path)
    status, theirs, _ = kdump("compare", str(OF_41 / "d1"), str(damaged), "--format", "jsonl")
    found, ours, _ = kdump("compare", str(OF_41 / "d1"), str(archive), "--format", "jsonl")
    assert found == status == 3
    ours = ours.replace(f"archive://{archive}!/node", str(damaged))
    assert re.sub(r'"seconds":[\d.]+', "", ours) == re.sub(r'"seconds":[\d.]+', "", theirs)


def test_workers_read_an_archive(tmp_path: Path) -> None:
    archive = as_tar("gz")(OF_41 / "d2", tmp_path)
    one = rows("verify -j 1 PATH", str(archive))
    assert rows("verify -j 3 PATH", str(archive)) == one
    assert one[0] == 0


def test_printed_archive_paths_are_accepted(tmp_path: Path) -> None:
    archive = as_tar("gz")(SAMPLES / "damaged" / "one-bit", tmp_path / "")
    _, out, _ = kdump("verify", str(archive), "--format", "jsonl")
    path = re.findall(r'"path":"([^"]+)"', out)[0]
    assert path.startswith(f"archive://{archive}!/node/orders.zstd-0/")
    status, _, error = kdump("dump", "--batches", path, "--format", "jsonl")
    assert (status, "crc-mismatch" in error) == (3, True)


def test_no_temporary_files_remain(tmp_path: Path) -> None:
    archive = as_tar("gz")(OF_41 / "d2", tmp_path)
    room = tmp_path / "tmp"
    room.mkdir()
    assert kdump("usage", str(archive), TMPDIR=str(room))[0] == 0
    assert kdump("dump", str(archive), "--no-such", TMPDIR=str(room))[0] == 2
    assert list(room.iterdir()) == []


def segment(base: int = 40) -> bytes:
    made = [builders.batch([builders.record(0, 0, b"k")], base_offset=base + n) for n in range(5)]
    return b"".join(made)


@pytest.mark.parametrize("name", ["evil (1).log", "seg.bin", "FOUND.000", "x"])
def test_log_of_any_name_is_read(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(segment())
    status, out, _ = kdump("dump", str(tmp_path / name), "--format", "jsonl")
    assert (status, re.findall(r'"offset":(\d+)', out)) == (0, ["40", "41", "42", "43", "44"])
    assert '"topic":null,"partition":null,"segment":40' in out
    more = ("--topic-name", "orders", "--partition-number", "7", "--base-offset", "30")
    _, out, _ = kdump("dump", str(tmp_path / name), "--format", "jsonl", *more)
    assert '"topic":"orders","partition":7,"segment":30' in out
    status, out, _ = kdump("find-offset", *more, str(tmp_path / name), "42", "--format", "jsonl")
    assert (status, '"offset":42' in out) == (0, True)


def test_compressed_segment_is_read(tmp_path: Path) -> None:
    (tmp_path / "orders-3").mkdir()
    path = tmp_path / "orders-3" / f"{40:020}.log.gz"
    path.write_bytes(gzip.compress(segment()))
    status, out, _ = kdump("dump", str(path), "--format", "jsonl")
    assert (status, out.count('"topic":"orders","partition":3,"segment":40')) == (0, 5)


def test_standard_input_is_read(tmp_path: Path) -> None:
    for data in (segment(), gzip.compress(segment())):
        status, out, _ = kdump("dump", "-", "--format", "jsonl", stdin=data)
        assert (status, out.count('"row":"record"')) == (0, 5)
    torn = segment()[30:-9]  # cut from a capture in the midst of batches
    status, out, error = kdump("dump", "-", "--format", "jsonl", stdin=torn)
    assert (status, out.count('"row":"record"')) == (3, 3)
    assert error.count('"row":"finding"') == 2
    archive = as_tar("gz")(OF_41 / "d2", tmp_path).read_bytes()
    _, out, _ = kdump("dump", "-", "--format", "jsonl", stdin=archive)
    assert out == rows("dump PATH", str(OF_41 / "d2"))[1]


def test_unknown_kind_must_be_given(tmp_path: Path) -> None:
    path = tmp_path / "noise"
    path.write_bytes(random.Random(1).randbytes(5000))
    status, _, error = kdump("dump", str(path))
    assert (status, error.count("\n")) == (1, 1)
    assert error.endswith(
        "noise: is not a log file; --entries shows index and state files, --as log reads it as a "
        "log\n"
    )
    assert kdump("dump", "--as", "log", str(path))[0] == 3
    assert kdump("dump", "--as", "lgo", str(path))[0] == 2
    status, _, error = kdump("dump", "--partition-number", "3", str(path), "--as", "log")
    assert (status, "requires --topic-name" in error) == (2, True)


def test_index_of_another_name_is_read(tmp_path: Path) -> None:
    found = next((OF_41 / "d2").glob("orders.plain-0/*.index"))
    shutil.copy(found, tmp_path / "ix")
    base = str(int(found.stem))
    _, ours, _ = kdump(
        "dump", "--entries", str(tmp_path / "ix"), "--base-offset", base, "--format", "jsonl"
    )
    _, theirs, _ = kdump("dump", "--entries", str(found), "--format", "jsonl")
    offsets = re.compile(r'"offset":(\d+),"position":(\d+)')
    assert offsets.findall(ours) == offsets.findall(theirs) != []


@pytest.mark.parametrize(
    "place",
    ["orders.plain-0-LWgrMmVrT0a__7a4SasuPA", "LWgrMmVrT0a__7a4SasuPA-0-orders.plain",
     "orders.plain-LWgrMmVrT0a__7a4SasuPA/0"],
)  # fmt: skip
def test_tiered_storage_is_read(tmp_path: Path, place: str) -> None:
    folder = tmp_path / "remote" / place
    folder.mkdir(parents=True)
    for file in (OF_41 / "d2" / "orders.plain-0").iterdir():
        if file.name[:20].isdigit():
            stem, _, kind = file.name.partition(".")
            shutil.copy(file, folder / f"{stem}-bCqX9UaaSb6U8XUM9II25Q.{kind}")
    _, theirs = rows("dump PATH", str(OF_41 / "d2" / "orders.plain-0"))
    for path in (tmp_path / "remote", folder):
        assert rows("dump PATH", str(path)) == (0, theirs)
    assert rows("find-offset PATH 700", str(tmp_path / "remote"))[0] == 0


def test_archives_are_refused_for_writing_and_spark(tmp_path: Path) -> None:
    archive = as_tar()(OF_41 / "d2", tmp_path)
    status, _, error = kdump("reindex", str(archive), "--write")
    assert (status, "cannot write into an archive; unpack it first" in error) == (2, True)
    status, _, error = kdump("verify", str(archive), "--engine", "spark")
    assert (status, "Spark cannot read archives" in error) == (2, True)


def test_salvage_reads_copies_in_archives(tmp_path: Path) -> None:
    one = as_tar("gz")(SAMPLES / "damaged" / "one-bit", tmp_path)
    out = tmp_path / "out"
    status, told, error = kdump(
        "salvage", str(one), str(OF_41 / "d1" / "orders.zstd-0"), "--out", str(out),
        "--format", "jsonl",
    )  # fmt: skip
    assert (status, '"lost":[]' in told) == (0, True), error
    assert rows("dump PATH", str(out))[0] == 0


def hostile(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", size: int = 3) -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    info.size = size if kind == tarfile.REGTYPE else 0
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(info, io.BytesIO(b"abc"))
        inner = tarfile.TarInfo("orders-0/" + f"{0:020}.log")
        inner.size = len(segment(0))
        tar.addfile(inner, io.BytesIO(segment(0)))
    return made.getvalue()


@pytest.mark.parametrize(
    ("name", "kind", "link"),
    [
        ("../../etc/passwd", tarfile.REGTYPE, ""),
        ("a/../../x", tarfile.REGTYPE, ""),
        ("orders-1", tarfile.SYMTYPE, "/etc"),
        ("orders-0/x.log", tarfile.LNKTYPE, "/etc/passwd"),
        ("dev", tarfile.CHRTYPE, ""),
        ("fifo", tarfile.FIFOTYPE, ""),
        ("orders-0", tarfile.REGTYPE, ""),
    ],
)
def test_archive_members_stay_inside_the_archive(
    tmp_path: Path, name: str, kind: bytes, link: str
) -> None:
    (tmp_path / "h.tar").write_bytes(hostile(name, kind, link))
    status, out, error = kdump("dump", str(tmp_path / "h.tar"), "--format", "jsonl")
    assert (status, out.count('"row":"record"')) == (0, 5)
    assert "1 links, devices, and unusable names in it were skipped" in error
    assert [entry.name for entry in tmp_path.iterdir()] == ["h.tar"]


def test_decompression_bombs_are_bounded(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.gz"
    bomb.write_bytes(gzip.compress(bytes(64 << 20)))
    status, _, error = kdump("dump", str(bomb), "--unpack-limit", "10MiB", TMPDIR=str(tmp_path))
    assert (status, error.count("\n")) == (1, 1)
    assert "unpacks to more than 10485760 bytes; --unpack-limit allows more" in error
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("orders-0/" + f"{0:020}.log", bytes(64 << 20))
    status, _, error = kdump("dump", str(tmp_path / "bomb.zip"), "--unpack-limit", "10MiB")
    assert (status, "unpacks to more than 10485760 bytes" in error) == (1, True)


@pytest.mark.parametrize("form", ["tar", "tar.gz", "tar.zst"])
def test_truncated_archive_is_read_up_to_its_end(tmp_path: Path, form: str) -> None:
    archive = PACKS[form](OF_41 / "d2", tmp_path)
    data = archive.read_bytes()
    archive.write_bytes(data[: len(data) * 2 // 3])
    _, out, error = kdump("dump", str(archive), "--format", "jsonl")
    assert out.count('"row":"record"') > 100
    assert re.search("ends early or is damaged|is cut short", error)


def test_loose_file_is_reported_by_its_given_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by the view under which it is read; and no index is missed beside it."""
    shutil.copy(next(OF_41.glob(f"d1/orders.zstd-0/{293:020}.log")), tmp_path / "evil.bin")
    damaged = bytearray((tmp_path / "evil.bin").read_bytes())
    damaged[-5] ^= 1
    (tmp_path / "evil.bin").write_bytes(damaged)
    monkeypatch.chdir(tmp_path)
    result = run("verify", "--format", "jsonl", "evil.bin")
    finding, _ = map(json.loads, result.stdout.splitlines())
    assert (finding["code"], finding["path"]) == ("crc-mismatch", "evil.bin")
    _, text, _ = kdump("dump", "--format", "kafka", "--limit", "1", "evil.bin")
    assert text.startswith("Dumping evil.bin\n")
