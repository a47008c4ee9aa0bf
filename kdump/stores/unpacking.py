"""Make a view of an archive or a compressed file: what lies in it, and where.

A member that lies in the archive as it is is read there. All else is unpacked to one file of a
temporary directory, end to end, so that no name out of an archive is ever a name on this machine's
disks. How much that may be is bounded, and checked against the room there is.
"""

from __future__ import annotations

import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from tarfile import TarInfo
from typing import IO, Any, NamedTuple

from kdump.errors import PathError
from kdump.stores.view_store import TABLE, Member, add_view, known_views, stat_of

#: Files of one archive. A broker has some hundred thousand.
MOST_MEMBERS = 4_000_000
_BLOCK = 1 << 20
_HEAD = 512
_ROOM_LEFT = 1 << 30  # of the temporary directory's file system
_CENTURIES = range(1 << 33)  # times that a member may have, in seconds

#: What compressed files begin with, and how they are read.
_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
    b"\xfd7zXZ\x00": "xz",
    b"BZh": "bzip2",
}
_ENDINGS = (".gz", ".zst", ".lz4", ".xz", ".bz2", ".tgz", ".txz", ".tbz2", ".tzst")
_TAR = (257, b"ustar")
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")


class Unpacked(NamedTuple):
    """The files of an archive by their paths in it, and in a sentence each what was left out."""

    members: dict[str, Member]
    notes: list[str]


class TooMuch(Exception):
    """More came out than may."""


def kind_of(head: bytes) -> str | None:
    """Say what a file is that begins so: tar, zip, a compression; None for none of them."""
    for magic, name in _COMPRESSED.items():
        if head.startswith(magic):
            return name
    if head[_TAR[0] :].startswith(_TAR[1]):
        return "tar"
    return "zip" if head.startswith(_ZIP) else None


