"""Make a view of an archive or a compressed file: what lies in it, and where.

A member that lies in the archive as it is is read there. All else is unpacked to one file of a
temporary directory, end to end, so that no name out of an archive is ever a name on this machine's
disks. How much that may be is bounded, and checked against the room there is.
"""

from __future__ import annotations

import os
import shutil
import stat
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import IO, Any

from kdump.errors import PathError
from kdump.stores.quiet_open import open_quietly
from kdump.stores.tar import Entry, TarDamage, entries
from kdump.stores.view_store import TABLE, Member, add_view, pack_views, stat_of
from kdump.stores.xz import MEMORY, XzFile
from kdump.tuples import NamedTuple

#: Entries of one archive. A broker has some hundred thousand files.
MOST_MEMBERS = 300_000
#: Characters of all paths and of the folders above them, which a listing keeps as well.
MOST_CHARACTERS = 120_000_000
_MOST_PROBLEMS = 1000  # entries that are left out, each with a line
_LONGEST_PATH = 4096  # characters; as on Linux
_DEEPEST_PATH = 64
#: So much an archive may unpack to where no limit is given: bytes, or times its own size.
_SMALL, _TIMES = 2 << 30, 1000
_STREAM = 1 << 40  # bytes of standard input, which is copied as it is
_BLOCK = 1 << 20
_ZEROS = bytes(_BLOCK)
_TEMPORARY = getattr(os, "O_TMPFILE", 0)
_LENT = "/proc"  # where the open files of a process have paths
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


class UnpackedArchive(NamedTuple):
    """The files of an archive by their paths in it.

    `notes` say what was left out, `problems` what could not be read, so that there is more.
    """

    members: dict[str, Member]
    notes: list[str]
    problems: list[str]


