"""--deep: every record against the header of its batch."""

from pathlib import Path

import builders
import pytest
from directories import write_checkpoint
from each import each
from segments import (
    START_MS,
    batch,
    batches,
    name,
    only,
    partition_of,
    place_of,
    run_checks,
    target_of,
    write_partition,
)

from kdump.broker.settings import FILE, Settings
from kdump.engine.checks.framing import Framing
from kdump.engine.checks.records import Records
from kdump.engine.reading.check import Conditional, RestsOn
from kdump.engine.reading.partition_scan import PartitionScan
from kdump.engine.reading.scan import scan
from kdump.findings.finding import Finding, Severity
from kdump.kernels.text_form import time_text

COMPACTED = Settings().override(FILE, {"cleanup_policy": "compact,delete"})


def written(parent: Path, *parts: bytes) -> tuple[Path, int, int]:
    """Write a partition of two sound batches, some others, and give their place."""
    before = batches(0, 6)
    directory = write_partition(parent, {0: [*before, *parts]})
    return directory, len(b"".join(before)), len(parts[0])


def deep(parent: Path, *parts: bytes, settings: Settings | None = None) -> Finding:
    directory, position, size = written(parent, *parts)
    assert run_checks(directory) == ()  # nothing shows without a look inside
    (found,) = run_checks(directory, deep=True, settings=settings)
    if found.severity is Severity.DAMAGE:
        code = found.code
        assert place_of(found, directory) == (code, name(0, "log"), position, size)
    return found


@pytest.mark.parametrize("compress", [None, builders.gzip_bytes], ids=["plain", "gzip"])
class TestV2:
    """Plain batches are decoded many at a time, compressed ones one by one."""

    def one(self, compress: object, records: list[bytes], **members: object) -> bytes:
        given: dict[str, object] = {
            "base_offset": 6,
            "base_timestamp": START_MS + 60,
            "attributes": 0 if compress is None else builders.GZIP,
            "compress": compress,
        }
        return builders.batch(records, **{**given, **members})  # type: ignore[arg-type]

    def test_offset_outside_its_batch_is_reported(self, tmp_path: Path, compress: object) -> None:
        records = [builders.record(0), builders.record(1), builders.record(9)]
        found = deep(tmp_path, self.one(compress, records, last_offset_delta=2))
        assert (found.code, found.offset) == ("record-offset", 15)
        assert found.message == "Record offset 15 is outside its batch, 6-8."

    def test_damage_that_a_cleaning_may_have_sealed(self, tmp_path: Path, compress: object) -> None:
        """Where a batch has fewer records than offsets, and a cleaner came by."""
        for delta, cleaned, told in ((8, 15, 1), (8, 14, 0), (2, 15, 0)):
            parent = tmp_path / f"{delta}-{cleaned}"
            parent.mkdir()
            checkpoint = parent / "cleaner-offset-checkpoint"
            write_checkpoint(checkpoint, [("orders", 0, cleaned)])
            records = [builders.record(0), builders.record(1), builders.record(9)]
            found = deep(parent, self.one(compress, records, last_offset_delta=delta))
            assert found.code == "record-offset"
            assert len(found.consequences) == told

    def test_offset_below_its_batch_is_reported(self, tmp_path: Path, compress: object) -> None:
        found = deep(tmp_path, self.one(compress, [builders.record(-1), builders.record(1)]))
        assert (found.code, found.offset) == ("record-offset", 5)

    @pytest.mark.parametrize("deltas", [(0, 2, 1), (0, 4, 1, 3, 2)])
    def test_falling_offsets_have_one_finding(
        self, tmp_path: Path, compress: object, deltas: tuple[int, ...]
    ) -> None:
        records = [builders.record(delta) for delta in deltas]
        found = deep(tmp_path, self.one(compress, records, last_offset_delta=len(deltas) - 1))
        assert (found.code, found.offset) == ("record-offset", 7)
        assert found.message == "Record offset 7 is not above that of the record before it."

    def test_gaps_left_by_compaction_are_sound(self, tmp_path: Path, compress: object) -> None:
        records = [builders.record(2), builders.record(5)]
        directory, _, _ = written(tmp_path, self.one(compress, records, last_offset_delta=9))
        assert run_checks(directory, deep=True) == ()

    @pytest.mark.parametrize("off", [1000, -1])
    def test_wrong_largest_timestamp(self, tmp_path: Path, compress: object, off: int) -> None:
        records = [builders.record(0), builders.record(1, 5)]
        one = self.one(compress, records, max_timestamp=START_MS + 65 + off)
        found = deep(tmp_path, one)
        assert found.code == "batch-max-timestamp"
        assert (found.expected, found.actual) == (START_MS + 65, START_MS + 65 + off)

    def test_append_time_comes_from_the_header(self, tmp_path: Path, compress: object) -> None:
        attributes = builders.LOG_APPEND_TIME | (0 if compress is None else builders.GZIP)
        one = self.one(
            compress, [builders.record(0)], attributes=attributes, max_timestamp=START_MS + 99
        )
        assert run_checks(written(tmp_path, one)[0], deep=True) == ()

    def test_undecodable_records_are_reported(self, tmp_path: Path, compress: object) -> None:
        records = [builders.record(0), builders.record(1, length=900)]
        found = deep(tmp_path, self.one(compress, records))
        assert (found.code, found.actual) == ("records-undecodable", "record-cut-short")
        assert "Only 1 record can be decoded:" in found.message

    def test_surplus_records_are_reported(self, tmp_path: Path, compress: object) -> None:
        records = [builders.record(0), builders.record(1), builders.record(2)]
        found = deep(tmp_path, self.one(compress, records, records_count=2, last_offset_delta=2))
        assert (found.code, found.actual) == ("records-undecodable", "records-remaining")

    def test_null_keys_in_a_compacted_topic_are_a_note(
        self, tmp_path: Path, compress: object
    ) -> None:
        directory, _, _ = written(tmp_path, self.one(compress, [builders.record(key=None)]))
        assert run_checks(directory, deep=True) == ()
        (found,) = run_checks(directory, deep=True, settings=COMPACTED)
        assert (found.code, found.severity, found.offset) == ("null-key", Severity.NOTE, 6)


