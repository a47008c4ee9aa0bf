"""Write results to a file that appears only when it is complete.

Nothing is created to find out. What changes while the run goes on is reported when the file is
written.
"""

from __future__ import annotations

import io
import os
import re
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Literal, cast

from kdump.errors import PathError, UsageError, path_errors
from kdump.output.stream import ByteStream
from kdump.storage.evidence import refuse_among_evidence, refuse_replacing
from kdump.stores.uris import is_uri, normal
from kdump.writing import NewFile, flush_directory, open_directory


def need_writable(path: str, option: str) -> None:
    """Raise unless a file can be written at `path`; what is there and is no file is written to."""
    named = f"{option} {path}"
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG
    except (OSError, ValueError) as error:
        raise _refusal(named, error) from error
    if stat.S_ISDIR(mode):
        raise PathError(named, "is a directory")
    if stat.S_ISREG(mode):
        _need_directory(named, os.path.dirname(os.path.realpath(path)))
    elif not _may(path, os.W_OK):
        raise PathError(named, "is not writable")


def need_writable_directory(path: str, option: str) -> None:
    """Raise unless a directory can be written into, or made with those above it."""
    if is_uri(path):
        return
    above = os.path.abspath(path)
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    _need_directory(f"{option} {path}", above)


def _need_directory(named: str, directory: str) -> None:
    try:
        found = stat.S_ISDIR(os.stat(directory).st_mode)
    except (OSError, ValueError) as error:
        raise _refusal(named, error, f"{directory}: ") from error
    if not found:
        raise PathError(named, f"{directory} is not a directory")
    if not _may(directory, os.W_OK | os.X_OK):
        raise PathError(named, f"no permission to write in {directory}")


def _may(path: str, mode: int) -> bool:
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def _refusal(named: str, error: OSError | ValueError, where: str = "") -> PathError:
    return PathError(named, where + (getattr(error, "strerror", None) or str(error)))


#: TOPIC-PARTITION, perhaps with what a broker appends on the way to deletion or to another disk.
_PARTITION_DIRECTORY = re.compile(r".+-\d+(\..+)?")
#: Files that a process was given open, by name.
_GIVEN_OPEN = re.compile(r"/dev/(stdout|stderr)|(?:/dev/fd|/proc/self/fd)/([0-9]{1,9})")


class OutputFile:
    """A file written under a temporary name beside its own and renamed when it is complete.

    What is there and is no regular file (a pipe, /dev/null) is written to directly, and so is what
    this process was given open (/dev/stdout).
    """

    has_kinds: Literal[False] = False

    def __init__(self, path: str, option: str = "--output") -> None:
        refuse_among_evidence(path, option)
        self.path = path
        #: What has content there, and would be replaced.
        self.has_old = _has_content(path)
        self.is_new_file = False
        self.before_drop: Callable[[], object] | None = None
        self._new: NewFile | None = None
        self._directory = -1
        try:
            self.file: BinaryIO = self._open(path)
        except OSError as error:
            self._close_directory()
            raise PathError.from_os(path, error) from error
        except ValueError as error:  # a null character
            raise PathError(path, str(error)) from error
        self.stream = ByteStream(self.file, path)

    def _open(self, path: str) -> BinaryIO:
        given = _open_file_number(path)
        if given is not None:
            return cast("BinaryIO", io.FileIO(os.dup(given), "wb"))
        try:
            there: os.stat_result | None = os.stat(path)
        except FileNotFoundError:
            there = None
        if there is not None and not stat.S_ISREG(there.st_mode):
            return cast("BinaryIO", io.FileIO(path, "wb"))
        parent, self._name = os.path.split(os.path.realpath(path))  # a link stays a link
        self._directory = open_directory(parent)
        mode = 0o666 if there is None else 0o600
        self.is_new_file = True
        self._new = NewFile(self._directory, f".kdump-{os.urandom(8).hex()}", mode=mode)
        return cast("BinaryIO", io.FileIO(self._new.fd, "wb", closefd=False))

    def keep(self) -> None:
        """Close the file and give it its name."""
        self.stream.flush()
        with path_errors(self.path):
            self.file.close()
            if self._new is not None:
                self._put_in_place(self._new)

    def _put_in_place(self, new: NewFile) -> None:
        with suppress(FileNotFoundError):
            new.be_like(self._name, timed=False, owned=False)
        new.seal()
        new.rename(self._name)
        flush_directory(self._directory)
        self._close_directory()

    def drop(self) -> None:
        """Close the file and leave nothing behind."""
        if self.before_drop is not None:
            self.before_drop()
        with suppress(OSError):  # nothing of it is wanted
            self.file.close()
        if self._new is not None:
            self._new.drop()
        self._close_directory()

    def _close_directory(self) -> None:
        if self._directory >= 0:
            directory, self._directory = self._directory, -1
            os.close(directory)


