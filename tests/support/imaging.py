"""Images of file systems with logs in them, whose files are then deleted.

No image is mounted: mkfs fills it from a folder, and debugfs or mkfs, once more, deletes. What can
be had of an image is told from its bytes and those of the logs, not by kdump.
"""

import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

SECTOR = 512
_ZEROS = bytes(SECTOR)


def _run(*command: object, told: str = "") -> str:
    program = shutil.which(str(command[0]), path="/usr/sbin:/sbin:/usr/bin:/bin")
    if program is None:
        pytest.skip(f"{command[0]} is not here")
    done = subprocess.run(
        [program, *map(str, command[1:])], input=told, capture_output=True, text=True, check=True
    )
    return done.stdout


def ext4(image: Path, folder: Path, mib: int) -> None:
    """Make a file system of a folder; a block is 4 KiB, as on disks that brokers have."""
    image.unlink(missing_ok=True)
    _run("mkfs.ext4", "-q", "-F", "-b", 4096, "-d", folder, image, f"{mib}M")


def ext4_again(image: Path) -> None:
    """Make an empty file system over the one that is there."""
    _run("mkfs.ext4", "-q", "-F", "-b", 4096, "-E", "nodiscard", image)


def delete_below(image: Path, folder: Path) -> None:
    """Delete all files below a folder, as rm -r does."""
    paths = sorted(folder.rglob("*"), reverse=True)
    names = [(path.relative_to(folder), path.is_dir()) for path in paths]
    _debugfs(image, [f'{"rmdir" if is_dir else "rm"} "/{name}"' for name, is_dir in names])


def delete_files(image: Path, names: Iterable[str]) -> None:
    """Delete some files."""
    _debugfs(image, [f'rm "/{name}"' for name in names])


def write_files(image: Path, files: Iterable[tuple[Path, str]]) -> None:
    """Write files into the file system: into what is free, where it is."""
    _debugfs(image, [f'write "{path}" "/{name}"' for path, name in files])


def _debugfs(image: Path, commands: list[str]) -> None:
    _run("debugfs", "-w", "-f", "/dev/stdin", image, told="\n".join(commands) + "\n")


def xfs(image: Path, folder: Path, mib: int) -> None:
    """Make a file system of a folder."""
    image.unlink(missing_ok=True)
    with image.open("wb") as file:
        file.truncate(mib << 20)
    lines = ["/none", "0 0", "d--755 0 0"]
    at: tuple[str, ...] = ()
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        lines += ["$"] * (len(at) - len(parts[:-1]))
        at = parts[:-1]
        if path.is_dir():
            lines.append(f"{path.name} d--755 0 0")
            at = parts
        else:
            lines.append(f"{path.name} ---644 0 0 {path}")
    lines += ["$"] * (len(at) + 1)
    listing = image.with_suffix(".proto")
    listing.write_text("\n".join(lines) + "\n")
    _run("mkfs.xfs", "-q", "-f", "-p", listing, image)


def xfs_again(image: Path) -> None:
    """Make an empty file system over the one that is there."""
    _run("mkfs.xfs", "-q", "-f", "-K", image)


def intact(image: bytes, logs: Iterable[tuple[bytes, Sequence[tuple[int, int]]]]) -> set[bytes]:
    """Say which batches of logs lie whole in an image, each by its position and size in its log.

    A file lies in sectors, the last of which is filled up with zeros.
    """
    sectors: dict[bytes, list[int]] = {}
    for at in range(0, len(image), SECTOR):
        sector = image[at : at + SECTOR]
        if sector != _ZEROS:
            sectors.setdefault(sector, []).append(at)
    found = set()
    for log, batches in logs:
        for position, size in batches:
            start = position - position % SECTOR
            batch = log[position : position + size]
            for at in sectors.get(log[start : start + SECTOR].ljust(SECTOR, b"\0"), ()):
                here = at + position - start
                if image[here : here + size] == batch:
                    found.add(batch)
    return found
