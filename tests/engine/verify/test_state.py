"""What verify remembers from run to run, and what it must not forget."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import builders
import damage
import pytest
from each import each
from verify_command import TIME, log

from kdump import __version__
from kdump.engine.verify.options import VerifyOptions
from kdump.engine.verify.run import verify
from kdump.engine.verify.state import VerifyState
from kdump.findings.finding import Finding
from kdump.findings.rows import Row

NOW = 1_800_000_000
BASES = (0, 10, 20, 30)


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Give four segments, the third of them with a flipped byte in its second batch."""
    directory = tmp_path / "data" / "orders-7"
    directory.mkdir(parents=True)
    for base in BASES:
        data = log(base)
        if base == 20:
            data = damage.flip(data, len(data) // 5 + 70)
        path_of(directory, base).write_bytes(data)
        write_rest(directory, base)
    return directory


def write_rest(directory: Path, base: int) -> None:
    """Write what stands beside a log: an index too young for an entry, and the time index."""
    path_of(directory, base).with_suffix(".index").write_bytes(b"")
    entry = TIME.to_bytes(8) + (1).to_bytes(4)
    path_of(directory, base).with_suffix(".timeindex").write_bytes(entry)
    (directory / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")


def path_of(directory: Path, base: int) -> Path:
    return directory / f"{base:020}.log"


class Runs:
    """One run after another with the same state, written out and read in between."""

    def __init__(self) -> None:
        self.file = b""
        self.now_s = NOW

    def run(self, path: Path, **asked: object) -> tuple[list[Finding], dict[str, object]]:
        state = VerifyState.read(self.file, self.now_s)
        items = list(verify([str(path)], VerifyOptions(**asked), state=state))  # type: ignore[arg-type]
        self.file = b"".join(state.lines())
        summary = items.pop()
        assert isinstance(summary, Row)
        damages = [each for each in items if isinstance(each, Finding)]
        return [each for each in damages if each.severity.value == "damage"], summary.fields


@pytest.fixture
def runs() -> Runs:
    return Runs()


def read_of(summary: dict[str, object]) -> int:
    count = summary["segments"]
    assert isinstance(count, int)
    return count


def test_sealed_segments_are_read_once(partition: Path, runs: Runs) -> None:
    _, first = runs.run(partition)
    _, second = runs.run(partition)
    assert read_of(first) == 4
    assert read_of(second) == 1  # the newest, which a broker may be writing
    assert second["not_checked"] == {"segments_verified_before": 3}


def test_findings_of_skipped_segments_are_reported_again(partition: Path, runs: Runs) -> None:
    first, _ = runs.run(partition)
    second, summary = runs.run(partition)
    assert [found.code for found in first] == ["crc-mismatch"]
    assert second == first
    assert summary["findings"]["damage"] == 1  # type: ignore[index]


def test_repeated_findings_use_the_paths_of_this_run(
    partition: Path, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs.run(partition)
    monkeypatch.chdir(partition.parent)
    found, _ = runs.run(Path("orders-7"))
    assert found[0].path == f"orders-7/{20:020}.log"


def touch(path: Path) -> None:
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))


def exchange(path: Path) -> None:
    status = path.stat()
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))
    copy.rename(path)


def remove_index(path: Path) -> None:
    path.with_suffix(".index").unlink()


@pytest.mark.parametrize("change", [touch, exchange, remove_index])
def test_changed_segment_is_read_again(partition: Path, runs: Runs, change: object) -> None:
    runs.run(partition)
    change(path_of(partition, 10))  # type: ignore[operator]
    _, summary = runs.run(partition)
    assert read_of(summary) == 2


def test_repaired_segment_has_no_finding(partition: Path, runs: Runs) -> None:
    runs.run(partition)
    path_of(partition, 20).write_bytes(log(20))
    found, _ = runs.run(partition)
    assert found == []


def test_predecessor_of_a_deleted_segment_is_reread(partition: Path, runs: Runs) -> None:
    runs.run(partition)
    for path in partition.glob(f"{10:020}.*"):
        path.unlink()
    _, summary = runs.run(partition)
    assert read_of(summary) == 2  # what is missing between it and the next has no other place


def test_deep_reads_shallowly_checked_segments_again(partition: Path, runs: Runs) -> None:
    runs.run(partition)
    _, deep = runs.run(partition, deep=True)
    _, again = runs.run(partition, deep=True)
    _, shallow = runs.run(partition)
    assert [read_of(each) for each in (deep, again, shallow)] == [4, 1, 1]


