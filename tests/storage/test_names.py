import pytest
from builders import retired_directory_name
from each import each
from generated import given, st

from kdump.storage import names
from kdump.storage.names import DirectoryName, FileName, Kind, Retirement

HEX = "313143b6bb5f454684c5c6ab72abc07b"
SEGMENT_FILES = [
    ("log", Kind.LOG),
    ("kafka", Kind.PRE08_LOG),
    ("index", Kind.OFFSET_INDEX),
    ("timeindex", Kind.TIME_INDEX),
    ("txnindex", Kind.TRANSACTION_INDEX),
    ("snapshot", Kind.PRODUCER_SNAPSHOT),
]


@each("suffix", ["", ".deleted", ".cleaned", ".swap"])
@each(("extension", "kind"), SEGMENT_FILES)
def test_segment_files_are_parsed(extension: str, kind: Kind, suffix: str) -> None:
    name = f"00000000000048230114.{extension}{suffix}"
    assert names.parse(name) == FileName(name, kind, 48230114, suffix)
    assert names.parse(name).is_retired is bool(suffix)
    assert names.file_name(kind, 48230114, suffix) == name


@each(
    ("name", "kind", "suffix"),
    [
        ("leader-epoch-checkpoint", Kind.LEADER_EPOCHS, ""),
        ("leader-epoch-checkpoint.tmp", Kind.LEADER_EPOCHS, ".tmp"),
        ("partition.metadata", Kind.PARTITION_METADATA, ""),
        ("replication-offset-checkpoint", Kind.OFFSET_CHECKPOINT, ""),
        ("recovery-point-offset-checkpoint.tmp", Kind.OFFSET_CHECKPOINT, ".tmp"),
        ("log-start-offset-checkpoint", Kind.OFFSET_CHECKPOINT, ""),
        ("cleaner-offset-checkpoint", Kind.OFFSET_CHECKPOINT, ""),
        ("some-new-checkpoint", Kind.OTHER_CHECKPOINT, ""),
        ("bootstrap.checkpoint", Kind.METADATA_SNAPSHOT, ""),
        ("quorum-state", Kind.QUORUM_STATE, ""),
        ("meta.properties", Kind.META_PROPERTIES, ""),
        (".kafka_cleanshutdown", Kind.CLEAN_SHUTDOWN, ""),
        (".lock", Kind.LOCK, ""),
        ("remote_log_snapshot", Kind.REMOTE_LOG_SNAPSHOT, ""),
        ("meta.properties.kdump-tmp", Kind.META_PROPERTIES, ".kdump-tmp"),
        ("notes.txt", Kind.UNKNOWN, ""),
        ("notes.tmp", Kind.UNKNOWN, ".tmp"),
        ("", Kind.UNKNOWN, ""),
        (".log", Kind.UNKNOWN, ""),
        ("12x.log", Kind.UNKNOWN, ""),
        ("-5.log", Kind.UNKNOWN, ""),
        ("12.log.old", Kind.UNKNOWN, ""),
        ("\u0661\u0662.log", Kind.UNKNOWN, ""),
    ],
)
def test_other_files_are_parsed(name: str, kind: Kind, suffix: str) -> None:
    assert names.parse(name) == FileName(name, kind, suffix=suffix)


def test_any_count_of_digits_parses() -> None:
    found = names.parse("7.log")
    assert found.base_offset == 7
    assert names.parse("0" * 90 + "7.log").base_offset == 7


def test_offset_beyond_int64_is_invalid() -> None:
    assert names.parse(f"{2**63 - 1}.log").base_offset == 2**63 - 1
    assert names.parse(f"{2**63}.log").kind is Kind.UNKNOWN
    assert names.parse("9" * 5000 + ".log").kind is Kind.UNKNOWN


def test_backup_keeps_its_kind() -> None:
    name = names.backup_name("00000000000000000000.index", "20261121T101112Z")
    found = names.parse(name)
    assert (found.kind, found.base_offset) == (Kind.OFFSET_INDEX, 0)
    assert found.suffix == ".bak-20261121T101112Z"


@pytest.mark.parametrize("suffix", ["", ".deleted", ".part"])
def test_metadata_snapshots_are_parsed(suffix: str) -> None:
    name = f"00000000000000000616-0000000003.checkpoint{suffix}"
    assert names.parse(name) == FileName(name, Kind.METADATA_SNAPSHOT, 616, suffix, 3)


def test_metadata_snapshot_being_written_is_parsed() -> None:
    found = names.parse("00000000000000000616-0000000003-1234567890123456789.checkpoint.part")
    assert (found.kind, found.base_offset, found.epoch) == (Kind.METADATA_SNAPSHOT, 616, 3)


@each("numbers", [f"{2**63}-3", f"616-{2**31}", "616", "616-3-", "a-3", "-616-3"])
def test_impossible_metadata_snapshot_numbers_are_unknown(numbers: str) -> None:
    name = f"{numbers}.checkpoint"
    assert names.parse(name) == FileName(name, Kind.UNKNOWN)


def test_unusual_metadata_snapshot_name_is_parsed() -> None:
    largest = names.parse(f"{2**63 - 1}-{2**31 - 1}.checkpoint")
    assert (largest.base_offset, largest.epoch) == (2**63 - 1, 2**31 - 1)
    for name in (f"{616:020}-3.checkpoint", f"616-{3:010}.checkpoint"):
        found = names.parse(name)
        assert (found.base_offset, found.epoch) == (616, 3)