class TooLargeError(Exception):
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

    All of it has one `limit`, however many archives it comes from. Without one each may become a
    thousand times as large as it is, or a few GiB if that is more: so does what is mostly zeros.
    """

    def __init__(
        self,
        directory: str,
        limit: int | None,
        report: Callable[[int], None],
        most_open: int | None = None,
    ) -> None:
        """`most_open`: more files than that have names, and do not stay open."""
        self._directory = directory
        self._is_limited = limit is not None
        self._limit = limit or 0
        self._report = report
        self._files = 0
        self._held: list[int] = []
        self._nameless = os.sysconf("SC_OPEN_MAX") // 2 if os.path.isdir(_LENT) else 0
        if most_open is not None:
            self._nameless = min(self._nameless, most_open)
        self._total = 0

    def view_of(self, path: str) -> UnpackedArchive | None:
        """Say what lies in an archive or a compressed file; None where it is neither."""
        try:
            with open(path, "rb", opener=open_quietly) as file:
                kind = kind_of(file.read(_HEAD))
                if kind is None:
                    return None
                found = stat_of(file)
                if not self._is_limited:
                    self._limit += max(_SMALL, found.size * _TIMES)
                return self._view(path, file, kind, found)
        except TooLargeError as error:
            raise PathError(path, str(error)) from None
        except OSError as error:
            raise PathError.from_os(path, error) from error

    def publish(self, root: str, members: dict[str, Member], problems: Sequence[str] = ()) -> None:
        """Make a view known here and, by a table beside what was unpacked, to worker processes."""
        add_view(root, members, problems)
        table, out = self._new_file()
        with out:
            out.write(pack_views())
        os.environ[TABLE] = table

    def spool(self, file: IO[bytes], what: str) -> Member:
        """Copy all of a stream to a file of its own."""
        blob, out = self._new_file()
        if not self._is_limited:
            self._limit += _STREAM
        with out:
            self._copy(file, out, what)
            if not self._is_limited:
                self._limit = self._total
            return Member(blob, 0, out.tell())

    def _view(self, path: str, file: IO[bytes], kind: str, found: Member) -> UnpackedArchive:
        notes: list[str] = []
        problems: list[str] = []
        if kind == "zip":
            return UnpackedArchive(self._of_zip(path, file, notes, problems), notes, problems)
        if kind == "tar":
            return UnpackedArchive(self._of_tar(path, file, notes, problems), notes, problems)
        member = self._decompress(path, kind, problems)._replace(mtime_ns=found.mtime_ns)
        with open(member.file, "rb") as inner:
            if kind_of(inner.read(_HEAD)) == "tar":
                members = self._of_tar(member.file, inner, notes, problems)
                return UnpackedArchive(members, notes, problems)
        above = os.path.basename(os.path.dirname(os.path.abspath(path)))
        name = os.path.basename(path)
        for ending in _ENDINGS:
            name = name.removesuffix(ending)
        return UnpackedArchive({f"{above}/{name}".lstrip("/"): member}, notes, problems)

    def _decompress(self, path: str, kind: str, problems: list[str]) -> Member:
        """Unpack a compressed file; where it ends early or is damaged, what comes before that."""
        blob, out = self._new_file()
        before = self._total
        readers = _readers(kind)
        with out:
            for reader in readers:
                try:
                    with open(path, "rb", opener=open_quietly) as packed, reader(packed) as file:
                        self._copy(file, out, path)
                    break
                except TooLargeError as error:
                    problems.append(f"{error}; reading what comes before it")
                    break
                except Exception as error:
                    if not _is_of_a_library(error):
                        raise
                    if reader is readers[-1]:
                        words = f"ends early or is damaged ({error}); reading what comes before"
                        problems.append(words)
                    else:
                        self._total = before
                        out.seek(0)
                        out.truncate()
            return Member(blob, 0, out.tell())

    def _of_tar(
        self, path: str, file: IO[bytes], notes: list[str], problems: list[str]
    ) -> dict[str, Member]:
        members: dict[str, Member] = {}
        size = os.fstat(file.fileno()).st_size
        left_out = count = characters = 0
        try:
            for entry in entries(file.fileno()):
                count += 1
                characters += _characters(entry.name)
                _check_bounds(count, characters, problems)
                name = _safe_path(entry.name)
                linked = None if entry.link is None else members.get(_safe_path(entry.link) or "")
                if name is None or not (entry.is_file or linked):
                    left_out += not entry.is_directory
                    if why := _exceeded_bound(entry.name):
                        problems.append(f"the entry at byte {entry.position:,} {why}: left out")
                elif linked is not None:
                    members[name] = linked
                else:
                    members[name] = self._of_tar_member(path, file, entry, size, problems)
        except (TarDamage, TooLargeError) as error:
            problems.append(f"{error}; reading what comes before it")
        return _note_omitted(members, left_out, notes)

    def _of_tar_member(
        self, path: str, file: IO[bytes], entry: Entry, size: int, problems: list[str]
    ) -> Member:
        mtime_ns = entry.mtime * 10**9 if entry.mtime in _CENTURIES else 0
        if entry.pieces is not None:
            self._total += entry.size
            self._admit(0)
            blob, out = self._new_file()
            with out:
                for piece in entry.pieces:
                    out.seek(piece.offset)
                    for at in range(0, piece.size, _BLOCK):
                        read = min(_BLOCK, piece.size - at)
                        out.write(os.pread(file.fileno(), read, piece.start + at))
                out.truncate(entry.size)  # what is not stored is a hole
            return Member(blob, 0, entry.size, mtime_ns)
        there = max(0, min(entry.size, size - entry.start))
        if there < entry.size:
            problems.append(f"{_safe_path(entry.name)} is cut short: {there} of {entry.size} bytes")
        return Member(path, min(entry.start, size), there, mtime_ns)

    def _of_zip(
        self, path: str, file: IO[bytes], notes: list[str], problems: list[str]
    ) -> dict[str, Member]:
        members: dict[str, Member] = {}
        left_out = 0
        try:
            archive = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, ValueError, OverflowError, NotImplementedError) as error:
            raise PathError(path, f"is not a complete zip file: {error}") from None
        with archive:
            every = archive.infolist()
            _check_bounds(len(every), sum(_characters(one.filename) for one in every), problems)
            self._admit(sum(one.file_size for one in every if one.compress_type))
            for info in every:
                if len(problems) > _MOST_PROBLEMS:
                    problems.append(f"reading what comes before {info.filename}")
                    break
                name = _safe_path(info.filename)
                if name is None or info.is_dir() or stat.S_ISLNK(info.external_attr >> 16):
                    left_out += not info.is_dir()
                    if why := _exceeded_bound(info.filename):
                        problems.append(f"the entry at byte {info.header_offset:,} {why}: left out")
                    continue
                try:
                    members[name] = self._of_zip_member(path, archive, info)
                except TooLargeError as error:
                    problems.append(f"{error}: reading what comes before {name}")
                    break
                except Exception as error:
                    if not _is_of_a_library(error):
                        raise
                    problems.append(f"{name} is left out: {error}")
        return _note_omitted(members, left_out, notes)

    def _of_zip_member(self, path: str, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Member:
        if info.compress_type == zipfile.ZIP_LZMA:
            _check_dictionary(path, info)
        with archive.open(info) as inner:  # it reads the local header, and refuses what is locked
            if info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & 1:
                # Behind the local header, whose lengths of name and extra need not be those of the
                # directory at the end.
                with open(path, "rb", opener=open_quietly) as file:
                    file.seek(info.header_offset + 26)
                    name, extra = (int.from_bytes(file.read(2), "little") for _ in range(2))
                    start = info.header_offset + 30 + name + extra
                    if start + info.file_size > os.fstat(file.fileno()).st_size:
                        raise zipfile.BadZipFile("it reaches beyond the end of the archive")
                return Member(path, start, info.file_size)
            blob, out = self._new_file()
            with out:
                self._copy(inner, out, info.filename)
                return Member(blob, 0, out.tell())

    def _new_file(self) -> tuple[str, IO[bytes]]:
        """Make a file for what is unpacked; it has no name, and a path that this process lends."""
        self._files += 1
        if self._files <= self._nameless:
            try:
                held = _without_name(self._directory)
                self._held.append(held)
                return f"{_LENT}/{os.getpid()}/fd/{held}", os.fdopen(os.dup(held), "wb")
            except OSError:  # no such files there, or too many: a name in a directory of our own
                self._nameless = 0
        path = os.path.join(self._directory, f"unpacked-{os.urandom(8).hex()}")
        return path, open(path, "xb")

    def _copy(self, file: IO[bytes], out: IO[bytes], what: str) -> None:
        # By pieces as they come: of a stream that ends early, read() would lose the last one.
        read = getattr(file, "read1", file.read)
        while block := read(_BLOCK):
            self._total += len(block)
            self._admit(0)
            if block == _ZEROS[: len(block)]:  # a hole, as a preallocated index has
                out.seek(len(block), os.SEEK_CUR)
                out.truncate()
            else:
                out.write(block)
            self._report(self._total)

    def _admit(self, more: int) -> None:
        total = self._total + more
        if total > self._limit:
            raise TooLargeError(
                f"unpacks to more than {self._limit} bytes; --unpack-limit allows more"
            )
        if more or self._total % (64 * _BLOCK) < _BLOCK:
            free = shutil.disk_usage(self._directory).free
            if free - more < _ROOM_LEFT:
                raise TooLargeError(
                    f"unpacks to more than the free space in {self._directory}; set TMPDIR to "
                    "another directory"
                )


def _check_bounds(count: int, characters: int, problems: list[str]) -> None:
    if count > MOST_MEMBERS:
        raise TooLargeError(f"has more than {MOST_MEMBERS:,} entries")
    if characters > MOST_CHARACTERS:
        raise TooLargeError(f"has too many long paths (at entry {count:,})")
    if len(problems) > _MOST_PROBLEMS:
        raise TooLargeError(f"has more than {_MOST_PROBLEMS:,} entries that cannot be read")


def _characters(name: str) -> int:
    """Count the characters that a path takes in a listing; one too long is not listed."""
    return 0 if _exceeded_bound(name) else len(name) * (1 + name.count("/")) // 2


def _exceeded_bound(name: str) -> str | None:
    """Say which bound of paths a name is beyond; None where it is beyond none."""
    if len(name) > _LONGEST_PATH:
        return f"has a path of {len(name):,} characters ({_LONGEST_PATH:,} at most)"
    if name.count("/") > _DEEPEST_PATH:
        return f"has a path of {name.count('/'):,} levels ({_DEEPEST_PATH} at most)"
    return None


def _without_name(directory: str) -> int:
    """Make a file that no directory lists; it goes with the last who has it open."""
    mode = os.O_RDWR | os.O_CLOEXEC
    try:
        if _TEMPORARY:
            return os.open(directory, mode | _TEMPORARY, 0o600)
    except OSError:  # not every file system has such files
        pass
    path = os.path.join(directory, f"unpacked-{os.urandom(8).hex()}")
    held = os.open(path, mode | os.O_CREAT | os.O_EXCL, 0o600)
    os.unlink(path)
    return held


def _safe_path(name: str) -> str | None:
    """Return a member's name as a path in the archive; None where it leads out of it."""
    if _exceeded_bound(name) is not None:
        return None
    parts = [part for part in name.split("/") if part not in ("", ".")]
    return None if not parts or ".." in parts or "\0" in name else "/".join(parts)