class Unpacker:
    """Unpacks what has to be to files of a directory; `report` is called with the bytes so far.

    All of it has one `limit`, however many archives it comes from.
    """

    def __init__(self, directory: str, limit: int, report: Callable[[int], None]) -> None:
        self._directory = directory
        self._limit = limit
        self._report = report
        self._files = 0
        self._total = 0

    def view_of(self, path: str) -> Unpacked | None:
        """Say what lies in an archive or a compressed file; None where it is neither."""
        try:
            with open(path, "rb") as file:
                kind = kind_of(file.read(_HEAD))
                if kind is None:
                    return None
                return self._view(path, file, kind, stat_of(file))
        except TooMuch as error:
            raise PathError(path, str(error)) from None
        except OSError as error:
            raise PathError.from_os(path, error) from error

    def publish(self, root: str, members: dict[str, Member]) -> None:
        """Make a view known here and, by a table beside what was unpacked, to worker processes."""
        add_view(root, members)
        table, out = self._new_file()
        with out:
            out.write(known_views())
        os.environ[TABLE] = table

    def spool(self, file: IO[bytes], what: str) -> Member:
        """Copy all of a stream to a file of its own."""
        blob, out = self._new_file()
        with out:
            self._copy(file, out, what)
            return Member(blob, 0, out.tell())

    def _view(self, path: str, file: IO[bytes], kind: str, found: Member) -> Unpacked:
        notes: list[str] = []
        if kind == "zip":
            return Unpacked(self._of_zip(path, file, notes), notes)
        if kind == "tar":
            return Unpacked(self._of_tar(path, file, notes), notes)
        member = self._decompressed(path, kind, notes)._replace(mtime_ns=found.mtime_ns)
        with open(member.file, "rb") as inner:
            if kind_of(inner.read(_HEAD)) == "tar":
                return Unpacked(self._of_tar(member.file, inner, notes), notes)
        above = os.path.basename(os.path.dirname(os.path.abspath(path)))
        name = os.path.basename(path)
        for ending in _ENDINGS:
            name = name.removesuffix(ending)
        return Unpacked({f"{above}/{name}".lstrip("/"): member}, notes)

    def _decompressed(self, path: str, kind: str, notes: list[str]) -> Member:
        """Unpack a compressed file; where it ends early or is damaged, what comes before that."""
        blob, out = self._new_file()
        with out, _opened(path, kind) as file:
            try:
                self._copy(file, out, path)
            except Exception as error:
                if isinstance(error, TooMuch) or not _is_of_a_library(error):
                    raise
                notes.append(f"ends early or is damaged ({error}): what lies before that is read")
            return Member(blob, 0, out.tell())

    def _of_tar(self, path: str, file: IO[bytes], notes: list[str]) -> dict[str, Member]:
        members: dict[str, Member] = {}
        size = os.fstat(file.fileno()).st_size
        left_out = 0
        file.seek(0)
        try:
            with tarfile.open(fileobj=file, mode="r:", errorlevel=0) as archive:
                for info in archive:
                    name = _inside(info.name)
                    if name is None or not (info.isreg() or info.islnk()):
                        left_out += not info.isdir()
                        continue
                    if info.islnk():
                        target = members.get(_inside(info.linkname) or "")
                        if target is not None:
                            members[name] = target
                        left_out += target is None
                        continue
                    members[name] = self._of_tar_member(path, archive, info, size, notes)
                    self._bound(len(members))
        except (tarfile.TarError, EOFError, ValueError, OverflowError, zlib.error) as error:
            notes.append(f"ends early or is damaged ({error}): what lies before that is read")
        return _noted(members, left_out, notes)

    def _of_tar_member(
        self, path: str, archive: tarfile.TarFile, info: TarInfo, size: int, notes: list[str]
    ) -> Member:
        mtime = int(info.mtime) if int(info.mtime) in _CENTURIES else 0
        if info.issparse():
            self._admit(info.size)
            blob, out = self._new_file()
            with out:
                inner = archive.extractfile(info)
                assert inner is not None
                self._copy(inner, out, info.name)
                return Member(blob, 0, out.tell(), mtime * 10**9)
        there = max(0, min(info.size, size - info.offset_data))
        if there < info.size:
            notes.append(f"{_inside(info.name)} is cut short: {there} of {info.size} bytes")
        return Member(path, info.offset_data, there, mtime * 10**9)

    def _of_zip(self, path: str, file: IO[bytes], notes: list[str]) -> dict[str, Member]:
        members: dict[str, Member] = {}
        left_out = 0
        try:
            archive = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, ValueError, OverflowError, NotImplementedError) as error:
            raise PathError(path, f"is no whole zip file: {error}") from None
        with archive:
            every = archive.infolist()
            self._bound(len(every))
            self._admit(sum(one.file_size for one in every if one.compress_type))
            for info in every:
                name = _inside(info.filename)
                if name is None or info.is_dir() or stat.S_ISLNK(info.external_attr >> 16):
                    left_out += not info.is_dir()
                    continue
                try:
                    members[name] = self._of_zip_member(path, archive, info)
                except TooMuch:
                    raise
                except Exception as error:
                    if not _is_of_a_library(error):
                        raise
                    notes.append(f"{name} is left out: {error}")
        return _noted(members, left_out, notes)

    def _of_zip_member(self, path: str, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Member:
        with archive.open(info) as inner:  # it reads the local header, and refuses what is locked
            if info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & 1:
                # Behind the local header, whose lengths of name and extra need not be those of the
                # directory at the end.
                with open(path, "rb") as file:
                    file.seek(info.header_offset + 26)
                    name, extra = (int.from_bytes(file.read(2), "little") for _ in range(2))
                return Member(path, info.header_offset + 30 + name + extra, info.file_size)
            blob, out = self._new_file()
            with out:
                self._copy(inner, out, info.filename)
                return Member(blob, 0, out.tell())

    def _new_file(self) -> tuple[str, IO[bytes]]:
        self._files += 1
        path = os.path.join(self._directory, f"unpacked-{self._files}")
        return path, open(path, "xb")

    def _copy(self, file: IO[bytes], out: IO[bytes], what: str) -> None:
        # By pieces as they come: of a stream that ends early, read() would lose the last one.
        read = getattr(file, "read1", file.read)
        while block := read(_BLOCK):
            self._total += len(block)
            self._admit(0)
            if block.count(0) == len(block):  # a hole, as a preallocated index has
                out.seek(len(block), os.SEEK_CUR)
                out.truncate()
            else:
                out.write(block)
            self._report(self._total)

    def _admit(self, more: int) -> None:
        total = self._total + more
        if total > self._limit:
            raise TooMuch(f"unpacks to more than {self._limit} bytes; --unpack-limit allows more")
        if more or self._total % (64 * _BLOCK) < _BLOCK:
            free = shutil.disk_usage(self._directory).free
            if free - more < _ROOM_LEFT:
                raise TooMuch(
                    f"unpacks to more than there is room for in {self._directory}; "
                    "TMPDIR names another place"
                )

    def _bound(self, count: int) -> None:
        if count > MOST_MEMBERS:
            raise TooMuch(f"has more than {MOST_MEMBERS} files")


def _inside(name: str) -> str | None:
    """Return a member's name as a path in the archive; None where it leads out of it."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    return None if not parts or ".." in parts or "\0" in name else "/".join(parts)


def _noted(members: dict[str, Member], left_out: int, notes: list[str]) -> dict[str, Member]:
    """Note how much was left out, and leave out what stands where a directory is needed."""
    above = {path.rpartition("/")[0] for path in members}
    for path in list(above):
        while path:
            path = path.rpartition("/")[0]
            above.add(path)
    for path in above & members.keys():
        del members[path]
        left_out += 1
    if left_out:
        notes.append(f"{left_out} links, devices and odd names in it are left out")
    return members


def _opened(path: str, kind: str) -> Any:
    """Open a compressed file for reading what it holds."""
    if kind == "gzip":
        import gzip

        return gzip.open(path)
    if kind == "bzip2":
        import bz2

        return bz2.open(path)
    if kind == "xz":
        import lzma

        return lzma.open(path)
    if kind == "lz4":
        import lz4.frame

        return lz4.frame.open(path)
    import zstandard

    file = open(path, "rb")  # noqa: SIM115
    return zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True, closefd=True)


def _is_of_a_library(error: Exception) -> bool:
    """Whether a library said so of bytes that it could not read."""
    if isinstance(error, OSError):
        return error.errno is None  # gzip's, bz2's; else it is the system's
    return not isinstance(error, (PathError, MemoryError, AssertionError))