def inner(offsets: list[int], *, magic: int = 1, **members: object) -> list[bytes]:
    return [
        builders.message(offset, magic=magic, timestamp=START_MS + 60, **members)  # type: ignore[arg-type]
        for offset in offsets
    ]


def test_damaged_record_of_a_metadata_snapshot_is_reported(tmp_path: Path) -> None:
    directory = write_partition(tmp_path, {0: batches(0, 6)}, "__cluster_metadata")
    path = directory / f"{6:020}-{1:010}.checkpoint"
    path.write_bytes(builders.batch([builders.record(0), builders.record(1, length=900)]))
    found = only(directory, deep=True)
    assert (found.code, found.path, found.position) == ("metadata-snapshot-damaged", str(path), 0)
    assert "the records inside cannot be decoded to the end" in found.message
    assert run_checks(directory) == ()


def test_broken_codec_stream_is_reported(tmp_path: Path) -> None:
    one = batch(6, payload=b"no gzip at all", records_count=3, attributes=builders.GZIP)
    found = deep(tmp_path, one)
    assert (found.code, found.actual) == ("records-undecodable", "codec-failed")


def test_message_with_a_wrong_checksum_in_a_wrapper_is_reported(tmp_path: Path) -> None:
    messages = [*inner([0]), *inner([1], crc=7), *inner([2])]
    found = deep(tmp_path, builders.wrapper(messages, 8, timestamp=START_MS + 60))
    assert (found.code, found.offset) == ("inner-crc-mismatch", 7)


