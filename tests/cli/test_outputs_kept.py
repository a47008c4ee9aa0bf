"""Files of a broker and of the user are never replaced by a file that kdump writes."""

import os
import shutil
from pathlib import Path

import pytest
from commands import run
from directories import DataDirectory, batches, write_segment
from each import each

LOG = f"{0:020}.log"


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a data directory with two partitions, and stand beside it."""
    made = DataDirectory(tmp_path / "kafka")
    made.partition("orders", 0)
    made.partition("other", 0)
    made.stop()
    monkeypatch.chdir(tmp_path)
    return made.path


def read_files(root: Path) -> dict[str, bytes]:
    return {str(one): one.read_bytes() for one in sorted(root.rglob("*")) if one.is_file()}


WRITERS = [
    ["dump", "--force", "--output"],
    ["dump", "--force", "--format", "parquet", "--output"],
    ["verify", "--force", "--output"],
    ["verify", "--state"],
    ["verify", "--textfile"],
    ["why", "--textfile"],
    ["find-time", "--force", "--format", "reset-csv", "--output"],
]
TARGETS = [
    f"kafka/orders-0/{LOG}",
    "kafka/orders-0/new",
    "kafka/meta.properties",
    "kafka/new",
    "kafka/folder/new",
    "odd/new",
    "lone/new",
    "link",
    "dangling",
    "linked/new",
    "named",
    "tier/topic-AAAAAAAAAAAAAAAAAAAAAA/0/new",
]


@pytest.mark.parametrize("target", TARGETS)
def test_output_among_broker_files_is_refused(data: Path, tmp_path: Path, target: str) -> None:
    (data / "folder").mkdir()
    shutil.copytree(data / "orders-0", tmp_path / "odd")
    shutil.copytree(data / "orders-0", tmp_path / "lone-0")
    (tmp_path / "lone").symlink_to("lone-0")
    (tmp_path / "link").symlink_to(data / "orders-0" / LOG)
    (tmp_path / "dangling").symlink_to(data / "orders-0/none")
    (tmp_path / "linked").symlink_to(data / "orders-0")
    (tmp_path / "named").hardlink_to(data / "orders-0" / LOG)
    tier = tmp_path / "tier/topic-AAAAAAAAAAAAAAAAAAAAAA/0"
    tier.mkdir(parents=True)
    (tier / f"{0:020}-AAAAAAAAAAAAAAAAAAAAAA.log").write_bytes(b"")
    sources = tmp_path / "elsewhere"
    DataDirectory(sources).partition("read", 0)
    before = read_files(tmp_path)
    for words in WRITERS:
        paths = [sources, "earliest"] if words[0] == "find-time" else [sources]
        result = run(*words, target, *paths)
        assert result.exit_code == 5, (words, result.output)
        assert f"{words[-1]} {target}: is" in result.stderr
    assert read_files(tmp_path) == before


def test_output_directory_is_checked_through_its_descriptor(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = read_files(data)
    monkeypatch.chdir(data / "orders-0")
    for target in (LOG, "new", "../new", "../other-0/new"):
        assert run("dump", "--force", "-o", target, ".").exit_code == 5
    assert read_files(data) == before


def test_open_file_of_a_broker_is_not_overwritten(data: Path) -> None:
    with (data / "orders-0" / LOG).open("ab") as file:
        before = read_files(data)
        for folder in ("/dev/fd", f"/proc/{os.getpid()}/fd", "/proc/self/fd"):
            assert run("dump", "-o", f"{folder}/{file.fileno()}", data / "other-0").exit_code == 5
    assert read_files(data) == before


def test_failed_run_leaves_no_directories(data: Path, tmp_path: Path) -> None:
    before = read_files(tmp_path)
    sources = tmp_path / "elsewhere"
    DataDirectory(sources).partition("read", 0)
    for words in (
        ("dump", "--format", "parquet", "--output", "kafka/new/"),
        ("salvage", "--out", "kafka/new"),
        ("reindex", "--all", "--out", "kafka/new"),
        ("reindex", "--all", "--out", "kafka"),
    ):
        result = run(*words, sources / "read-0")
        assert result.exit_code == 5, (words, result.output)
    assert read_files(data) == {
        path: one for path, one in before.items() if path.startswith(str(data))
    }


@pytest.mark.parametrize("name", ["out.jsonl", "out.csv", "out.parquet"])
def test_existing_file_needs_force(data: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / name
    out.write_bytes(b"mine")
    refused = run("dump", "-o", out, data / "orders-0")
    assert (refused.exit_code, out.read_bytes()) == (5, b"mine")
    assert "exists; name another file, or add --force to replace it" in refused.stderr
    result = run("dump", "--force", "-o", out, data / "orders-0")
    assert result.exit_code == 0
    assert result.stderr == f"wrote {out}, 20 rows\n"
    assert out.read_bytes() != b"mine"


def test_empty_file_is_overwritten(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "made-by-mktemp"
    out.touch()
    assert run("dump", "-o", out, data / "orders-0").exit_code == 0
    assert out.stat().st_size


@pytest.mark.parametrize(
    ("words", "head"),
    [
        (("verify", "--state"), b'{"row":"verify-state"'),
        (("verify", "--textfile"), b"# HELP kdump_"),
        (("why", "--textfile"), b"# HELP kdump_"),
    ],
)
def test_file_of_the_same_form_is_replaced(
    data: Path, tmp_path: Path, words: tuple[str, ...], head: bytes
) -> None:
    out = tmp_path / "out"
    for _ in range(2):
        assert run(*words, out, data).exit_code == 0
        assert out.read_bytes().startswith(head)
    out.write_bytes(b"mine")
    assert run(*words, out, data).exit_code == 5
    assert out.read_bytes() == b"mine"


def test_files_next_to_salvaged_copies(data: Path, tmp_path: Path) -> None:
    page = tmp_path / "new.manifest.txt"
    page.write_text("mine")
    assert run("salvage", "--out", "new", data / "orders-0").exit_code == 5
    assert (page.read_text(), (tmp_path / "new").exists()) == ("mine", False)
    page.unlink()
    for _ in range(2):  # the manifest of the first run is replaced
        shutil.rmtree(tmp_path / "new", ignore_errors=True)
        assert run("salvage", "--out", "new", data / "orders-0").exit_code == 0


def test_summary_line_names_the_written_file(data: Path, tmp_path: Path) -> None:
    sources = tmp_path / "elsewhere"
    DataDirectory(sources).partition("read", 0)
    out = tmp_path / "out.csv"
    assert run("dump", "-o", out, sources).stderr == f"wrote {out}, 20 rows\n"
    assert run("verify", "-q", "-o", tmp_path / "quiet.csv", sources).stderr == ""


@each("command", ["dump --format csv", "dump --format kafka", "dump --format arrow", "usage"])
def test_quiet_run_writes_the_output_file(data: Path, tmp_path: Path, command: str) -> None:
    """Only standard output and the courtesies are left out."""
    if "arrow" in command:
        pytest.importorskip("pyarrow")
    written = []
    for number, quiet in enumerate(([], ["-q"])):
        out = tmp_path / str(number)
        result = run(*command.split(), *quiet, "-o", out, data / "orders-0")
        assert (result.exit_code, result.stdout) == (0, "")
        assert not (quiet and result.stderr)
        written.append(out.read_bytes())
    assert written[0] == written[1]
    assert written[0]


@pytest.mark.parametrize("number", ["5", "0", "48301220"])
def test_offset_in_place_of_a_file_is_refused(data: Path, tmp_path: Path, number: str) -> None:
    result = run("dump", "-o", number, data / "orders-0")
    assert result.exit_code == 2
    assert f"use --from-offset {number}" in result.stderr
    assert not (tmp_path / number).exists()
    assert run("dump", "-o", f"./{number}", data / "orders-0").exit_code == 0
    assert (tmp_path / number).exists()


def test_pipes_and_devices_are_not_replaced(data: Path) -> None:
    for path in ("/dev/null", "/dev/stdout"):
        result = run("dump", "-o", path, data / "orders-0")
        assert (result.exit_code, result.stderr) == (0, "")


@pytest.mark.parametrize("name", ["out.jsonl", "out.parquet", "out.arrow"])
def test_old_file_is_kept_if_the_new_one_is_incomplete(
    data: Path, tmp_path: Path, name: str
) -> None:
    out = tmp_path / name
    out.write_bytes(b"old")
    result = run("dump", "--force", "-o", out, data / "orders-0", tmp_path / "missing")
    assert result.exit_code == 1
    assert out.read_bytes() == b"old"
    assert f"kdump: {out}: left unchanged, because not everything could be read" in result.stderr
    assert sorted(one.name for one in tmp_path.iterdir()) == ["kafka", name]
    out.unlink()
    assert run("dump", "-o", out, data / "orders-0", tmp_path / "missing").exit_code == 1
    assert out.stat().st_size


def test_lone_segment_is_not_a_partition(data: Path, tmp_path: Path) -> None:
    """A log that was copied to look at it: its directory is the user's."""
    folder = tmp_path / "case"
    folder.mkdir()
    shutil.copy(data / "orders-0" / LOG, folder)
    assert run("dump", "-o", folder / "out.jsonl", folder / LOG).exit_code == 0
    assert run("dump", "--force", "-o", folder / LOG, data / "other-0").exit_code == 5


def test_old_directory_without_checkpoints(tmp_path: Path) -> None:
    write_segment(tmp_path / "old-3", 0, batches(0, 2), next_offset=4)
    assert run("dump", "-o", tmp_path / "old-3/out", tmp_path / "old-3").exit_code == 5
    assert run("dump", "-o", tmp_path / "out", tmp_path / "old-3").exit_code == 0
