"""What bytes say of a file, against what its name says, on the directories of real brokers."""

import random
from pathlib import Path

import pytest
from each import each
from reads import count_reads

from kdump.storage import names
from kdump.storage.names import Kind
from kdump.storage.recognize import KINDS, file_name, recognize

SAMPLES = Path(__file__).parents[2] / "sample-data"
#: What the bytes of another kind look like: a snapshot of metadata is a log.
ALIKE = {Kind.METADATA_SNAPSHOT: Kind.LOG}


def test_broker_files_are_recognized_without_their_names() -> None:
    seen: dict[Kind, int] = {}
    for path in sorted((SAMPLES / "clean").rglob("*")):
        name = names.parse(path.name)
        if not path.is_file() or name.kind not in KINDS.values() or name.suffix:
            continue
        found = recognize(str(path))
        kind = ALIKE.get(name.kind, name.kind)
        if found.word is None:  # it holds nothing that would say so
            data = path.read_bytes()
            assert len(data) < 12 or not any(data[: len(data) // 2]) or b"\n0\n" in data, path
            continue
        assert KINDS[found.word] is kind, path
        seen[kind] = seen.get(kind, 0) + 1
        if kind is Kind.LOG and name.kind is Kind.LOG:
            assert found.base_offset is not None
            assert found.base_offset >= (name.base_offset or 0)
    assert {Kind.LOG, Kind.PRE08_LOG, Kind.OFFSET_INDEX, Kind.TIME_INDEX} <= seen.keys()
    assert {Kind.TRANSACTION_INDEX, Kind.PRODUCER_SNAPSHOT, Kind.LEADER_EPOCHS} <= seen.keys()
    assert {Kind.OFFSET_CHECKPOINT, Kind.META_PROPERTIES, Kind.PARTITION_METADATA} <= seen.keys()


@each("size", [1, 34, 240, 5000])
def test_noise_and_zeros_are_not_recognized(tmp_path: Path, size: int) -> None:
    path = tmp_path / "x"
    for data in (random.Random(size).randbytes(size), bytes(size)):
        path.write_bytes(data)
        assert recognize(str(path)).word is None


def test_large_file_of_another_kind_is_not_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is asked is how it begins: also where much in it looks like messages of 0.7."""
    path = tmp_path / "x"
    path.write_bytes(b"ARROW1\0\0" + b"\0\0\0\x20\1\0" * 700_000)
    read_bytes = count_reads(monkeypatch)
    assert recognize(str(path)).word is None
    assert 0 < sum(read_bytes) <= 3 << 20


@each("word", KINDS)
def test_names_determine_the_kind(word: str) -> None:
    assert names.parse(file_name(word, 42)).kind is KINDS[word]