def content_before(path: str, limit: int) -> bytes | None:
    """Read what a file holds that will be written anew, up to a limit.

    None where there is none, or what is no file: a device may have no end.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return None
        with open(path, "rb") as file:
            return file.read(limit)
    except FileNotFoundError:
        return None


def text_before(path: str) -> str:
    """Read what a small file of text holds until it is written anew; nothing where it cannot be."""
    try:
        return (content_before(path, 1 << 20) or b"").decode("utf-8", "replace")
    except OSError:
        return ""


def write_whole(path: str, pieces: Iterable[bytes], option: str = "--output") -> None:
    """Write a file beside its place and rename it: no reader ever sees half of one."""
    file = OutputFile(path, option)
    try:
        for piece in pieces:
            file.stream.write(piece)
        file.keep()
    except BaseException:
        file.drop()
        raise


def _open_file_number(path: str) -> int | None:
    """Return the number of an open file that a path stands for, if it is one of this process."""
    found = _GIVEN_OPEN.fullmatch(path)
    if found is None:
        return None
    return int(found[2]) if found[2] else {"stdout": 1, "stderr": 2}[found[1]]


def prepare_output(
    path: str,
    inputs: Iterable[str],
    option: str = "--output",
    *,
    force: bool = False,
    is_ours: Callable[[bytes], object] | None = None,
) -> None:
    """Raise, before anything is read, where a file may not or cannot be written."""
    refuse_number(path, option)
    refuse_store(path, option)
    refuse_among_evidence(path, option)
    refuse_input_as_output(path, inputs, option)
    need_writable(path, option)
    if _open_file_number(path) is None:
        refuse_replacing(path, option, force=force, is_ours=is_ours)


def refuse_number(path: str, option: str = "--output") -> None:
    """Raise where a name is a number: `-o` of other tools for Kafka is an offset."""
    if re.fullmatch("-?[0-9]+", path):
        raise UsageError(
            f"{option} {path}: names a file, not an offset: to start at an offset, use "
            f"--from-offset {path}; for a file of that name, {option} ./{path}"
        )


def refuse_store(output: str, option: str) -> None:
    """Raise where a single file would be written to a store."""
    if is_uri(output):
        raise UsageError(
            f"{option} {output}: is in a store; kdump can write there only a directory of "
            "Parquet files (--format parquet --output URI/)"
        )


def _has_content(path: str) -> bool:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size > 0


def refuse_input_as_output(output: str, inputs: Iterable[str], option: str = "--output") -> None:
    """Raise where writing `output` would change what is being looked at.

    Nothing is written into a directory that is read, nor beside a file of a partition directory.
    """
    refuse_store(output, option)
    target = Path(os.path.realpath(output))
    for path in inputs:
        if is_uri(path):
            continue
        read = Path(os.path.realpath(path))
        if target == read or _same_file(target, read):
            raise UsageError(f"{option} {output}: is also an input file")
        if os.path.isdir(read):  # what may not be entered is reported when it is read
            inside = read in target.parents
        else:
            inside = target.parent == read.parent and bool(
                _PARTITION_DIRECTORY.fullmatch(read.parent.name)
            )
        if inside:
            raise UsageError(
                f"{option} {output}: is inside an input directory; choose a path outside it"
            )


def refuse_store_as_output(output: str, inputs: Iterable[str]) -> None:
    """Raise where a directory of a store to be written to lies in one that is read."""
    inside = normal(output).rstrip("/") + "/"
    for path in inputs:
        if is_uri(path) and inside.startswith(normal(path).rstrip("/") + "/"):
            raise UsageError(
                f"--output {output}: is inside an input directory; choose a path outside it"
            )


def _same_file(first: Path, second: Path) -> bool:
    try:
        return first.samefile(second)
    except OSError:
        return False