def _check_dictionary(path: str, info: zipfile.ZipInfo) -> None:
    """Refuse a member compressed by LZMA whose dictionary takes too much memory."""
    with open(path, "rb", opener=open_quietly) as file:
        file.seek(info.header_offset + 26)
        name, extra = (int.from_bytes(file.read(2), "little") for _ in range(2))
        # Behind the local header: version, size of the properties, one byte, the dictionary's size.
        file.seek(info.header_offset + 30 + name + extra + 5)
        if int.from_bytes(file.read(4), "little") > MEMORY:
            words = f"it claims a dictionary of more than {MEMORY >> 20} MiB"
            raise zipfile.BadZipFile(words)


def _note_omitted(members: dict[str, Member], left_out: int, notes: list[str]) -> dict[str, Member]:
    """Note how much was omitted, and omit files in place of a directory."""
    above = {path.rpartition("/")[0] for path in members}
    for path in list(above):
        while path:
            path = path.rpartition("/")[0]
            above.add(path)
    for path in above & members.keys():
        del members[path]
        left_out += 1
    if left_out:
        notes.append(f"{left_out} links, devices, and unusable names in it were skipped")
    return members


def _readers(kind: str) -> list[Callable[[IO[bytes]], Any]]:
    """Return what opens a compressed file; of several, the next where one finds it damaged.

    Of gzip isal is ten times faster. Of a damaged file it loses more of the end than zlib does.
    """
    if kind == "gzip":
        import gzip

        with suppress(ImportError):
            from isal import igzip

            return [igzip.open, gzip.open]
        return [gzip.open]
    if kind == "bzip2":
        import bz2

        return [bz2.open]
    if kind == "xz":
        return [XzFile]
    if kind == "lz4":
        import lz4.frame

        return [lz4.frame.open]
    import zstandard

    reader = zstandard.ZstdDecompressor().stream_reader
    return [partial(reader, read_across_frames=True, closefd=False)]


def _is_of_a_library(error: Exception) -> bool:
    """Whether a library said so of bytes that it could not read."""
    if isinstance(error, OSError):
        return error.errno is None  # gzip's, bz2's; else it is the system's
    return not isinstance(error, (PathError, MemoryError, AssertionError))


@cache
def scratch_directory() -> str:
    """Make the directory for what is unpacked; it goes when this process ends, also by a signal."""
    import atexit
    import shutil
    import tempfile

    directory, process = tempfile.mkdtemp(prefix="kdump-"), os.getpid()

    def remove() -> None:
        if os.getpid() == process:
            shutil.rmtree(directory, ignore_errors=True)

    atexit.register(remove)
    return directory
