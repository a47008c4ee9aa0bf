"""Blocks of directories, as file systems write them."""

import struct


def ext4_block(entries: list[tuple[int, bytes]], deleted: frozenset[int] = frozenset()) -> bytes:
    """A directory block; the entry before a deleted one has a length that skips it."""
    sizes = [(8 + len(name) + 3) // 4 * 4 for _, name in entries]
    block, at = bytearray(4096), 0
    for number, (inode, name) in enumerate(entries):
        length, behind = sizes[number], number + 1
        while behind < len(entries) and behind in deleted:
            length += sizes[behind]
            behind += 1
        if behind == len(entries):
            length = 4096 - at
        kind = 2 if b"." not in name or name in (b".", b"..") else 1
        struct.pack_into(f"<IHBB{len(name)}s", block, at, inode, length, len(name), kind, name)
        at += sizes[number]
    return bytes(block)
