"""What a disk may hold after a crash: a file system that does no more than POSIX promises.

`Disk` stands in for `os` where files are written. Each call goes to the real system, in one real
directory, and is noted: what a file held when it was last flushed and what came since, which names
were flushed with their directory and which came since. `states` are then all directories that a
crash at this moment may leave:

- of the names set, renamed or removed since the directory was flushed, any may be there and any
  not, whatever their order was (a rename is one change);
- of a file changed since it was flushed, the content may be the flushed one, all of the new one,
  its first half, or zeros in its length; and independently its owner, mode, times and attributes
  those at any moment since.

What no flush stands between may come in any order: code that is right here is right on any file
system that keeps what was flushed.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

State = Mapping[str, "Inode"]


class Inode(NamedTuple):
    """One file: what it holds, and whose it is."""

    data: bytes
    mode: int
    owner: tuple[int, int]
    modified_ns: int
    attributes: tuple[tuple[str, bytes], ...] = ()

    @classmethod
    def of(cls, path: str | int, data: bytes) -> Inode:
        status = os.stat(path)  # noqa: PTH116 a descriptor, too
        names = os.listxattr(path) if hasattr(os, "listxattr") else ()
        attributes = tuple((name, os.getxattr(path, name)) for name in sorted(names))
        owner = status.st_uid, status.st_gid
        return cls(data, status.st_mode, owner, status.st_mtime_ns, attributes)


class Disk:
    """The calls of one directory; `at_each_call` is asked after each, with the states possible."""

    def __init__(self, path: Path, at_each_call: Callable[[Disk, str], None]) -> None:
        self.path = path
        self._at_each_call = at_each_call
        self._versions: dict[int, list[Inode]] = {}  # the flushed one first
        self._files: dict[int, int] = {}  # inode numbers of what is open
        self._flushed: dict[str, int] = {}
        self._pending: list[dict[str, int | None]] = []
        self.calls: list[str] = []
        for entry in sorted(path.iterdir()):
            number = entry.stat().st_ino
            self._versions[number] = [Inode.of(str(entry), entry.read_bytes())]
            self._flushed[entry.name] = number

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if not callable(real):
            return real

        def call(*arguments: Any, **named: Any) -> Any:
            result = real(*arguments, **named)
            self.calls.append(name)
            note = getattr(self, f"_note_{name}", None)
            if note is not None:
                note(result, *arguments)
                self._at_each_call(self, name)
            return result

        return call

    def states(self) -> set[tuple[tuple[str, Inode], ...]]:
        """Give every directory that a crash may leave now, as sorted names and files."""
        found: set[tuple[tuple[str, Inode], ...]] = set()
        for kept in itertools.product((False, True), repeat=len(self._pending)):
            names: dict[str, int | None] = dict(self._flushed)
            for change in itertools.compress(self._pending, kept):
                names.update(change)
            there = sorted((name, number) for name, number in names.items() if number is not None)
            numbers = sorted({number for _, number in there})
            for inodes in itertools.product(*(self._possible(number) for number in numbers)):
                held = dict(zip(numbers, inodes, strict=True))
                found.add(tuple((name, held[number]) for name, number in there))
        return found

    def _possible(self, number: int) -> list[Inode]:
        versions = self._versions[number]
        first, last = versions[0].data, versions[-1].data
        contents = {first, last, last[: len(last) // 2], bytes(len(last))}
        if first == last:
            contents = {first}
        return sorted({
            version._replace(data=data) for version in versions for data in contents
        })  # fmt: skip

    def _now(self) -> dict[str, int | None]:
        names: dict[str, int | None] = dict(self._flushed)
        for change in self._pending:
            names.update(change)
        return names

    def _note_open(self, fd: int, path: str, flags: int, *_: Any) -> None:
        number = os.fstat(fd).st_ino  # the same number may have been another file's
        self._files[fd] = number
        if flags & os.O_CREAT:
            self._versions[number] = [Inode.of(fd, b"")]
            self._pending.append({Path(path).name: number})

    def _changed(self, _: Any, fd: int, *__: Any) -> None:
        number = self._files[fd]
        self._versions[number].append(Inode.of(fd, self._content(number)))

    _note_write = _note_fchmod = _note_fchown = _note_utime = _note_setxattr = _changed

    def _content(self, number: int) -> bytes:
        """Read a file, also one that was written to with calls that are not seen here."""
        named = (entry for entry in self.path.iterdir() if entry.stat().st_ino == number)
        return next(named).read_bytes()

    def _note_fsync(self, _: Any, fd: int) -> None:
        number = self._files.get(fd)
        if number in self._versions:
            self._versions[number] = [Inode.of(fd, self._content(number))]
        else:
            assert os.fstat(fd).st_ino == self.path.stat().st_ino, "flushed what is not ours"
            self._flushed = {k: v for k, v in self._now().items() if v is not None}
            self._pending.clear()

    def _note_link(self, _: Any, name: str, other: str) -> None:
        self._pending.append({other: self._now()[name]})

    def _note_rename(self, _: Any, name: str, other: str) -> None:
        self._pending.append({other: self._now()[name], name: None})

    def _note_unlink(self, _: Any, name: str) -> None:
        self._pending.append({name: None})


def write_state(state: tuple[tuple[str, Inode], ...], path: Path) -> Path:
    """Make a directory as a crash left it; names of one file with equal content are links."""
    path.mkdir()
    made: dict[Inode, Path] = {}
    for name, inode in state:
        target = path / name
        if inode in made:
            os.link(made[inode], target)
            continue
        made[inode] = target
        target.write_bytes(inode.data)
        if os.geteuid() == 0:
            os.chown(target, *inode.owner)
        target.chmod(inode.mode & 0o7777)
        os.utime(target, ns=(inode.modified_ns, inode.modified_ns))
    return path


def crash_states(
    path: Path, modules: list[Any], work: Callable[[], object], patch: Callable[..., None]
) -> Iterator[tuple[str, bool, tuple[tuple[str, Inode], ...]]]:
    """Run `work`, and give each state a crash may leave: behind which call, whether it was done.

    The modules make their calls through a name `_os`. A state is given once for each call.
    """
    found: list[tuple[str, bool, tuple[tuple[str, Inode], ...]]] = []

    def note(disk: Disk, call: str) -> None:
        label = f"{len(disk.calls)} {call}"
        found.extend((label, False, state) for state in disk.states())

    disk = Disk(path, note)
    for module in modules:
        patch(module, "_os", disk)
    work()
    for module in modules:
        patch(module, "_os", os)
    found.extend(("the end", True, state) for state in disk.states())
    yield from found


class Tree:
    """Stands in for `os` where a whole tree is written, and knows what of it is not flushed.

    Its states are too many to be listed. But one that is put in place by a single rename is whole
    in every state in which it is there, if nothing under it waits for a flush at that moment: no
    file that was written to, no directory in which a name was made, renamed or removed.
    """

    def __init__(self, at_rename: Callable[[Tree, str, str], None]) -> None:
        self._at_rename = at_rename
        self._waiting: set[int] = set()  # inode numbers
        self.calls: list[str] = []

    def waits(self, path: Path) -> list[Path]:
        """List what under a path, itself included, a crash may take back or leave in part."""
        return [each for each in (path, *path.rglob("*")) if each.stat().st_ino in self._waiting]

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if not callable(real):
            return real

        def call(*arguments: Any, **named: Any) -> Any:
            if name == "rename":
                self._at_rename(self, *arguments[:2])
            result = real(*arguments, **named)
            self.calls.append(name)
            if name == "fsync":
                self._waiting.discard(os.fstat(arguments[0]).st_ino)
            elif name in ("write", "fchmod", "fchown", "utime", "setxattr"):
                self._waiting.add(os.fstat(arguments[0]).st_ino)
            elif name == "open" and arguments[1] & os.O_CREAT:
                self._waiting.add(os.fstat(result).st_ino)
            if name in ("mkdir", "rename", "link", "unlink") or (
                name == "open" and arguments[1] & os.O_CREAT
            ):
                directories = (value for key, value in named.items() if key.endswith("dir_fd"))
                self._waiting.update(os.fstat(fd).st_ino for fd in directories)
            return result

        return call
