"""Names for carved groups, proposed by what directory blocks in an image say."""

import struct
from pathlib import Path

import builders
import commands
import imaging
from directory_blocks import ext4_block

from kdump.engine.salvage.options import read_topic_map
from kdump.storage.directory_blocks import read_block, read_inode

TIME = 1_700_000_000_000


def xfs_block(entries: list[tuple[int, bytes]]) -> bytes:
    block, at = bytearray(b"XDB3" + bytes(4092)), 64
    for inode, name in entries:
        struct.pack_into(f">QB{len(name)}sB", block, at, inode, len(name), name, 1)
        size = (8 + 1 + len(name) + 1 + 2 + 7) // 8 * 8
        struct.pack_into(">H", block, at + size - 2, at)
        at += size
    return bytes(block)


def test_names_are_read_from_directory_blocks() -> None:
    names = [b".", b"..", b"%020d.log" % 0, b"%020d.index" % 0, b"%020d.log" % 7, b"x.log"]
    names.append(b"%020d.snapshot" % 12)
    entries = [(number + 11, name) for number, name in enumerate(names)]
    for block in (ext4_block(entries, frozenset({4, 6})), xfs_block(entries)):
        found = read_block(block)
        assert found is not None
        assert (found.inode, found.logs, found.snapshots) == (11, {0, 7}, {12})
    parent = [(2, b"."), (2, b".."), (11, b"orders-7"), (12, b"plain"), (13, b"a-1.5-delete")]
    parent.append((14, b"b-1." + b"0a" * 16 + b"-delete"))
    for block in (ext4_block(parent), xfs_block(parent)):
        found = read_block(block)
        assert found is not None
        assert found.directories == {11: "orders-7", 14: parent[-1][1].decode()}
    assert read_block(bytes(4096)) is None
    assert read_block(b"\xff" * 4096) is None


def xfs_inode(number: int, entries: list[tuple[int, bytes]], mode: int) -> bytes:
    """A small directory of xfs, as mkfs.xfs writes it into the inode."""
    inode = bytearray(512)
    struct.pack_into(">2sHBB", inode, 0, b"IN", mode, 3, 1)
    struct.pack_into(">Q", inode, 152, number)
    short = struct.pack(">BBI", len(entries), 0, 128)
    for at, (other, name) in enumerate(entries):
        short += struct.pack(">BH", len(name), 96 + 24 * at) + name + struct.pack(">BI", 1, other)
    inode[176 : 176 + len(short)] = short
    return bytes(inode)


def test_names_are_read_from_inodes_of_small_directories() -> None:
    for mode in (0o40755, 0):
        found = read_inode(xfs_inode(9, [(11, b"orders-0"), (12, b"orders-1")], mode))
        assert found is not None
        assert (found.inode, found.directories) == (9, {11: "orders-0", 12: "orders-1"})
        files = [(13, b"%020d.log" % 5), (14, b"%020d.snapshot" % 8)]
        found = read_inode(xfs_inode(11, files, mode))
        assert found is not None
        assert (found.inode, found.logs, found.snapshots) == (11, {5}, {8})
    assert read_inode(xfs_inode(9, [(11, b"orders-0")], 0o100644)) is None
    assert read_inode(b"IN" + bytes(510)) is None


def write_partition(directory: Path, bases: list[int], end: int, key: bytes) -> None:
    directory.mkdir(parents=True)
    for base, behind in zip(bases, [*bases[1:], end], strict=True):
        log = b"".join(
            builders.batch(
                [builders.record(key=key, value=b"v" * 40)],
                base_offset=offset,
                base_timestamp=TIME + offset,
                attributes=1,
                compress=builders.gzip_bytes,
            )
            for offset in range(base, behind)
        )
        (directory / f"{base:020}.log").write_bytes(log)
    (directory / f"{end:020}.snapshot").write_bytes(b"\0" * 10)


def test_proposed_map_can_be_used_as_input(tmp_path: Path) -> None:
    folder, image, proposed = tmp_path / "folder", tmp_path / "a.img", tmp_path / "map"
    write_partition(folder / "d1" / "orders-0", [0, 20], 31, b"one")
    write_partition(folder / "d1" / "orders-1", [0, 22], 45, b"two")
    write_partition(folder / "d1" / "users-3", [60], 70, b"three")
    imaging.ext4(image, folder, 8)
    imaging.ext4_again(image)
    words = ["carve", "--format", "jsonl"]
    run = commands.run(*words, "--propose-map", proposed, image)
    assert f"kdump: wrote {proposed}, 3 groups" in run.stderr
    assert sorted(read_topic_map(str(proposed)).values()) == ["orders-0", "orders-1", "users-3"]
    text = proposed.read_text()
    assert "logs begin at 0, 22; keys as two" in text
    assert "gzip; from 2023-11-14T22:13:20.000Z to 2023-11-14T22:13:20.044Z" in text
    assert "# proposed by 2 base offsets of logs and the log end" in text
    back = commands.run(*words, "--topic-map", proposed, image)
    for name in ("orders", "users"):
        assert f'"topic":"{name}"' in back.stdout
    assert '"named_by":"topic-map"' in back.stdout
    again = commands.run(*words, "--propose-map", proposed, image)
    assert again.exit_code == 5  # what is there was perhaps edited
    assert proposed.read_text() == text


def test_proposal_needs_images(tmp_path: Path) -> None:
    run = commands.run("salvage", "--propose-map", "x", tmp_path)
    assert run.exit_code == 2