def test_nested_wrapper_is_reported(tmp_path: Path) -> None:
    nested = builders.wrapper(inner([0, 1]), 1, timestamp=START_MS + 60)
    found = deep(tmp_path, builders.wrapper([nested], 8, timestamp=START_MS + 60))
    assert (found.code, found.actual) == ("records-undecodable", "inner-compressed")


def test_wrapper_below_its_last_message_is_reported(tmp_path: Path) -> None:
    found = deep(tmp_path, builders.wrapper(inner([40, 41]), 8, timestamp=START_MS + 60))
    assert (found.code, found.actual) == ("records-undecodable", "wrapper-offset")


def test_v0_wrapper_with_another_offset_than_its_last_message_is_reported(tmp_path: Path) -> None:
    found = deep(tmp_path, builders.wrapper(inner([6, 7], magic=0), 9, magic=0))
    assert (found.code, found.expected, found.actual) == ("wrapper-offset", 7, 9)
    assert found.consequences == (
        "A broker that looks for offsets 8-9 stops at this wrapper, which does not contain them.",
    )


def test_v0_wrapper_that_hides_its_last_messages_is_reported(tmp_path: Path) -> None:
    """A broker goes by the wrapper's offset, a consumer by those inside."""
    found = deep(tmp_path, builders.wrapper(inner([6, 7, 8, 9], magic=0), 7, magic=0))
    assert (found.code, found.expected, found.actual) == ("wrapper-offset", 9, 7)
    assert found.consequences == (
        "A broker that looks for offsets 8-9 skips this wrapper, which contains them.",
    )


def test_wrapper_repeating_its_predecessor_is_reported(tmp_path: Path) -> None:
    found = deep(tmp_path, builders.wrapper(inner([0, 1, 2]), 7, timestamp=START_MS + 60))
    assert (found.code, found.expected, found.actual) == ("wrapper-offset", 6, 5)


def test_records_of_a_misplaced_batch_are_a_consequence(tmp_path: Path) -> None:
    """It may be no batch of this log at all."""
    records = [builders.record(0), builders.record(1, length=900)]
    times = {"base_timestamp": START_MS + 10, "max_timestamp": START_MS + 10}
    one = builders.batch(records, base_offset=1, **times)
    directory, position, _ = written(tmp_path, one, batch(6))
    found = only(directory, deep=True)
    assert (found.code, found.position) == ("offset-not-rising", position)
    assert found.consequences == (f"records-undecodable@{position}",)


def test_wrapper_with_a_timestamp_of_no_message_is_reported(tmp_path: Path) -> None:
    found = deep(tmp_path, builders.wrapper(inner([0, 1]), 8, timestamp=START_MS + 70))
    assert (found.code, found.expected) == ("batch-max-timestamp", START_MS + 60)


def test_inner_messages_of_another_magic_ignore_wrapper_time(tmp_path: Path) -> None:
    """Old cleaners left such wrappers (KAFKA-4298)."""
    wrapper = builders.wrapper([*inner([0], magic=0), *inner([1])], 8, timestamp=START_MS + 99)
    assert run_checks(written(tmp_path, wrapper)[0], deep=True) == ()


def test_slack_after_a_value_is_a_note(tmp_path: Path) -> None:
    found = deep(tmp_path, builders.message(6, timestamp=START_MS + 60, slack=b"abc"))
    assert (found.code, found.severity) == ("slack-bytes", Severity.NOTE)
    assert found.message.startswith("One message has")


def test_unusual_legal_values_are_summed_over_pieces(tmp_path: Path) -> None:
    """Of records without a key and of messages with slack: how many, and where the first is."""
    records = Records(partition_of(write_partition(tmp_path, {0: []})))
    for sums in ((0, -1, 0, -1), (0, -1, 2, 400), (3, 70, 1, 900), (1, 80, 0, -1)):
        records.add(sums)
    assert records.sums() == (4, 70, 3, 400)


