"""Every small file of the corpora against what the broker's own tool printed of it."""

import gzip
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import corpus
import pytest
from each import each

from kdump.storage import checkpoints, properties
from kdump.storage.index import OffsetIndex
from kdump.storage.names import Kind, parse, parse_directory
from kdump.storage.producer_snapshot import ProducerSnapshot
from kdump.storage.source import read_whole
from kdump.storage.time_index import TimeIndex
from kdump.storage.transaction_index import TransactionIndex

COPIES = ["clean", "killed", "live", "recovered"]
Numbers = list[tuple[int, ...]]


def base_offset(path: Path) -> int:
    found = parse(path.name).base_offset
    assert found is not None
    return found


def offset_rows(path: Path) -> Numbers:
    index = OffsetIndex(read_whole(path), base_offset(path))
    return [tuple(entry) for _, entry in index.slots(0, index.tool_end())]


def time_rows(path: Path) -> Numbers:
    index = TimeIndex(read_whole(path), base_offset(path))
    return [tuple(entry) for _, entry in index.slots(0, index.tool_end())]


def transaction_rows(path: Path) -> Numbers:
    index = TransactionIndex(read_whole(path), base_offset(path))
    assert index.problems() == []
    return [tuple(entry) for _, entry in index.slots()]


def producer_rows(path: Path) -> Numbers:
    snapshot = ProducerSnapshot(read_whole(path))
    assert snapshot.problems() == []
    return [
        (
            state.producer_id,
            state.producer_epoch,
            state.coordinator_epoch,
            state.current_txn_first_offset,
            state.last_timestamp_ms,
            *((state.last_sequence, state.last_offset, state.offset_delta)
              if state.last_offset >= 0 else ()),
        )
        for state in snapshot
    ]  # fmt: skip


def printed(text: str, fields: Iterable[str]) -> Numbers:
    rows = []
    for line in text.splitlines():
        if line.startswith(("EXCEPTION", "Mismatches", "Found timestamp", "The following")):
            break  # what the tool has to say of the rows above
        line = line.replace("OptionalLong.empty", "-1")
        line = re.sub(r"OptionalLong\[(-?\d+)\]", r"\1", line)
        pairs = dict(re.findall(r"(\w+): (-?\d+)", line))
        if pairs and not line.startswith("Dumping"):
            rows.append(tuple(int(pairs[field]) for field in fields if field in pairs))
    return rows


TOOL: dict[str, tuple[Callable[[Path], Numbers], list[str]]] = {
    ".index": (offset_rows, ["offset", "position"]),
    ".timeindex": (time_rows, ["timestamp", "offset"]),
    ".txnindex": (
        transaction_rows,
        ["version", "producerId", "firstOffset", "lastOffset", "lastStableOffset"],
    ),
    ".snapshot": (
        producer_rows,
        [
            "producerId",
            "producerEpoch",
            "coordinatorEpoch",
            "currentTxnFirstOffset",
            "lastTimestamp",
            "lastSequence",
            "lastOffset",
            "offsetDelta",
        ],
    ),
}


@each("copy", COPIES)
@each("extension", TOOL)
def test_rows_match_the_tool_of_the_broker(extension: str, copy: str) -> None:
    rows_of, fields = TOOL[extension]
    data = corpus.corpus(f"modern/data/{copy}")
    answers = corpus.find_expected(f"modern/{copy}/dumplogsegments")
    compared = rows = 0
    for answer in corpus.files(answers, f"*{extension}.plain.txt"):
        path = data / answer.relative_to(answers).with_name(answer.name.removesuffix(".plain.txt"))
        text = answer.read_text("utf-8")
        found = rows_of(path)
        if "EXCEPTION" in text:
            found = found[: len(printed(text, fields))]  # an empty log ends the tool
        assert found == printed(text, fields), path
        compared += 1
        rows += len(found)
    assert compared > 3
    assert rows > 10


ALL_DATA = [*corpus.names("modern/data"), *corpus.names("old")]


@pytest.mark.parametrize("name", [n for n in ALL_DATA if "damage" not in n])
def test_sound_files_have_no_problems(name: str) -> None:
    directory = corpus.corpus(name)
    found = 0
    for path in corpus.files(directory, "*"):
        kind, base = parse(path.name).kind, parse(path.name).base_offset
        place = parse_directory(path.parent.name)
        if kind is Kind.OFFSET_INDEX:
            extent = OffsetIndex(read_whole(path), base or 0).extent()
            assert extent.is_sound or extent.is_stale, path
        elif kind is Kind.TIME_INDEX:
            extent = TimeIndex(read_whole(path), base or 0).extent()
            assert extent.is_sound or extent.is_stale, path
        elif kind is Kind.LEADER_EPOCHS:
            epochs = checkpoints.parse_leader_epochs(read_whole(path))
            assert epochs.problems == [], path
            assert checkpoints.load_epochs(epochs.entries) == epochs.entries
        elif kind is Kind.OFFSET_CHECKPOINT:
            assert checkpoints.parse_offsets(read_whole(path)).problems == [], path
        elif kind is Kind.META_PROPERTIES:
            assert properties.parse_meta_properties(read_whole(path)).problems == [], path
        elif kind is Kind.PARTITION_METADATA:
            assert properties.parse_partition_metadata(read_whole(path)).problems == [], path
        elif kind is Kind.QUORUM_STATE:
            assert properties.parse_quorum_state(read_whole(path)).problems == [], path
        elif kind is Kind.CLEAN_SHUTDOWN:
            assert properties.parse_clean_shutdown(read_whole(path)).problems == [], path
        else:
            assert kind is not Kind.UNKNOWN, path
            continue
        assert place is not None or base is None, path
        found += 1
    assert found or "v07" in name


@each("copy", COPIES)
def test_trimmed_indexes_of_a_clean_stop_have_no_zero_tail(copy: str) -> None:
    preallocated = 0
    for path in corpus.files(corpus.corpus(f"modern/data/{copy}"), "*.index"):
        if path.parent.name.endswith("-delete"):
            continue
        extent = OffsetIndex(read_whole(path), base_offset(path)).extent()
        preallocated += extent.used < extent.entries
    assert (preallocated > 0) is (copy in ("live", "killed"))


def test_topic_ids_match_the_broker() -> None:
    import json

    topics = json.loads(corpus.find_expected("modern/clean/topics.json").read_bytes())
    seen = 0
    for path in corpus.files(corpus.corpus("modern/data/clean"), "partition.metadata"):
        place = parse_directory(path.parent.name)
        assert place is not None
        if place.topic in topics:
            found = properties.parse_partition_metadata(read_whole(path))
            assert found.values["topic_id"] == topics[place.topic]["id"]
            seen += 1
    assert seen > 20


def test_corpus_answers_are_readable() -> None:
    """Archives, plain files and compressed files are all found."""
    path = corpus.find_expected("modern/clean/offsets_for_times.json.gz")
    assert gzip.decompress(path.read_bytes()).startswith(b"{")
