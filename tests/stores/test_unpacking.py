"""Archives with random damage: whatever the bytes say, nothing crashes, and members lie inside."""

import gzip
import io
import lzma
import os
import random
import shutil
import struct
import subprocess
import tarfile
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
import zstandard
from each import each
from long_runs import SEED, how_many

from kdump.errors import PathError
from kdump.stores.unpacking import UnpackedArchive, Unpacker, kind_of
from kdump.stores.view_store import Member, MemberFile
from kdump.stores.xz import XzFile

COUNT = how_many(600, 20_000)
LIMIT = 4 << 20


def seeds() -> dict[str, bytes]:
    rng = random.Random(1)
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for number in range(4):
            info = tarfile.TarInfo(f"d/orders-{number}/{0:020}.log")
            info.size = 700 * number
            tar.addfile(info, io.BytesIO(rng.randbytes(info.size)))
        link = tarfile.TarInfo("d/hard")
        link.type, link.linkname = tarfile.LNKTYPE, f"d/orders-1/{0:020}.log"
        tar.addfile(link)
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as packed:
        packed.writestr("orders-0/a.log", rng.randbytes(500))
        packed.writestr("orders-0/b.log", bytes(9000), zipfile.ZIP_DEFLATED)
    tar_bytes = plain.getvalue()
    return {
        "tar": tar_bytes,
        "gz": gzip.compress(tar_bytes),
        "zst": zstandard.compress(tar_bytes),
        "zip": zipped.getvalue(),
    }


def damaged(rng: random.Random, data: bytes) -> bytes:
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 3, 20))):
        at = rng.randrange(len(made))
        if rng.random() < 0.15:
            del made[at:]
            if not made:
                return bytes(data[:1])
        elif rng.random() < 0.2:
            made[at : at + 8] = b"\xff" * 8
        else:
            made[at] = rng.randrange(256)
    return bytes(made)


@pytest.mark.fuzz
@pytest.mark.parametrize("form", sorted(seeds()))
def test_random_damage_is_survived(tmp_path: Path, form: str) -> None:
    rng = random.Random(f"{form} {SEED}")
    data = seeds()[form]
    path, room = tmp_path / "archive", tmp_path / "room"
    for _ in range(COUNT // 4):
        room.mkdir()
        path.write_bytes(damaged(rng, data))
        try:
            found = Unpacker(str(room), LIMIT, lambda total: None).view_of(str(path))
        except PathError:
            found = None
        for name, member in found.members.items() if found else ():
            assert ".." not in name.split("/")
            assert not name.startswith("/")
            assert Path(member.file).parent in (room, tmp_path, Path(f"/proc/{os.getpid()}/fd"))
            assert 0 <= member.start <= member.start + member.size
        for left in room.iterdir():
            assert left.name.startswith("unpacked-")
            assert left.stat().st_size <= LIMIT + (1 << 20)
            left.unlink()
        room.rmdir()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["archive"]


def test_archives_are_recognized_by_their_first_bytes() -> None:
    found = {form: kind_of(data[:512]) for form, data in seeds().items()}
    assert found == {"tar": "tar", "gz": "gzip", "zst": "zstd", "zip": "zip"}
    assert kind_of(b"") is None
    assert kind_of(bytes(512)) is None


def test_sparse_members_and_hard_links_are_read(tmp_path: Path) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        info = tarfile.TarInfo("orders-0/first.log")
        info.size = 5
        tar.addfile(info, io.BytesIO(b"bytes"))
        link = tarfile.TarInfo("orders-1/second.log")
        link.type, link.linkname = tarfile.LNKTYPE, "orders-0/first.log"
        tar.addfile(link)
    path = tmp_path / "a.tar"
    path.write_bytes(made.getvalue())
    found = Unpacker(str(tmp_path), LIMIT, lambda total: None).view_of(str(path))
    assert found is not None
    first, second = found.members.values()
    assert first == second
    assert path.read_bytes()[first.start : first.start + first.size] == b"bytes"
    assert found.notes == []
    assert found.problems == []


def opened(tmp_path: Path, data: bytes, limit: int | None = None) -> UnpackedArchive:
    path, room = tmp_path / "archive", tmp_path / "room"
    path.write_bytes(data)
    shutil.rmtree(room, ignore_errors=True)
    room.mkdir()
    found = Unpacker(str(room), limit, lambda total: None).view_of(str(path))
    assert found is not None
    return found


def tar_of(*infos: tarfile.TarInfo) -> bytes:
    """Give a tar of files without a byte, whatever size their headers claim."""
    return b"".join(info.tobuf(tarfile.PAX_FORMAT) for info in infos) + bytes(1024)


def with_size(size: bytes, kind: bytes = tarfile.REGTYPE, name: str = "a/x") -> bytes:
    info = tarfile.TarInfo(name)
    info.type = kind
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    header[124:136] = size
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header)