def test_batches_over_the_limit_are_counted_as_unchecked(tmp_path: Path) -> None:
    large = batch(6, 1, payload=builders.gzip_bytes(bytes(100_000)), attributes=builders.GZIP)
    directory, _, _ = written(tmp_path, large)
    partition = PartitionScan(
        target_of(directory), directory=None, settings=Settings(), deep=True, limit=50_000
    )
    records = Records(partition)
    (found,) = scan(partition, [Framing(partition), records])
    assert isinstance(found, Finding)
    assert (found.code, found.severity) == ("over-decompress-limit", Severity.NOTE)
    assert records.not_checked == {"batches_over_limit": 1}


def test_messages_of_opened_wrappers_are_counted(tmp_path: Path) -> None:
    directory, _, _ = written(
        tmp_path, builders.wrapper(inner([0, 1, 2]), 8, timestamp=START_MS + 60)
    )
    for looked_inside in (False, True):
        partition = partition_of(directory, deep=looked_inside)
        checks = [Records(partition)] if looked_inside else [Framing(partition)]
        assert not list(scan(partition, checks))
        (segment,) = partition.segments
        counted = (segment.records_count, segment.wrappers)
        assert counted == ((9, 0) if looked_inside else (6, 1))


def test_wrong_header_is_reported_once(tmp_path: Path) -> None:
    directory, _, _ = written(tmp_path, batch(6, records_count=5, last_offset_delta=2))
    assert only(directory, deep=True).code == "batch-count"


def test_partial_message_at_the_end_of_a_wrapper_is_a_note(tmp_path: Path) -> None:
    messages = [*inner([0, 1]), b"half a message, which no reader sees"]
    found = deep(tmp_path, builders.wrapper(messages, 7, timestamp=START_MS + 60))
    assert (found.code, found.severity) == ("inner-cut-short", Severity.NOTE)


def suspects(directory: Path) -> list[tuple[str, RestsOn | None]]:
    partition = partition_of(directory, deep=True)
    found = scan(partition, [Records(partition)])
    return [
        (one.finding.code, one.touches) if isinstance(one, Conditional) else (one.code, None)
        for one in found
    ]


def test_dependencies_of_record_findings(tmp_path: Path) -> None:
    """The place of their batch; for one that overlaps what lies before, its last byte as well."""
    odd = builders.batch([builders.record(5)], base_offset=6, last_offset_delta=0,
                         base_timestamp=START_MS + 60)  # fmt: skip
    directory, at, _ = written(tmp_path / "a", odd)
    assert suspects(directory) == [("record-offset", RestsOn(0, at, at + 1))]
    overlaps = builders.wrapper(inner([0, 1, 2]), 7, timestamp=START_MS + 60)
    directory, at, _ = written(tmp_path / "b", overlaps)
    assert suspects(directory) == [("wrapper-offset", RestsOn(0, at - 1, at + 1))]


@each(
    ("relative", "last", "first"),
    [((0, 1, 2), 8, None), ((0, 1, 2), 7, 5), ((0, 1, 2, 3, 4), 7, 3), ((0, 1), 6, 5),
     ((0, 1, 2, 3, 4, 5), 6, 1), ((0, 1, 2, 3, 4, 5, 6), 6, 0)],
)  # fmt: skip
def test_wrappers_that_overlap_earlier_ones(
    tmp_path: Path, relative: tuple[int, ...], last: int, first: int | None
) -> None:
    wrapper = builders.wrapper(inner([*relative]), last, timestamp=START_MS + 60)
    found = run_checks(written(tmp_path, wrapper)[0], deep=True)
    told = [(one.code, one.offset, one.expected, one.actual) for one in found]
    assert told == ([] if first is None else [("wrapper-offset", first, 6, first)])
    for one in found:
        assert one.message == (
            f"The wrapper's first message has offset {first}, but the entry before reaches 5."
        )


