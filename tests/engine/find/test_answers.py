"""What a row of a lookup says: offsets, times, versions, and the steps to them."""

import os
import shutil
from pathlib import Path

import pytest
from lookup_rows import SIZE, TIME, at_offset, at_time, split

from kdump.engine.find.options import FindOptions
from kdump.engine.find.run import find_offset
from kdump.engine.work.pipeline import Workers

SAMPLE = Path(__file__).parents[3] / "sample-data/clean/4.1.1/d1"


def test_offset_lookup_has_its_row(partition: Path) -> None:
    assert at_offset(partition, 5) == {
        "row": "offset-lookup",
        "topic": "orders",
        "partition": 7,
        "target": 5,
        "segment": 0,
        "index_entry": {"offset": 3, "position": SIZE},
        "position": 2 * SIZE,
        "size_bytes": SIZE,
        "base_offset": 4,
        "last_offset": 5,
        "offset": 5,
        "timestamp_ms": TIME + 5,
        "batches_scanned": 2,
        "next_offset": None,
        "served_from": None,
        "skipped_by_seek": None,
        "settings": None,
        "error": None,
        "broker_version": "4.4",
    }


def test_time_lookup_has_its_row(partition: Path) -> None:
    assert at_time(partition, TIME + 4) == {
        "row": "time-lookup",
        "topic": "orders",
        "partition": 7,
        "target_ms": TIME + 4,
        "segment": 0,
        "time_index_entry": None,
        "index_entry": None,
        "position": 2 * SIZE,
        "offset": 4,
        "timestamp_ms": TIME + 4,
        "leader_epoch": 0,
        "batches_scanned": 3,
        "settings": None,
        "error": None,
        "broker_version": "4.4",
    }


def test_rebuilt_index_uses_the_interval_of_its_topic(tmp_path: Path) -> None:
    """The entry that leads to the answer is the one that was there before the index was lost."""
    data = tmp_path / "data"
    shutil.copytree(SAMPLE, data)
    path = data / "orders.lz4-0"
    sound = at_offset(path, 200)
    assert sound["settings"] is None
    (path / f"{0:020}.index").unlink()
    (path / f"{0:020}.timeindex").unlink()
    rebuilt = at_offset(path, 200, explain=True)
    interval = {"name": "index.interval.bytes", "value": 1024, "source": "topic"}
    assert isinstance(rebuilt["settings"], list)
    assert rebuilt["settings"][0] == interval
    assert rebuilt["index_entry"] == sound["index_entry"]
    assert "by index.interval.bytes=1024 (topic)" in str(rebuilt["steps"])
    by_time = at_time(path, rebuilt["timestamp_ms"])  # type: ignore[arg-type]
    assert (by_time["offset"], by_time["settings"]) == (200, rebuilt["settings"])
    plain = at_offset(path, 200, topic_configs=False)
    assert plain["index_entry"] != sound["index_entry"]
    assert isinstance(plain["settings"], list)
    assert plain["settings"][0] == {**interval, "value": 4096, "source": "default"}
    options = FindOptions()
    rows, _ = split(find_offset([str(path)], 200, options, driver=Workers(2)))
    assert rows[0]["settings"] == rebuilt["settings"]
    assert at_offset(path, 200, as_is=True)["settings"] is None


@pytest.mark.parametrize(
    ("target", "segment", "offset"),
    [(0, 0, 0), (3, 0, 3), (6, 10, 10), (9, 10, 10), (13, 10, 13), (14, None, None)],
)
def test_offsets_in_gaps_and_at_the_end(
    partition: Path, target: int, segment: int | None, offset: int | None
) -> None:
    row = at_offset(partition, target)
    assert (row["segment"], row["offset"], row["error"]) == (segment, offset, None)


@pytest.mark.parametrize("target", [-1, 15])
def test_offset_out_of_range_is_an_error_in_the_row(partition: Path, target: int) -> None:
    row = at_offset(partition, target)
    assert row["offset"] is None
    assert str(row["error"]).startswith("OFFSET_OUT_OF_RANGE")


