"""What a partition's directory holds, by the names of its files."""

from pathlib import Path

import pytest
from each import each

from kdump.errors import PathError
from kdump.storage.checkpoints import EpochStart
from kdump.storage.local_log import LocalLog, looks_like_partition, with_next_base
from kdump.storage.names import Kind

MARK = "0123456789abcdef0123456789abcdef"
FILES = [
    f"{50:020}.log",
    f"{0:020}.log",
    f"{0:020}.index",
    f"{0:020}.timeindex",
    f"{0:020}.txnindex",
    f"{9:020}.index",
    f"{50:020}.snapshot",
    f"{7:020}.snapshot",
    f"{7:020}-0000000003.checkpoint",
    "leader-epoch-checkpoint",
    "leader-epoch-checkpoint.tmp",
    "partition.metadata",
    f"{0:020}.log.deleted",
    f"{9:020}.index.swap",
    "notes.txt",
]


def names_of(found: list[tuple[object, str]]) -> list[str]:
    return [Path(path).name for _, path in found]


def test_partition_files_are_classified() -> None:
    log = LocalLog("/data/orders-3", FILES)
    assert (log.path, log.topic, log.partition) == ("/data/orders-3", "orders", 3)
    assert [segment.base_offset for segment in log.segments] == [0, 9, 50]
    assert [segment.base_offset for segment in log.logs] == [0, 50]
    first, second, last = log.segments
    assert first.files == {
        Kind.LOG: f"/data/orders-3/{0:020}.log",
        Kind.OFFSET_INDEX: f"/data/orders-3/{0:020}.index",
        Kind.TIME_INDEX: f"/data/orders-3/{0:020}.timeindex",
        Kind.TRANSACTION_INDEX: f"/data/orders-3/{0:020}.txnindex",
    }
    assert (first.log, second.log) == (f"/data/orders-3/{0:020}.log", None)
    assert list(last.files) == [Kind.LOG]
    assert names_of(log.retired) == [
        f"{0:020}.log.deleted", f"{9:020}.index.swap", "leader-epoch-checkpoint.tmp",
    ]  # fmt: skip
    assert names_of(log.others) == [
        f"{7:020}-0000000003.checkpoint",
        f"{7:020}.snapshot",
        f"{50:020}.snapshot",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]


def test_snapshots_of_a_kind() -> None:
    log = LocalLog("orders-3", FILES)
    assert log.snapshots() == [
        (7, f"orders-3/{7:020}.snapshot"),
        (50, f"orders-3/{50:020}.snapshot"),
    ]
    assert log.snapshots(Kind.METADATA_SNAPSHOT) == [(7, f"orders-3/{7:020}-0000000003.checkpoint")]
    nameless = LocalLog("orders-3", ["bootstrap.checkpoint"])  # a snapshot without an offset
    assert nameless.snapshots(Kind.METADATA_SNAPSHOT) == []


def test_file_with_two_spellings_is_found() -> None:
    log = LocalLog("orders-3", ["7.log", f"{7:020}.log"])
    assert [segment.log for segment in log.segments] == [f"orders-3/{7:020}.log"]


def test_logs_before_0_8_are_found() -> None:
    log = LocalLog("orders-3", ["5.kafka", "5.log", "9.kafka"])
    both, old = log.logs
    assert (both.log, both.is_pre08) == ("orders-3/5.log", False)
    assert (old.log, old.is_pre08) == ("orders-3/9.kafka", True)


def test_directory_with_another_name_is_read() -> None:
    log = LocalLog("/copy of orders", [f"{0:020}.log"])
    assert (log.name, log.topic, log.partition, len(log.logs)) == (None, None, None, 1)


def test_directory_given_as_a_dot_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "orders-3").mkdir()
    monkeypatch.chdir(tmp_path / "orders-3")
    assert LocalLog.open(".").topic == "orders"
    assert LocalLog.open(f"{tmp_path}/orders-3/").partition == 3


def test_unlistable_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PathError, match="No such file") as raised:
        LocalLog.open(str(tmp_path / "orders-3"))
    assert raised.value.path == str(tmp_path / "orders-3")


@each(
    ("text", "starts"),
    [
        (None, []),
        ("0\n2\n0 5\n3 9\n", [EpochStart(0, 5), EpochStart(3, 9)]),
        ("0\n2\n0 5\n", []),  # a broker would not take it
        ("0\n0\n".ljust((8 << 20) + 1), []),
    ],
)
def test_leader_epochs_are_read_as_far_as_trusted(
    tmp_path: Path, text: str | None, starts: list[EpochStart]
) -> None:
    (tmp_path / "leader-epoch-checkpoint.tmp").write_text("0\n1\n7 7\n")
    (tmp_path / "partition.metadata").write_text("version: 0\n")
    if text is not None:
        (tmp_path / "leader-epoch-checkpoint").write_text(text)
    assert LocalLog.open(str(tmp_path)).epoch_starts() == starts


def test_segments_with_the_base_of_the_next() -> None:
    segments = LocalLog("orders-3", ["5.log", "9.log", "7.index"]).segments
    found = [(one.base_offset, following) for one, following in with_next_base(segments)]
    assert found == [(5, 7), (7, 9), (9, None)]
    assert list(with_next_base([])) == []


def test_partition_directories_are_recognized() -> None:
    for name in ("0.log", "0.kafka", "0.index.deleted", "0.snapshot"):
        assert looks_like_partition(["notes.txt", name])
    assert not looks_like_partition(["notes.txt", "leader-epoch-checkpoint", "x.log"])
    assert not looks_like_partition([])
