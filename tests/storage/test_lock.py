"""Whether a broker holds a directory's lock."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kdump.engine.about import facts_of
from kdump.storage import lock

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="locks are asked for on Linux")

HOLD = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Path]:
    """Give a directory whose lock another process holds, as a broker does."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / ".lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield tmp_path
    process.communicate("")


def test_a_lock_that_is_held(held: Path) -> None:
    assert lock.is_held(str(held)) is True


def test_asking_takes_nothing_and_changes_nothing(held: Path) -> None:
    before = (held / ".lock").stat()
    lock.is_held(str(held))
    after = (held / ".lock").stat()
    assert (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size)
    assert lock.is_held(str(held)) is True


def test_a_file_that_a_broker_left_is_no_lock(tmp_path: Path) -> None:
    assert lock.is_held(str(tmp_path)) is False
    (tmp_path / ".lock").touch()
    assert lock.is_held(str(tmp_path)) is False


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open everything")
def test_a_file_that_cannot_be_opened_says_nothing(tmp_path: Path) -> None:
    (tmp_path / ".lock").touch(mode=0)
    assert lock.is_held(str(tmp_path)) is None


def test_facts_of_a_directory(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=3\ncluster.id=abc\n")
    facts = facts_of(str(tmp_path))
    assert (facts.node_id, facts.cluster_id, facts.locked) == ("3", "abc", False)


def test_facts_of_a_directory_that_says_nothing(tmp_path: Path) -> None:
    assert facts_of(str(tmp_path / "gone"))[1:3] == (None, None)