def test_overlapping_wrappers_in_a_row(tmp_path: Path) -> None:
    times = {"timestamp": START_MS + 60}
    parts = [builders.wrapper(inner([0, 1, 2]), last, **times) for last in (8, 10, 13)]
    directory, at, size = written(tmp_path, *parts)
    (found,) = run_checks(directory, deep=True)
    assert (found.code, found.position, found.expected) == ("wrapper-offset", at + size, 9)


def test_each_batch_with_a_wrong_time_is_reported(tmp_path: Path) -> None:
    def one(base: int, newest: int) -> bytes:
        records = [builders.record(0, 3), builders.record(1, newest), builders.record(2, 1)]
        return builders.batch(records, base_offset=base, base_timestamp=START_MS,
                              max_timestamp=START_MS + 99)  # fmt: skip

    directory, _, _ = written(tmp_path, one(6, 50), one(9, 40), one(12, 99))
    found = run_checks(directory, deep=True)
    assert [(told.code, told.offset, told.expected) for told in found] == [
        ("batch-max-timestamp", 8, START_MS + 50),
        ("batch-max-timestamp", 11, START_MS + 40),
    ]
    assert found[0].message == (
        f"The header gives {time_text(START_MS + 99)} as the largest timestamp, but the newest "
        f"record has {time_text(START_MS + 50)}. A max-timestamp lookup may "
        "find no record."
    )
    early = builders.batch([builders.record(0, 9)], base_offset=6, base_timestamp=START_MS,
                           max_timestamp=START_MS + 5)  # fmt: skip
    (told,) = run_checks(written(tmp_path / "early", early)[0], deep=True)
    assert told.message == (
        f"The header gives {time_text(START_MS + 5)} as the largest timestamp, but the newest "
        f"record has {time_text(START_MS + 9)}. Lookups by time "
        f"skip the records after {time_text(START_MS + 5)}."
    )


@pytest.mark.parametrize("first", [0, 3])
def test_first_batch_of_a_log_is_checked(tmp_path: Path, first: int) -> None:
    """No time, no offset and no count is carried over from anywhere."""
    records = [builders.record(0, -9), builders.record(1, -5)]
    one = builders.batch(records, base_offset=first, base_timestamp=9, max_timestamp=4)
    assert run_checks(write_partition(tmp_path / "a", {0: [one]}), deep=True) == ()
    wrong = builders.batch(records, base_offset=first, base_timestamp=9, max_timestamp=6)
    (told,) = run_checks(write_partition(tmp_path / "b", {0: [wrong]}), deep=True)
    assert (told.code, told.expected) == ("batch-max-timestamp", 4)


@pytest.mark.parametrize(("count", "words"), [(1, "One message has"), (3, "3 messages have")])
def test_messages_with_slack_are_counted(tmp_path: Path, count: int, words: str) -> None:
    parts = [builders.message(6, timestamp=START_MS), *(
        builders.message(7 + n, timestamp=START_MS, slack=b"abc") for n in range(count)
    )]  # fmt: skip
    directory, at, size = written(tmp_path, *parts)
    (found,) = run_checks(directory, deep=True)
    assert (found.code, found.position) == ("slack-bytes", at + size)
    assert found.message.startswith(words)


@pytest.mark.parametrize(("count", "words"), [(1, "One record has"), (2, "2 records have")])
def test_records_without_a_key_are_counted(tmp_path: Path, count: int, words: str) -> None:
    parts = [builders.batch([builders.record(n, key=None) for n in range(count)], base_offset=6,
                            base_timestamp=START_MS)]  # fmt: skip
    (found,) = run_checks(written(tmp_path, *parts)[0], deep=True, settings=COMPACTED)
    assert (found.code, found.offset) == ("null-key", 6)
    assert found.message.startswith(words)
    for other in (Settings().override(FILE, {"cleanup_policy": "delete"}),
                  Settings(cleanup_policy="compact")):  # fmt: skip
        assert run_checks(tmp_path / "orders-0", deep=True, settings=other) == ()