FIRST = tar_of(tarfile.TarInfo("d/orders-0/first.log"))[:512]
NEGATIVE = (-512 & (1 << 96) - 1).to_bytes(12, "big")
HUGE = b"\x80" + (1 << 40).to_bytes(11, "big")


@each(
    ("entry", "reason"),
    [
        (with_size(NEGATIVE), "has an impossible size (-512)"),
        (with_size(b"\xff" * 12), "has an impossible size (-1)"),
        (with_size(b"-0000001000\0"), "has a size that is not a number"),
        (with_size(HUGE, tarfile.GNUTYPE_LONGNAME), "has an extended header of 1,099,511,627,776"),
        (with_size(HUGE, tarfile.XHDTYPE), "has an extended header of 1,099,511,627,776 bytes"),
        (with_size(b"\x80" + b"\xff" * 11), "has an impossible size"),
        (b"x" * 512, "has a damaged header"),
        (FIRST[:300], "is cut short"),
        (b"", "is missing: the archive has no end mark"),
        (bytes(512) + FIRST, "is the end mark, but more follows it"),
    ],
)
def test_tar_is_read_up_to_a_reported_bad_header(tmp_path: Path, entry: bytes, reason: str) -> None:
    for data in (FIRST + entry, gzip.compress(FIRST + entry), lzma.compress(FIRST + entry)):
        found = opened(tmp_path, data)
        assert list(found.members) == ["d/orders-0/first.log"]
        (problem,) = found.problems
        assert problem.startswith(f"the entry at byte 512 {reason}")
        assert problem.endswith("; reading what comes before it")


def test_pax_headers_are_bounded(tmp_path: Path) -> None:
    deep = tarfile.TarInfo("/".join("x" * 10_000))
    long = tarfile.TarInfo("y" * 5000)
    found = opened(tmp_path, tar_of(tarfile.TarInfo("a/b"), deep, long, tarfile.TarInfo("c/d")))
    assert sorted(found.members) == ["a/b", "c/d"]
    assert len(found.problems) == 2
    assert "has a path of 19,999 characters (4,096 at most): left out" in found.problems[0]
    at_most = [tarfile.TarInfo(name) for name in ("y/" * 64 + "z", "y" * 4096)]
    beyond = [tarfile.TarInfo(name) for name in ("y/" * 65 + "z", "y" * 4097)]
    found = opened(tmp_path, tar_of(*at_most, *beyond))
    assert (len(found.members), len(found.problems)) == (2, 2)
    for words in ({"size": "-512"}, {"size": "9" * 30}, {"GNU.sparse.size": str(1 << 34)}):
        odd = tarfile.TarInfo("a/odd")
        odd.pax_headers = words
        found = opened(tmp_path, FIRST + tar_of(odd))
        assert list(found.members) == ["d/orders-0/first.log"]
        assert "at byte 512" in found.problems[0]
    header = with_size(b"00000001000\0", tarfile.XHDTYPE)
    for data in (b"0" * 512, b"9 a=b".ljust(512, b"9"), b"99999 a=b\n".ljust(512, b"\0")):
        assert "damaged extended header" in opened(tmp_path, FIRST + header + data).problems[0]
    many = with_size(b"0" * 11 + b"\0", tarfile.GNUTYPE_LONGNAME) * 40
    assert "more than 16 extended headers" in opened(tmp_path, FIRST + many).problems[0]


