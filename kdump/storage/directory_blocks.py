"""Read names out of the directory blocks of ext4 and xfs, wherever such a block lies in an image.

A block is read without the file system around it, so copies in a journal and blocks of deleted
directories count, too. Entries are looked for one by one: the chain of lengths skips deleted ones.
"""

from __future__ import annotations

import re
import struct

from kdump.tuples import NamedTuple

BLOCK, INODE = 4096, 512
_EXT4 = struct.Struct("<IHBB")  # inode, length of the entry, of the name, type
_XFS = struct.Struct(">QB")  # inode, length of the name
_XFS_INODE = struct.Struct(">2sHB")  # magic, mode, version
_VERSION, _DIRECTORY_MODE = 3, 4
_INODE_AT, _SHORT_AT = 152, 176  # in an inode: its own number, and what a small directory has
_XFS_MAGICS = (b"XD2B", b"XDB3", b"XD2D", b"XDD3")
_FILE = re.compile(rb"(\d{20})\.(log|index|timeindex|txnindex|snapshot)(?:\.deleted)?\Z")
_DIRECTORY = re.compile(rb"[A-Za-z0-9._-]{1,249}-(?:0|[1-9]\d{0,8})(?:\.[0-9a-f]{32}-\w+)?\Z")
_LONGEST = 255


class DirectoryBlock(NamedTuple):
    """What one block says: its directory's own inode (0: it does not), and its entries.

    `logs` are base offsets of logs, `snapshots` the offsets in names of producer snapshots;
    `directories` are names of partition directories by their inodes.
    """

    inode: int
    logs: frozenset[int]
    snapshots: frozenset[int]
    directories: dict[int, str]


def may_be_directory(data: bytes, at: int) -> bool:
    """Whether a block may be one of a directory, by its first bytes."""
    _, length, size, kind = _EXT4.unpack_from(data, at)  # no inode: the first was deleted
    fits = 8 + size <= length <= BLOCK and not length % 4
    return (fits and size > 0 and kind in (1, 2)) or data[at : at + 4] in _XFS_MAGICS


def read_block(block: bytes) -> DirectoryBlock | None:
    """Read one block; None where it holds no entry of a broker's."""
    return _make_block(_xfs(block) if block[:4] in _XFS_MAGICS else _ext4(block))


def read_inode(inode: bytes) -> DirectoryBlock | None:
    """Read a small directory that xfs keeps in its inode; None where none of a broker's is there.

    The mode is 0 in the inode of a deleted one.
    """
    if len(inode) < INODE or not may_be_inode(inode, 0):
        return None
    count, wide = inode[_SHORT_AT : _SHORT_AT + 2]
    size = 8 if wide else 4
    at = _SHORT_AT + 2 + size
    entries = [(int.from_bytes(inode[_INODE_AT : _INODE_AT + 8], "big"), b".")]
    for _ in range(count):
        length = inode[at] if at < INODE else 0
        name, behind = inode[at + 3 : at + 3 + length], at + 4 + length + size
        if not length or behind > INODE:
            break
        entries.append((int.from_bytes(inode[behind - size : behind], "big"), name))
        at = behind
    return _make_block(entries)


def may_be_inode(data: bytes, at: int) -> bool:
    """Whether a sector may be an inode of xfs that is, or was, a directory."""
    magic, mode, version = _XFS_INODE.unpack_from(data, at)
    return magic == b"IN" and version == _VERSION and mode >> 12 in (0, _DIRECTORY_MODE)


def _make_block(entries: list[tuple[int, bytes]]) -> DirectoryBlock | None:
    own, logs, snapshots, directories = 0, set(), set(), {}
    for inode, name in entries:
        if name == b".":
            own = own or inode
        elif found := _FILE.match(name):
            offset = int(found[1])
            if found[2] == b"log":
                logs.add(offset)
            elif found[2] == b"snapshot":
                snapshots.add(offset)
        elif _DIRECTORY.match(name):
            directories[inode] = name.decode()
    if not (logs or snapshots or directories):
        return None
    return DirectoryBlock(own, frozenset(logs), frozenset(snapshots), directories)


def _ext4(block: bytes) -> list[tuple[int, bytes]]:
    found = []
    for at in range(0, len(block) - _EXT4.size, 4):
        inode, length, size, kind = _EXT4.unpack_from(block, at)
        if kind not in (1, 2) or not inode or not size or length % 4 or length < 8 + size:
            continue
        name = block[at + 8 : at + 8 + size]
        if length <= BLOCK - at and len(name) == size:
            found.append((inode, name))
    return found


def _xfs(block: bytes) -> list[tuple[int, bytes]]:
    found = []
    for at in range(16, len(block) - _XFS.size, 8):
        inode, size = _XFS.unpack_from(block, at)
        name = block[at + 9 : at + 9 + size]
        # Its place in the block stands behind each entry.
        if inode and 0 < size <= _LONGEST and len(name) == size and inode < 1 << 56:
            found.append((inode, name))
    return found
