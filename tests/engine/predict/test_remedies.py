"""What a cheap change before a start would save, held against a start as is."""

from pathlib import Path
from typing import Any

import pytest
from damage import flip
from directories import DataDirectory, batches
from segments import indexes

from kdump.engine.verify.options import VerifyOptions
from kdump.engine.verify.run import verify
from kdump.findings.finding import Finding
from kdump.findings.rows import Row

INTERVAL = 100  # each batch but the first has an index entry


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    """Give a directory, stopped cleanly, with two partitions of one segment of ten records."""
    data = DataDirectory(tmp_path / "data")
    for topic in ("orders", "users"):
        directory = data.partition(topic, 0, [0])
        offsets, times = indexes(batches(0, 5), 0, INTERVAL)
        (directory / f"{0:020}.index").write_bytes(offsets)
        (directory / f"{0:020}.timeindex").write_bytes(times)
    data.stop()
    return data


def log(data: DataDirectory, topic: str) -> Path:
    return data.path / f"{topic}-0" / f"{0:020}.log"


def tear(data: DataDirectory, topic: str) -> None:
    path = log(data, topic)
    path.write_bytes(path.read_bytes()[:-10])


def break_batch(data: DataDirectory, topic: str) -> None:
    path = log(data, topic)
    path.write_bytes(flip(path.read_bytes(), len(batches(0, 1)) + 62))


def foretold(*paths: Path) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
    """Run the forecast: messages of what loses records, and rows, by topic."""
    items = list(verify(list(map(str, paths)), VerifyOptions(predict=True)))
    messages = {
        str(item.topic): item.message
        for item in items
        if isinstance(item, Finding) and item.code in ("start-loses-records", "start-refused")
    }
    rows = {
        str(item.fields["topic"]): item.fields
        for item in items
        if isinstance(item, Row) and item.row == "recovery"
    }
    return messages, rows


def test_best_remedies_are_listed_with_both_numbers(data: DataDirectory) -> None:
    tear(data, "orders")
    messages, rows = foretold(data.path)
    row = rows["orders"]
    assert (row["outcome"], row["records_lost"]) == ("empty", 10)
    assert [(one["remove"], one["outcome"], one["records_lost"]) for one in row["remedies"]] == [
        ("clean-shutdown-mark", "truncate", 2),
        ("offset-index", "truncate", 2),
    ]
    assert rows["users"]["remedies"] == []
    (message,) = messages.values()
    assert message.endswith(
        f" If you first run rm {data.path}/.kafka_cleanshutdown (so that every partition of the "
        f"directory is recovered) or rm {data.path}/orders-0/{0:020}.index (so that the segment "
        f"is recovered), the start loses 2 records instead of 10."
    )


def test_clean_shutdown_file_is_kept_if_others_would_lose(data: DataDirectory) -> None:
    """Nobody looks at checksums after a clean stop, and recovery cuts at a wrong one."""
    tear(data, "orders")
    break_batch(data, "users")
    messages, rows = foretold(data.path)
    assert (rows["users"]["records_lost"], rows["users"]["remedies"][0]["records_lost"]) == (0, 8)
    assert list(messages) == ["orders"]
    assert f"If you first run rm {data.path}/orders-0/{0:020}.index (" in messages["orders"]
    assert messages["orders"].endswith("instead of 10.")


def test_other_data_directories_keep_their_clean_shutdown_file(
    data: DataDirectory, tmp_path: Path
) -> None:
    other = DataDirectory(tmp_path / "other", number=2)
    (data.path / "users-0").rename(other.path / "users-0")
    other.stop()
    tear(data, "orders")
    break_batch(other, "users")
    messages, _ = foretold(data.path, other.path)
    assert f"rm {data.path}/.kafka_cleanshutdown" in messages["orders"]


def test_no_remedy_is_named_if_none_loses_less(data: DataDirectory) -> None:
    tear(data, "orders")
    (data.path / ".kafka_cleanshutdown").unlink()
    messages, rows = foretold(data.path)
    assert rows["orders"]["remedies"] == []
    assert " after rm " not in messages["orders"]
    data.stop()
    (log(data, "orders").with_suffix(".index")).write_bytes(b"")
    messages, rows = foretold(data.path)
    assert {one["records_lost"] for one in rows["orders"]["remedies"]} == {2}
    assert " after rm " not in messages["orders"]


def test_remedy_in_a_store_omits_files_from_a_copy(data: DataDirectory) -> None:
    pytest.importorskip("pyarrow", reason="PyArrow is not installed")
    tear(data, "orders")
    items = verify([f"file://{data.path}"], VerifyOptions(predict=True))
    (message,) = (
        item.message
        for item in items
        if isinstance(item, Finding) and item.code == "start-loses-records"
    )
    assert message.endswith(
        f" In a copy without file://{data.path}/.kafka_cleanshutdown (so that every partition of "
        f"the directory is recovered) or file://{data.path}/orders-0/{0:020}.index (so that the "
        f"segment is recovered), the start loses 2 records instead of 10."
    )