def test_old_results_are_rechecked(partition: Path, runs: Runs) -> None:
    runs.run(partition)
    runs.now_s += 1000
    _, soon = runs.run(partition, recheck_s=2000)
    runs.now_s += 1000
    _, late = runs.run(partition, recheck_s=2000)
    assert (read_of(soon), read_of(late)) == (1, 4)


def test_other_version_rereads_everything(partition: Path, runs: Runs) -> None:
    runs.run(partition)
    runs.file = runs.file.replace(f'"{__version__}"'.encode(), b'"0.0.1"', 1)
    _, summary = runs.run(partition)
    assert read_of(summary) == 4


def test_deleted_partitions_are_removed_from_the_state(partition: Path, runs: Runs) -> None:
    runs.run(partition)
    assert b"orders-7" in runs.file
    partition.rename(partition.with_name("orders-8"))
    runs.run(partition.with_name("orders-8"))
    assert b"orders-7" not in runs.file


def test_unmounted_disk_is_not_forgotten(partition: Path, runs: Runs) -> None:
    runs.run(partition)
    partition.parent.rename(partition.parent.with_name("elsewhere"))
    state = VerifyState.read(runs.file, NOW)
    assert b"".join(state.lines()) == runs.file


def test_interrupted_run_continues(tmp_path: Path, runs: Runs) -> None:
    for number in range(3):
        directory = tmp_path / f"orders-{number}"
        directory.mkdir()
        for base in BASES:
            path_of(directory, base).write_bytes(log(base))
            write_rest(directory, base)
    _, nothing = runs.run(tmp_path, max_duration_s=0.0)
    assert read_of(nothing) == 0
    assert nothing["not_checked"] == {
        "segments_out_of_time": 12,
        "bytes_out_of_time": 12 * len(log(0)),
    }
    assert nothing["finished"] is False
    runs.run(tmp_path / "orders-0")
    # What is unseen comes first, then what was seen long ago.
    state = VerifyState.read(runs.file, NOW)
    order = [
        str(item.path)[-1]
        for item in sorted(planned(tmp_path, state), key=lambda item: item.verified_s)
    ]
    assert order == ["1", "2", "0"]


def planned(path: Path, state: VerifyState) -> Iterator[object]:
    from kdump.engine.verify.plan import plan

    yield from plan([str(path)], VerifyOptions(), state)


def test_partition_with_findings_is_read_completely(partition: Path, runs: Runs) -> None:
    (partition / "partition.metadata").write_text("version: 0\ntopic_id: nr8MK1zTQBOXGgbVmb82Iw\n")
    (partition / "leader-epoch-checkpoint").unlink()
    runs.run(partition)
    _, second = runs.run(partition)
    (partition / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    runs.run(partition)
    _, mended = runs.run(partition)
    assert [read_of(each) for each in (second, mended)] == [4, 1]


@each(
    "line",
    [
        b"",
        b"{",
        b"[]",
        b'{"path":3,"segments":[]}',
        b'{"path":"/p","segments":[[0,"x",1]]}',
        b'{"path":"/p","segments":[[0,"x",1,2,[{"code":"nonesuch"}]]]}',
        b'{"path":"/p","segments":[[0,"x",1,2,[{"code":"crc-mismatch"}]]]}',
        b"[" * 100_000,
    ],
)
def test_invalid_state_file_is_rejected(line: bytes) -> None:
    head = json.dumps({"row": "verify-state", "version": 1, "kdump": __version__}).encode()
    with pytest.raises(ValueError, match=r"line|finding"):
        VerifyState.read(head + b"\n" + line + b"\n", NOW)


@each("data", [b"\0\1\2", b"{}\n", b"{", b'{"row":"record"}\n'])
def test_foreign_state_file_is_not_trusted(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"JSON|state file"):
        VerifyState.read(data, NOW)


def test_segments_of_0_7_are_skipped_too(tmp_path: Path, runs: Runs) -> None:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    position = 0
    for _ in range(3):
        data = builders.pre08_message(b"value" * 10) * 4
        (directory / f"{position:020}.kafka").write_bytes(data)
        position += len(data)
    runs.run(directory)
    found, summary = runs.run(directory)
    assert (found, read_of(summary)) == ([], 1)


def test_non_text_names_round_trip(tmp_path: Path, runs: Runs) -> None:
    directory = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe")) / "orders-1"
    directory.mkdir(parents=True)
    for base in BASES:
        path_of(directory, base).write_bytes(log(base))
        write_rest(directory, base)
    runs.run(directory)
    _, summary = runs.run(directory)
    assert read_of(summary) == 1
