"""Missing segments where the settings of the topic are known: what is loss, and what is lawful."""

from pathlib import Path

import builders
import pytest
from directories import CLUSTER, write_checkpoint
from metadata_log import config, log_of, partition, topic
from segments import batches, run_checks, write, write_partition

from kdump.broker.settings import FILE, OPTION, TOPIC, Settings
from kdump.engine.verify.options import VerifyOptions
from kdump.engine.verify.run import verify
from kdump.findings.finding import Finding
from kdump.replay.topic_settings import topic_settings

DELETED = Settings().override(TOPIC, {"cleanup_policy": "delete"})
KNOWN = Settings(topic_is_known=True)


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """Give a log of four segments that lost its second."""
    bases = (0, 30, 60, 90)
    node = tmp_path / "node" / "d1"  # with no directories of other tests beside it
    node.mkdir(parents=True)
    orders = write_partition(node, {base: batches(base, base + 30) for base in bases})
    remove(orders, 30)
    for checkpoint in ("replication", "cleaner"):
        write_checkpoint(node / f"{checkpoint}-offset-checkpoint", [])
    return orders


def remove(directory: Path, base: int) -> None:
    for path in directory.glob(f"{base:020}.*"):
        path.unlink()


def run_check(directory: Path, settings: Settings, *, quick: bool = False) -> list[Finding]:
    found = run_checks(directory, settings=settings, quick=quick)
    return [one for one in found if one.code in ("segment-missing", "segments-apart")]


def only(directory: Path, settings: Settings, *, quick: bool = False) -> Finding:
    (found,) = run_check(directory, settings, quick=quick)
    return found


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize(
    "settings", [DELETED, KNOWN, Settings().override(OPTION, {"cleanup_policy": "delete"})]
)
def test_missing_segment_of_an_uncompacted_topic_is_lost(
    orders: Path, settings: Settings, quick: bool
) -> None:
    found = only(orders, settings, quick=quick)
    assert (found.code, found.severity.value) == ("segment-missing", "damage")
    assert (found.offset, found.next_offset) == (30, 60)
    assert (found.lost_at_least, found.lost_at_most) == (30, 30)
    source = settings.source("cleanup_policy")
    assert found.message == (
        "Offsets 30-59 (30 offsets) are in no segment. They are lost: this topic is not compacted "
        f"(cleanup.policy=delete, {source})."
    )


def test_broker_files_decide_if_the_log_is_otherwise_complete(orders: Path) -> None:
    of_broker = Settings().override(FILE, {"cleanup_policy": "delete"})
    assert only(orders, of_broker).code == "segment-missing"
    assert only(orders, Settings(file_is_known=True)).code == "segment-missing"
    write(orders, 60, "log", b"".join(batches(60, 72) + batches(75, 90)))
    assert run_check(orders, of_broker) == []
    assert only(orders, DELETED).code == "segment-missing"


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (Settings(), "the topic's cleanup.policy is unknown"),
        (
            Settings().override(TOPIC, {"cleanup_policy": "compact,delete"}),
            "the topic is compacted, and a cleaner may have removed them",
        ),
    ],
)
def test_suspected_loss_has_its_reason(orders: Path, settings: Settings, why: str) -> None:
    found = only(orders, settings)
    assert (found.code, found.severity.value) == ("segments-apart", "note")
    assert found.message == (
        f"Offsets 30-59 (30 offsets) are in no segment. Whether they are lost is unknown: {why}."
    )


def test_formerly_compacted_topic_may_have_holes(orders: Path) -> None:
    write_checkpoint(orders.parent / "cleaner-offset-checkpoint", [("orders", 0, 60)])
    assert run_check(orders, DELETED) == []


def test_directory_pending_deletion_has_lost_nothing(orders: Path) -> None:
    retired = orders.rename(orders.with_name(f"orders-0.{'a' * 32}-delete"))
    assert only(retired, DELETED).code == "segments-apart"


def test_offsets_below_the_log_start_are_not_lost(orders: Path) -> None:
    checkpoint = orders.parent / "log-start-offset-checkpoint"
    write_checkpoint(checkpoint, [("orders", 0, 50)])
    found = only(orders, DELETED)
    assert (found.code, found.lost_at_most) == ("segment-missing", 10)
    assert found.message.startswith("Offsets 50-59 (10 offsets) are in no segment. They are lost")
    write_checkpoint(checkpoint, [("orders", 0, 60)])
    found = only(orders, DELETED)
    assert (found.code, found.lost_at_most) == ("segments-apart", None)
    assert found.message.endswith("The log starts at 60, so consumers do not read them.")


def test_markers_have_offsets_but_are_not_records(orders: Path) -> None:
    marker = builders.batch(
        [builders.record(0, 0, key=b"\0\0\0\1", value=b"\0\0\0\0\0\0")],
        base_offset=120, producer_id=5, producer_epoch=0, attributes=0x30,
    )  # fmt: skip
    write(orders, 90, "log", b"".join(batches(90, 120)) + marker)
    found = only(orders, DELETED)
    assert (found.lost_at_least, found.lost_at_most) == (1, 30)


