"""A part of the work: slices, limits, and a state."""

import shutil
import time
from pathlib import Path

import builders
import pytest
from verify_command import TIME, break_batch, names_in, rows, run


def test_slices_add_up_to_the_whole(data: Path) -> None:
    break_batch(data)
    slices = [rows(run("--subset", f"{number}/3", data)) for number in (1, 2, 3)]
    assert sum(each[-1]["segments"] for each in slices) == 6
    assert sum(each[-1]["not_checked"].get("segments_outside_subset", 0) for each in slices) == 12
    assert [row.get("code") for each in slices for row in each[:-1]] == ["crc-mismatch", None]


def test_slice_is_always_the_same(data: Path) -> None:
    before = rows(run("--subset", "1/3", data))[-1]["segments"]
    shutil.move(data / "orders-0", data.with_name("orders-0"))
    after = [rows(run("--subset", "1/3", path))[-1] for path in (data, data.with_name("orders-0"))]
    assert sum(each["segments"] for each in after) == before


def test_exhausted_time_limit_is_summarized_without_an_error(data: Path) -> None:
    break_batch(data)
    result = run("--max-duration", "0", data)
    (summary,) = rows(result)
    assert result.exit_code == 0
    assert summary["finished"] is False
    assert summary["not_checked"]["segments_out_of_time"] == 6
    assert (summary["segments_checked"], summary["segments_unchecked"]) == (0, 6)
    assert summary["unchecked"] == 6


def test_batch_over_the_limit_is_a_note(data: Path) -> None:
    packed = builders.batch(
        [builders.record(n, 0, b"k", b"v" * 5000) for n in range(2)],
        attributes=1,
        compress=builders.gzip_bytes,
        base_offset=30,
        base_timestamp=TIME,
        max_timestamp=TIME,
    )
    path = data / "orders-0" / f"{20:020}.log"
    path.write_bytes(path.read_bytes() + packed)
    note, summary = rows(run("--deep", "--decompress-limit", "1000", data))
    assert (note["code"], note["severity"]) == ("over-decompress-limit", "note")
    assert summary["not_checked"] == {"batches_over_limit": 1}
    assert (summary["segments_unchecked"], summary["unchecked"]) == (0, 1)
    assert "not_checked=1" in run("--nagios", "--deep", "--decompress-limit", "1k", data).stdout


def test_bwlimit_slows_down(data: Path) -> None:
    started = time.monotonic()
    run("--bwlimit", "10k", data)
    assert time.monotonic() - started > 0.15  # 3,500 bytes and the burst before them


def test_state_skips_checked_segments_and_repeats_their_findings(
    data: Path, tmp_path: Path
) -> None:
    break_batch(data)
    state = tmp_path / "state"
    first = run("--state", state, data)
    second = run("--state", state, data)
    assert [result.exit_code for result in (first, second)] == [3, 3]
    assert rows(first)[:-1] == rows(second)[:-1]
    assert [rows(result)[-1]["segments"] for result in (first, second)] == [6, 2]
    assert [rows(result)[-1]["segments_checked"] for result in (first, second)] == [6, 6]
    assert names_in(tmp_path) == {"data", "state"}


def test_unreadable_state_file_is_reported_and_replaced(data: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.write_bytes(b"\0\1garbage")
    assert run("--state", state, data).exit_code == 5
    assert state.read_bytes() == b"\0\1garbage"
    result = run("--force", "--state", state, data)
    assert result.exit_code == 0
    assert "everything is verified again" in result.stderr
    assert rows(run("--state", state, data))[-1]["segments"] == 2


@pytest.mark.parametrize("option", ["--state", "--textfile"])
def test_verified_directory_is_not_written_to(data: Path, option: str) -> None:
    before = sorted(data.rglob("*"))
    assert run(option, data / "file", data).exit_code == 2
    assert sorted(data.rglob("*")) == before