@pytest.mark.skipif(shutil.which("tar") is None, reason="there is no tar")
@pytest.mark.parametrize("form", ["gnu", "oldgnu", "pax1.0", "pax0.1", "pax0.0", "ustar"])
def test_sparse_files_and_long_names_of_gnu_tar_are_read(tmp_path: Path, form: str) -> None:
    folder = tmp_path / "node" / ("long" * 20) / "orders-0"
    folder.mkdir(parents=True)
    with (folder / "0.log").open("wb") as file:
        for at in range(60):
            file.seek(at << 16)
            file.write(b"%d" % at * 100)
        file.truncate(8 << 20)
    (folder / ("n" * (90 if form == "ustar" else 150))).write_bytes(b"bytes")
    words = ["tar", "-cf", str(tmp_path / "a.tar")]
    if form.startswith("pax"):
        words += ["--format=posix", "-S", f"--sparse-version={form[3:]}"]
    else:
        words += [f"--format={form}", *(["-S"] if form != "ustar" else [])]
    subprocess.run([*words, "-C", str(tmp_path), "node"], check=True)
    found = opened(tmp_path, (tmp_path / "a.tar").read_bytes())
    assert (found.problems, found.notes) == ([], [])
    wanted = {
        str(path.relative_to(tmp_path)): path.read_bytes()
        for path in (tmp_path / "node").rglob("*")
        if path.is_file()
    }
    for name, member in found.members.items():
        with Path(member.file).open("rb") as file:
            file.seek(member.start)
            assert file.read(member.size) == wanted.pop(name)
    assert wanted == {}


def test_dictionaries_are_bounded(tmp_path: Path) -> None:
    claim = bytearray(lzma.compress(b"bytes", format=lzma.FORMAT_ALONE))
    claim[1:5] = b"\xff" * 4
    path = tmp_path / "x.lzma"
    path.write_bytes(claim)
    with XzFile(path.open("rb")) as file, pytest.raises(lzma.LZMAError, match="160 MiB"):
        file.read1(100)
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_LZMA) as packed:
        packed.writestr("orders-0/a.log", bytes(100))
    data = zipped.getvalue()
    at = data.index(b"a.log") + 5 + 5
    found = opened(tmp_path, data[:at] + b"\xff" * 4 + data[at + 4 :])
    assert found.members == {}
    assert "a dictionary of more than 160 MiB" in found.problems[0]


def test_xz_file_of_several_streams_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.xz"
    path.write_bytes(lzma.compress(b"one ") + bytes(8) + lzma.compress(b"two"))
    with XzFile(path.open("rb")) as file:
        data = b""
        while block := file.read1(3):
            data += block
    assert data == b"one two"
    path.write_bytes(lzma.compress(b"one ")[:-4])
    with XzFile(path.open("rb")) as file:
        assert file.read1(9) == b"one "
        with pytest.raises(EOFError):
            file.read1(9)


def test_unpacking_limit_grows_with_the_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kdump.stores.unpacking._SMALL", 1 << 20)
    monkeypatch.setattr("kdump.stores.unpacking._TIMES", 10)
    zeros = zstandard.compress(bytes(4 << 20))
    found = opened(tmp_path, zeros)
    assert "unpacks to more than 1048576 bytes; --unpack-limit allows more" in found.problems[0]
    assert opened(tmp_path, zeros, 8 << 20).problems == []