def test_empty_sealed_log_counts_as_missing(orders: Path) -> None:
    write(orders, 30, "log", b"")
    assert only(orders, DELETED).code == "segment-missing"


def test_log_pending_deletion_is_reported(orders: Path) -> None:
    (orders / f"{30:020}.log.deleted").write_bytes(b"".join(batches(30, 60)))
    assert f"{30:020}.log.deleted still exists" in only(orders, DELETED).message


def test_metadata_snapshot_replaces_earlier_segments(orders: Path) -> None:
    log = orders.rename(orders.with_name("__cluster_metadata-0"))
    assert only(log, Settings()).code == "segment-missing"
    (log / f"{60:020}-{1:010}.checkpoint").write_bytes(b"")
    assert only(log, Settings()).code == "segments-apart"


@pytest.mark.parametrize(
    ("epochs", "lost"), [([(0, 0)], 60), ([(3, 20), (4, 70)], 40), ([(3, 60)], None), ([], None)]
)
def test_epochs_below_the_first_segment_prove_a_missing_segment(
    orders: Path, epochs: list[tuple[int, int]], lost: int | None
) -> None:
    remove(orders, 0)
    write_checkpoint(orders / "leader-epoch-checkpoint", epochs)
    found = run_check(orders, KNOWN)
    assert [(one.code, one.lost_at_most, one.next_offset) for one in found] == (
        [] if lost is None else [("segment-missing", lost, 60)]
    )
    assert run_check(orders, KNOWN._replace(tiered=True)) == []
    assert run_check(orders, DELETED) == []  # nobody knows whether it is tiered
    assert run_check(orders, Settings()) == []
    (orders / f"{30:020}.log.deleted").write_bytes(b"".join(batches(30, 60)))
    assert run_check(orders, KNOWN) == []  # retention is at work


def test_metadata_log_of_the_node_gives_the_settings(orders: Path) -> None:
    """Of a topic that has none of its own the defaults hold, once the log is known to be whole."""
    metadata = orders.parent.parent / "meta" / "__cluster_metadata-0"
    metadata.mkdir(parents=True)
    for directory in (orders.parent, metadata.parent):
        (directory / "meta.properties").write_text(
            f"version=1\nnode.id=1\ncluster.id={CLUSTER}\ndirectory.id=x\n"
        )
    records = [topic("orders", 7), partition(0, 7, [1])]
    log = metadata / f"{0:020}.log"
    log.write_bytes(log_of(records))
    assert topic_settings(None, [str(orders.parent)]).of(str(orders), "orders").topic_is_known
    assert "segment-missing" in codes_of(orders)
    records.append(config(2, "orders", "cleanup.policy", "compact"))
    log.write_bytes(log_of(records))
    assert "segments-apart" in codes_of(orders)


def codes_of(directory: Path) -> list[str]:
    options = VerifyOptions()
    items = verify([str(directory)], options)
    return [item.code for item in items if isinstance(item, Finding)]


def inside(directory: Path, settings: Settings = DELETED) -> list[Finding]:
    return [one for one in run_checks(directory, settings=settings) if one.code == "offsets-apart"]


def test_missing_offsets_are_reported_without_compaction(orders: Path) -> None:
    whole = batches(60, 90)
    size = sum(map(len, whole[:3]))
    write(orders, 60, "log", b"".join(whole[:3] + whole[4:6] + whole[7:]))
    (found,) = inside(orders)
    assert (found.severity.value, found.offset, found.next_offset) == ("note", 69, 72)
    assert (found.position, found.size_bytes) == (size, 0)
    assert found.message == (
        "Offsets 69-71 (3 offsets) are missing between two batches. 3 more are missing "
        "between later batches. They may be lost: this topic is not compacted "
        f"(cleanup.policy=delete, {DELETED.source('cleanup_policy')})."
    )
    assert [one.code for one in run_check(orders, DELETED)] == ["segment-missing"]
    assert inside(orders, Settings()) == []  # a cleaner may have been there
    write_checkpoint(orders.parent / "log-start-offset-checkpoint", [("orders", 0, 72)])
    (found,) = inside(orders)
    assert (found.offset, found.next_offset) == (78, 81)  # nobody reads the others
    write_checkpoint(orders.parent / "cleaner-offset-checkpoint", [("orders", 0, 60)])
    assert inside(orders) == []


def test_sparse_batch_proves_compaction(
    orders: Path,
) -> None:
    whole = batches(60, 90)
    write(orders, 60, "log", b"".join(whole[:3] + whole[4:]))
    sparse = builders.batch([builders.record(offset_delta=5)], last_offset_delta=5)
    write(orders, 0, "log", sparse + b"".join(batches(6, 30)))
    assert inside(orders) == []
