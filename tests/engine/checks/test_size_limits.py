"""Segments and indexes against the sizes that were stated for them."""

from pathlib import Path

import pytest
from segments import batch, batches, run_checks, write, write_partition

from kdump.broker.settings import FILE, OPTION, TOPIC, Settings


def test_files_over_a_stated_limit_are_a_note(tmp_path: Path) -> None:
    directory = write_partition(
        tmp_path, {0: batches(0, 60), 60: batches(60, 90), 90: batches(90, 180)}
    )
    sizes = {
        end: sorted(path.stat().st_size for path in directory.glob(f"*.{end}"))
        for end in ("log", "index")
    }

    def told(source: str = TOPIC, **values: int) -> list[tuple[str, str, object, object]]:
        found = run_checks(directory, settings=Settings().override(source, values))
        found = [one for one in found if one.code != "roll-unexplained"]
        assert all(one.severity.value == "note" for one in found)
        return [(one.code, Path(one.path).name, one.expected, one.actual) for one in found]

    largest = sizes["log"][-1]
    assert told(segment_bytes=largest) == []
    first = f"{0:020}.log"
    assert told(segment_bytes=sizes["log"][0]) == [
        ("segment-over-limit", first, sizes["log"][0], largest)
    ]
    newest = f"{90:020}.log"
    assert told(OPTION, segment_bytes=largest - 1) == [
        ("segment-over-limit", newest, largest - 1, largest)
    ]
    indexes = sizes["index"]
    timed = max(path.stat().st_size for path in directory.glob("*.timeindex"))
    assert told(index_size_max_bytes=timed) == []
    ((code, _, expected, actual),) = told(index_size_max_bytes=indexes[0])
    assert (code, expected, actual) == ("index-over-limit", indexes[0], timed)


@pytest.mark.parametrize(
    ("source", "topic", "name"),
    [
        (TOPIC, "orders", "segment.bytes=1 "),
        (FILE, "orders", "log.segment.bytes=1 "),
        (FILE, "__consumer_offsets", " segment.bytes=1 "),
    ],
)
def test_limit_has_the_name_that_its_source_uses(
    tmp_path: Path, source: str, topic: str, name: str
) -> None:
    directory = write_partition(tmp_path, {0: batches(0, 60)}, topic)
    settings = Settings()._replace(internal_segment_bytes=(("__consumer_offsets", 1),))
    found = run_checks(directory, settings=settings.override(source, {"segment_bytes": 1}))
    (message,) = (one.message for one in found if one.code == "segment-over-limit")
    assert f"over {name.strip()} " in message


def test_no_report_without_a_stated_limit(tmp_path: Path) -> None:
    directory = write_partition(tmp_path, {0: batches(0, 60)})
    write(directory, 0, "index", bytes(8))
    limits = {"segment_bytes": 1, "index_size_max_bytes": 1}
    codes = {one.code for one in run_checks(directory, settings=Settings()._replace(**limits))}
    assert not codes & {"segment-over-limit", "index-over-limit"}


def test_offsets_that_no_index_can_name(tmp_path: Path) -> None:
    """In a sealed segment, as old cleaners made; up to the last that fits nothing is wrong."""
    far = 2**31
    for last, count in ((far - 1, 0), (far, 1)):
        parent = tmp_path / str(last)
        directory = write_partition(parent, {0: [batch(0)], far + 9: [batch(far + 9)]}, "t")
        write(directory, 0, "log", batch(0) + batch(last - 2))
        found = [one for one in run_checks(directory) if one.code == "offset-overflow"]
        assert len(found) == count
    (one,) = found
    assert (one.severity.value, one.segment, one.position) == ("note", 0, len(batch(0)))
    assert (one.expected, one.actual) == (far - 1, far)
    assert one.message.startswith("One batch ends more than 2,147,483,647 offsets above the base")
    # What reaches into the next segment is damage of another kind.
    write(directory, 0, "log", batch(0) + batch(far + 9))
    codes = {one.code for one in run_checks(directory)}
    assert "offset-past-next" in codes
    assert "offset-overflow" not in codes