def test_members_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdump.stores.unpacking.MOST_MEMBERS", 3)
    infos = [tarfile.TarInfo(f"d/{number}") for number in range(5)]
    found = opened(tmp_path, tar_of(*infos))
    assert list(found.members) == ["d/0", "d/1", "d/2"]
    assert found.problems == ["has more than 3 entries; reading what comes before it"]


def test_characters_of_paths_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdump.stores.unpacking.MOST_CHARACTERS", 1000)
    infos = [tarfile.TarInfo("/".join([f"{number}" + "d" * 90, "e" * 10])) for number in range(20)]
    found = opened(tmp_path, tar_of(*infos))
    assert len(found.members) == 9
    assert found.problems == ["has too many long paths (at entry 10); reading what comes before it"]


def test_problems_of_an_archive_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kdump.stores.unpacking._MOST_PROBLEMS", 3)
    infos = [tarfile.TarInfo("a/" * 70 + str(number)) for number in range(20)]
    assert len(opened(tmp_path, tar_of(*infos)).problems) == 5


def test_holes_are_read_as_zeros(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(4 << 20)
        file.seek(2 << 20)
        file.write(b"data")
    member = MemberFile(Member(str(path), 100, (4 << 20) - 200))
    for at, size in ((0, 1 << 20), ((2 << 20) - 200, 300), ((4 << 20) - 300, 500)):
        start = 100 + at
        assert (
            member.read_at(at, size)
            == path.read_bytes()[start : min(start + size, (4 << 20) - 100)]
        )
    member.close()


@each("cut", [0, 1, 9, 40_000])
def test_damaged_gzip_is_read_as_far_as_by_zlib(tmp_path: Path, cut: int) -> None:
    data = random.Random(3).randbytes(70_000)
    packed = gzip.compress(data)
    path = tmp_path / "0.log.gz"
    path.write_bytes(packed[: len(packed) - cut])
    expected = b""
    with gzip.open(path) as file, suppress(EOFError):
        while block := file.read1(1 << 20):
            expected += block
    found = Unpacker(str(tmp_path), None, lambda total: None).view_of(str(path))
    assert found is not None
    (member,) = found.members.values()
    assert Path(member.file).read_bytes()[: member.size] == expected
    assert member.size == len(expected)
    assert bool(found.problems) == bool(cut)


def test_sound_gzip_needs_no_zlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("isal")
    path = tmp_path / "0.log.gz"
    path.write_bytes(gzip.compress(bytes(5000)))
    monkeypatch.setattr("gzip.open", None)
    assert opened(tmp_path, path.read_bytes()).problems == []


def test_most_files_are_named_with_a_low_open_file_limit(tmp_path: Path) -> None:
    unpacker = Unpacker(str(tmp_path), None, lambda total: None, most_open=2)
    before = len([*Path("/proc/self/fd").iterdir()])
    found = [unpacker.spool(io.BytesIO(b"%d" % number), "x").file for number in range(9)]
    assert len([*Path("/proc/self/fd").iterdir()]) <= before + 2
    assert [Path(one).read_bytes() for one in found] == [b"%d" % number for number in range(9)]


def sparse(name: str, **headers: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.pax_headers = {f"GNU.sparse.{key}": value for key, value in headers.items()}
    return info


@each(
    ("headers", "reason"),
    [
        ({"size": str(1 << 41), "map": "0,1"}, "is a sparse file of 2,199,023,255,552 bytes"),
        ({"size": "9", "map": "0,1,0,1"}, "has an invalid sparse map"),
        ({"size": "9", "map": "8,2"}, "has an invalid sparse map"),
        ({"size": "9", "map": "0,1"}, "has an invalid sparse map"),
    ],
)
def test_impossible_sparse_maps_are_reported(
    headers: dict[str, str], reason: str, tmp_path: Path
) -> None:
    found = opened(tmp_path, FIRST + tar_of(sparse("a/odd", **headers)))
    assert list(found.members) == ["d/orders-0/first.log"]
    assert found.problems[0].startswith(f"the entry at byte 512 {reason}")


def test_sparse_map_of_too_many_pieces_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kdump.stores.tar._PIECES", 2)
    for pieces, problems in ((2, []), (3, ["has more than 2 sparse pieces"])):
        text = ",".join(f"{at},0" for at in range(pieces))
        found = opened(tmp_path, FIRST + tar_of(sparse("a/odd", size="9", map=text)))
        assert [one.partition("512 ")[2][:29] for one in found.problems] == problems


def test_sparse_map_before_the_data_must_end(tmp_path: Path) -> None:
    odd = sparse("a/odd", major="1", minor="0", realsize="9")
    odd.size = 512
    data = FIRST + odd.tobuf(tarfile.PAX_FORMAT) + b"9\n0\n".ljust(512, b"\0") + bytes(1024)
    assert "has a sparse map without an end" in opened(tmp_path, data).problems[0]


def test_old_sparse_map_must_end(tmp_path: Path) -> None:
    header = bytearray(with_size(b"0" * 11 + b"\0", tarfile.GNUTYPE_SPARSE))
    header[482], header[483:495] = 1, b"0" * 11 + b"\0"
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    found = opened(tmp_path, FIRST + bytes(header))
    assert "has a sparse map without an end" in found.problems[0]


def test_names_in_global_headers_and_long_links_are_taken(tmp_path: Path) -> None:
    link = with_size(b"0" * 10 + b"7\0", tarfile.GNUTYPE_LONGLINK) + b"a/file\0".ljust(512, b"\0")
    hard = tarfile.TarInfo("a/link")
    hard.type, hard.linkname = tarfile.LNKTYPE, "cut"
    data = tar_of(tarfile.TarInfo("a/file"))[:512] + link + hard.tobuf(tarfile.GNU_FORMAT)
    assert sorted(opened(tmp_path, data + bytes(1024)).members) == ["a/file", "a/link"]
    whole = tarfile.TarInfo.create_pax_global_header({"path": "b/named"})
    assert list(opened(tmp_path, whole + FIRST + bytes(1024)).members) == ["b/named"]


def test_extended_header_must_be_whole(tmp_path: Path) -> None:
    header = with_size(b"0" * 7 + b"1000\0", tarfile.XHDTYPE)
    assert "ends in its extended header" in opened(tmp_path, FIRST + header + b"x").problems[0]


def zip_of(*names: str, method: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name in names:
            archive.writestr(name, b"content")
    return out.getvalue()


def test_problems_of_a_zip_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdump.stores.unpacking._MOST_PROBLEMS", 3)
    found = opened(tmp_path, zip_of(*("a/" * 70 + str(number) for number in range(9))))
    assert len(found.problems) == 5
    assert "left out" in found.problems[0]
    assert found.problems[-1].startswith("reading what comes before ")


def test_incomplete_zip_is_named_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(PathError, match=r"^/.*: is not a complete zip file: File is not a zip"):
        opened(tmp_path, zip_of("a/x")[:-9])


def test_zip_member_must_lie_inside(tmp_path: Path) -> None:
    data = bytearray(zip_of("a/x", "a/y"))
    at = data.index(b"PK\1\2")
    data[at + 20 : at + 28] = struct.pack("<II", 1 << 20, 1 << 20)
    found = opened(tmp_path, bytes(data))
    assert list(found.members) == ["a/y"]
    assert found.problems == ["a/x is left out: it reaches beyond the end of the archive"]


@pytest.mark.parametrize("form", ["bzip2", "lz4"])
def test_compressed_file_of_each_kind_is_read(form: str, tmp_path: Path) -> None:
    import bz2

    import lz4.frame

    pack = {"bzip2": bz2.compress, "lz4": lz4.frame.compress}[form]
    data = pack(tar_of(tarfile.TarInfo("a/x")))
    assert kind_of(data[:512]) == form
    assert list(opened(tmp_path, data).members) == ["a/x"]
