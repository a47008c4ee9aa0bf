"""What came of a file that was listed and cannot be read."""

import errno
import os
from pathlib import Path

from kdump.engine.reading.damage import unread_finding
from kdump.errors import PathError
from kdump.findings.finding import Finding
from kdump.findings.rows import Place


def classify_error(path: Path, error: int) -> str:
    """Say whether it is a note or the error."""
    failed = PathError.from_os(str(path), OSError(error, os.strerror(error)))
    found = unread_finding(failed, Place("orders", 0, 0, str(path)))
    return found.code if isinstance(found, Finding) else found.reason


def test_file_deleted_or_replaced_since_listing(tmp_path: Path) -> None:
    """The cleaner takes a segment's files away, and puts others in their place."""
    path = tmp_path / "0.log"
    assert classify_error(path, errno.ENOENT) == "file-vanished"
    path.write_bytes(b"another by now")
    assert classify_error(path, errno.ENOENT) == "file-vanished"
    assert classify_error(path, errno.EACCES) == "Permission denied"


def test_dangling_link_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.symlink_to(tmp_path / "nowhere")
    assert classify_error(path, errno.ENOENT) == "No such file or directory"