@pytest.mark.parametrize(
    ("target", "offset"), [(-2, 0), (-1, 14), (-3, 13), (TIME + 14, None), (0, 0)]
)
def test_special_times_and_no_answer(partition: Path, target: int, offset: int | None) -> None:
    row = at_time(partition, target)
    assert (row["offset"], row["error"]) == (offset, None)


def test_negative_time_without_a_meaning(partition: Path) -> None:
    assert str(at_time(partition, -30)["error"]).startswith("UNSUPPORTED_VERSION")
    assert at_time(partition, -30, broker_version=(3, 8, 0))["offset"] == 0


@pytest.mark.parametrize(("target", "since"), [(-3, (3, 0)), (-4, (3, 5)), (-5, (3, 9))])
def test_special_time_is_a_time_to_older_brokers(
    partition: Path, target: int, since: tuple[int, int]
) -> None:
    """As the classes of 2.8.2 answer -3."""
    before = at_time(partition, target, broker_version=(2, 8, 0), check=True)
    assert (before["offset"], before["timestamp_ms"], before["scan_offset"]) == (0, TIME, 0)
    after = at_time(partition, target, broker_version=(*since, 0))
    assert after["timestamp_ms"] != TIME


def test_leader_epochs_are_answered_since_2_1(partition: Path) -> None:
    (partition / "leader-epoch-checkpoint").write_text("0\n1\n4 0\n")
    for target in (-1, -2, TIME + 3):
        assert at_time(partition, target, broker_version=(2, 0, 1))["leader_epoch"] is None
        assert at_time(partition, target, broker_version=(2, 1, 0))["leader_epoch"] is not None


def test_old_message_format_rejects_lookups_by_time(partition: Path) -> None:
    refused = at_time(partition, TIME, message_format=(0, 9, 0))
    assert str(refused["error"]).startswith("UNSUPPORTED_FOR_MESSAGE_FORMAT")
    assert at_time(partition, -2, message_format=(0, 9, 0))["error"] is None
    assert at_time(partition, TIME, message_format=(0, 10, 0))["offset"] == 0


def test_version_0_answers_by_modification_time(partition: Path) -> None:
    for stem, seconds in ((0, 1000), (10, 2000)):
        os.utime(partition / f"{stem:020}.log", (seconds, seconds))
    row = at_time(partition, 2_500_000, list_offsets_version=0, max_offsets=5)
    assert (row["offset"], row["offsets"]) == (10, [10, 0])
    assert at_time(partition, 500_000, list_offsets_version=0)["offsets"] == []
    options = {"list_offsets_version": 0, "now_ms": 3_000_000}
    found = [at_time(partition, target, **options)["offset"] for target in (2_999_999, 3_000_000)]
    assert found == [10, 14]


def test_steps_name_the_compared_values(partition: Path) -> None:
    steps = at_offset(partition, 5, explain=True)["steps"]
    assert isinstance(steps, list)
    assert [step["step"] for step in steps] == ["segment", "index", "scan", "record"]
    assert steps[1]["entry"] == {"offset": 3, "position": SIZE}
    assert steps[1]["compared"]
    assert steps[2]["bytes"] == 2 * SIZE
    steps = at_time(partition, TIME + 12, explain=True)["steps"]
    assert isinstance(steps, list)
    assert [step["step"] for step in steps] == [
        *("segment", "segment", "timeindex", "index", "scan", "record"),
    ]


def test_explanation_names_the_modification_time(partition: Path) -> None:
    for path in partition.glob("*.timeindex"):
        path.write_bytes(b"")
    modified = TIME + 1_000_000
    os.utime(partition / f"{0:020}.log", (modified // 1000, modified // 1000))
    steps = at_time(partition, TIME + 4, explain=True, as_is=True)["steps"]
    assert isinstance(steps, list)
    step = steps[0]
    assert "largest timestamp" not in step["text"]
    assert f"the time its file was modified, {modified}, reaches the target" in step["text"]
    assert (step["largest_timestamp_ms"], step["modified_ms"]) == (None, modified)