def test_remote_index_is_parsed() -> None:
    name = "617_Lq8pIYk-0JLg5Cnoy6C1zQ.timeindex.deleted"
    found = names.parse(name)
    assert found.kind is Kind.TIME_INDEX
    assert found.base_offset == 617
    assert found.suffix == ".deleted"


@each(
    ("name", "topic", "partition"),
    [
        ("orders-0", "orders", 0),
        ("wide-8-7", "wide-8", 7),
        ("clock.far.roll-0", "clock.far.roll", 0),
        ("__cluster_metadata-0", "__cluster_metadata", 0),
        ("a--1", "a-", 1),
        ("x-delete-3", "x-delete", 3),
    ],
)
def test_live_directories_are_parsed(name: str, topic: str, partition: int) -> None:
    assert names.parse_directory(name) == DirectoryName(topic, partition)
    assert names.directory_name(topic, partition) == name


@pytest.mark.parametrize("retirement", Retirement)
def test_retired_directories_are_parsed(retirement: Retirement) -> None:
    name = f"moving.topic-0.{HEX}-{retirement.value}"
    assert names.parse_directory(name) == DirectoryName("moving.topic", 0, retirement, HEX)
    assert (
        retired_directory_name("moving.topic", 0, retirement=retirement.value, unique_id=HEX)
        == name
    )


def test_long_retired_name_truncates_the_topic() -> None:
    topic = "t" * 249
    name = retired_directory_name(topic, 12, retirement=Retirement.DELETE.value, unique_id=HEX)
    assert len(name) == 255
    found = names.parse_directory(name)
    assert found is not None
    assert topic.startswith(found.topic)
    moved = retired_directory_name(topic, 12, retirement=Retirement.FUTURE.value, unique_id=HEX)
    assert names.parse_directory(moved) == DirectoryName(topic, 12, Retirement.FUTURE, HEX)


@each(
    "name",
    [
        "",
        "lost+found",
        "remote-log-index-cache",
        "orders-",
        "-0",
        "orders-x",
        f"orders-{2**31}",
        "orders-0-delete",
        "orders-0.-delete",
        "orders-x.abc-delete",
        "orders-\u0663",
        f"or ders-0.{HEX}-stray",
    ],
)
def test_unloadable_directory_name_is_refused(name: str) -> None:
    assert names.parse_directory(name) is None


def test_unusual_directory_name_is_parsed() -> None:
    assert names.parse_directory("orders-007") == DirectoryName("orders", 7)
    found = names.parse_directory("orders-7.short-delete")
    assert found == DirectoryName("orders", 7, Retirement.DELETE, "short")


@each("topic", ["my orders", "a/b", ".", "..", "t" * 250, "caf\u00e9"])
def test_illegal_topics_are_marked(topic: str) -> None:
    found = names.parse_directory(f"{topic}-0")
    assert found is not None
    assert not found.legal


@each("name", ["x.log", "x.index.swap", "x.snapshot.cleaned", f"{2**63}.log"])
def test_files_preventing_a_start_are_recognized(name: str) -> None:
    assert names.stops_start(name)


@each(
    "name",
    [
        "7.log",
        "-7.log",
        "7x",
        "log",
        "x.kafka",
        "x.txt",
        "x.log.deleted",
        "x.log.tmp",
        f"{0:020}.log",
    ],
)
def test_harmless_files_do_not_stop_a_start(name: str) -> None:
    assert not names.stops_start(name)


@given(
    st.sampled_from(["", "-", "_"]),
    st.one_of(st.text("0189\u0663ax_-.", max_size=24), st.just(f"{7:020}_{'a' * 22}")),
    st.sampled_from(["", ".log", ".index", ".txnindex", ".snapshot", ".kafka", ".checkpoint"]),
    st.sampled_from(["", names.SWAP, names.CLEANED, names.TEMPORARY, "-checkpoint"]),
)
def test_usual_names_do_not_stop_a_start(sign: str, number: str, kind: str, suffix: str) -> None:
    for digits in (number, number.zfill(20)[:20]):
        name = sign + digits + kind + suffix
        if names.is_usual(name):
            assert not names.stops_start(name), name
            assert not (name.endswith(names.SWAP) and names.lacks_number(name)), name
    assert names.is_usual(f"{0:020}.log")
    assert names.is_usual(names.PARTITION_METADATA)
    assert not names.is_usual(f"{0:020}.txnindex")


def test_legal_topics_are_accepted() -> None:
    for topic in ("t" * 249, "a.b_c-d", "...", "7"):
        found = names.parse_directory(f"{topic}-0")
        assert found is not None
        assert found.legal


@given(st.text())
def test_any_text_is_parsed(name: str) -> None:
    assert names.parse(name).name == name
    names.parse_directory(name)


@given(
    st.text("abcXYZ019._-", min_size=1, max_size=40),
    st.integers(0, 2**31 - 1),
    st.sampled_from([None, *Retirement]),
)
def test_directory_names_round_trip(
    topic: str, partition: int, retirement: Retirement | None
) -> None:
    if retirement is None:
        name, unique = names.directory_name(topic, partition), None
    else:
        unique = HEX
        name = retired_directory_name(topic, partition, retirement=retirement.value, unique_id=HEX)
    assert names.parse_directory(name) == DirectoryName(topic, partition, retirement, unique)
