"""`verify --tier` on a real broker's remote storage: sound, and with planted faults."""

import re
import shutil
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from corpus import find_shared
from each import each
from sample_tier import DATA, JOURNAL, journal_of
from tiered import MOMENTS, moment, plant_faults, truth

from kdump.broker.remote_log import (
    COPY_FINISHED,
    COPY_STARTED,
    DELETE_FINISHED,
    DELETE_STARTED,
)
from kdump.cli import cli
from kdump.engine.reading.remote_partitions import RemotePartition
from kdump.engine.verify.options import VerifyOptions
from kdump.engine.verify.run import verify
from kdump.engine.verify.tier import check_tier
from kdump.errors import KdumpError
from kdump.findings.finding import Finding
from kdump.replay.topic_settings import topic_settings
from kdump.storage.checkpoints import EpochStart
from kdump.storage.targets import Selection

#: What each fault is found as, and the verdict on its segment where one is.
FOUND = {
    "f01": ("remote-missing", "missing", "stop at offset 75"),
    "f02": ("remote-missing", "missing", "No effect while the local log also has these records"),
    "f03": ("remote-missing", "missing", "unless the broker has the index in its cache"),
    "f04": ("remote-missing", "missing", "receive aborted records"),
    "f05": ("remote-object-size", "truncated", "Offsets 360 to 399 are lost here: consumers skip"),
    "f06": ("remote-object-size", "truncated", "Offsets 140 to 179 are lost here: consumers skip"),
    "f07": ("crc-mismatch", "undecodable", "offsets 280-299"),
    "f08": ("remote-object-size", "undecodable", "Consumers fail after offset 399"),
    "f09": ("remote-orphan", "unreferenced", "neither read, report, nor delete"),
    "f10": ("remote-orphan", "unreferenced", "neither read, report, nor delete"),
    "f11": ("remote-orphan", "orphan", "neither read, report, nor delete"),
    "f12": ("remote-overlap", "overlapped", "No effect on consumers"),
    "f13": ("remote-gap", "unreferenced", "OffsetOutOfRange at 75, in the middle"),
    "f14": ("remote-gap", "unreferenced", "OffsetOutOfRange at 1,082, in the middle"),
    "f15": ("remote-metadata-damaged", "unreferenced", "remote reads fail for these topics"),
    "f16": ("remote-gap", None, "OffsetOutOfRange"),
    "f17": ("remote-epochs-differ", "epoch-differs", "a leader does not read it"),
    "f18": ("remote-epochs-differ", "epoch-differs", "a leader does not read it"),
    "f19": ("remote-index-invalid", "undecodable", "Consumers stop at offset 355"),
    "f20": ("segment-missing", None, "480-544"),
}
#: What else is said of the same fault.
ALSO = {
    "f13": {"offsets-apart"},  # where the record of the segment was
    "f14": {"offsets-apart"},
    "f15": {"crc-mismatch"},
    "f16": {"remote-orphan", "log-end-lost", "snapshot-stray"},
}


def checked(data: str, tier: str, *, deep: bool = True) -> tuple[list[Finding], list[Any]]:
    options = VerifyOptions(deep=deep, tier=tier)
    found, rows = [], []
    for item in verify([data], options):
        assert not isinstance(item, KdumpError)
        if isinstance(item, Finding):
            found.append(item)
        elif item.row == "remote-segment":
            rows.append(item)
    return found, rows


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("name", MOMENTS)
def test_sound_storage_has_no_finding(name: str, deep: bool) -> None:
    found, rows = checked(*moment(name), deep=deep)
    assert {one.code for one in found} <= {"transaction-open"}
    verdicts = Counter(row.verdict for row in rows)
    assert verdicts.keys() <= {"whole", "unreferenced"}
    assert verdicts["whole"] > 150
    states = {row.state for row in rows if row.verdict == "unreferenced"}
    assert states <= {"COPY_SEGMENT_STARTED", "DELETE_SEGMENT_STARTED"}


@pytest.mark.parametrize("fault", sorted(FOUND) if find_shared() is not None else [])
def test_each_fault_has_its_finding_only(fault: str, tmp_path: Path) -> None:
    code, verdict, words = FOUND[fault]
    found, rows = checked(*plant_faults(fault, tmp_path / "planted"))
    assert {one.code for one in found} == {code} | ALSO.get(fault, set())
    of_code = [one for one in found if one.code == code]
    assert words in of_code[0].message
    planted_here = truth()[fault]
    if fault not in ("f15", "f16"):
        assert {(one.topic, one.partition) for one in of_code} == {
            (planted_here["topic"], planted_here["partition"])
        }
    told = {row.verdict for row in rows} - {"whole", "unreferenced"}
    assert told <= {verdict}
    segment = planted_here.get("segment_id")
    if verdict is not None and segment is not None:
        assert [row.verdict for row in rows if row.segment_id == segment] == [verdict]


def table(*words: str) -> str:
    result = CliRunner(env={"COLUMNS": "80"}).invoke(cli, ["verify", "--format", "table", *words])
    return result.stdout + result.stderr


def test_table_counts_segments_and_lists_incomplete_ones(tmp_path: Path) -> None:
    data, tier = plant_faults("f05", tmp_path / "planted")
    text = table("--tier", tier, data)
    assert re.search(r"Remote segments: \d+ whole, .*1 truncated", text)
    assert re.search(r"\n\w+-\d+ +\d+ +\d+ +truncated ", text)


def test_remote_storage_alone_is_verified(tmp_path: Path) -> None:
    text = table("--tier", moment("last")[1])
    assert re.search(r"Remote segments: \d+ whole\n\nNo local log was checked", text)
    assert "status 0" in text


# A copy of what the sample has of one partition -----------------------------------------------

FIRST, SECOND, LOCAL = "LXGfoUMfSiGlJUQipWny_g", "85NjXc6ZTs25aW7Ef3Kdwg", "T2_FW6BUTU6Ldc_mRl0I9g"
Damage = Callable[[Path], object]


def journal(tier: Path, *, deep: bool = True, **more: Any) -> list[tuple[str, str]]:
    """Check the partition; give the verdicts that are not `whole`, and each finding in words."""
    options = VerifyOptions(deep=deep, tier=str(tier), selection=Selection(topic="journal"), **more)
    found = []
    for item in check_tier([DATA], options, topic_settings(None, [DATA], tier=str(tier))):
        if isinstance(item, Finding):
            assert (item.offset is None) is (item.code == "remote-orphan")
            found.append((item.code, str(item.message)))
        elif not isinstance(item, KdumpError) and item.verdict != "whole":
            found.append((item.verdict, item.segment_id))
    return found


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + bytes(9))


def swap(path: Path) -> None:
    """Give an index its entries backwards."""
    data, half = path.read_bytes(), path.stat().st_size // 2
    path.write_bytes(data[half:] + data[:half])


def write(data: bytes, path: Path) -> None:
    path.write_bytes(data)


def rebase(path: Path) -> None:
    path.write_bytes((3).to_bytes(8, "big") + path.read_bytes()[8:])


#: A segment, one of its objects, what is done to it, the finding, its words, and the verdict.
PLANTED: list[tuple[str, str, Damage, str, str, str]] = [
    (FIRST, "log", cut, "remote-object-size",
     ("The log object has 9,065 bytes, but 9,165 according to the metadata. Offsets 40 to 59 are "
      "lost here: consumers skip them, without an error."), "truncated"),
    (FIRST, "log", lengthen, "remote-object-size",
     ("The log object has 9,174 bytes, but 9,165 according to the metadata. Consumers fail after "
      "offset 59."), "undecodable"),
    (LOCAL, "log", cut, "remote-object-size",
     "No effect while the local log also has these records. After that: Offsets", "truncated"),
    (LOCAL, "index", Path.unlink, "remote-missing",
     "after that, consumers stop at offset 456", "missing"),
    (FIRST, "log", rebase, "remote-object-differs",
     "The log object has offsets 3 to 59, but 0 to 59 according to the metadata.", "undecodable"),
    (FIRST, "index", swap, "remote-index-invalid", "The offset index is damaged: ", "undecodable"),
    (FIRST, "timeindex", swap, "remote-index-invalid", "The time index is damaged: ",
     "undecodable"),
    (FIRST, "leader_epoch_checkpoint", partial(write, b"no"), "remote-epochs-differ",
     "The leader epoch object cannot be read. No effect on consumers", "epoch-differs"),
    (FIRST, "leader_epoch_checkpoint", partial(write, b"0\n1\n7 0\n"), "remote-epochs-differ",
     "The leader epoch object has {7: 0}, but the metadata has {0: 0}. No effect on consumers",
     "epoch-differs"),
]  # fmt: skip


@each(("segment", "end", "damage", "code", "words", "verdict"), PLANTED)
def test_damaged_objects_have_a_finding_and_a_verdict(
    segment: str, end: str, damage: Damage, code: str, words: str, verdict: str, tmp_path: Path
) -> None:
    tier = journal_of(tmp_path)
    (path,) = (tier / JOURNAL).glob(f"*-{segment}.{end}")
    damage(path)
    (told, message), of_segment = journal(tier)
    assert (told, of_segment) == (code, (verdict, segment))
    assert words in message


def test_objects_without_a_record_are_orphans(tmp_path: Path) -> None:
    tier = journal_of(tmp_path)
    for path in [*(tier / JOURNAL).glob(f"*-{FIRST}.*")]:
        shutil.copy(path, path.with_name(path.name.replace(FIRST, "A" * 22)))
    orphan, verdict = journal(tier)
    assert orphan[0] == "remote-orphan"
    assert orphan[1].startswith(f"Segment {'A' * 22} is in no metadata record: 5 objects")
    assert verdict == ("unreferenced", "A" * 22)


def changed_metadata(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[RemotePartition], RemotePartition]
) -> None:
    """Let the metadata at hand differ from what the sample has."""
    from kdump.engine.reading.remote_partitions import remote_partitions
    from kdump.engine.verify import tier

    monkeypatch.setattr(
        tier,
        "remote_partitions",
        lambda *asked: (change(one) for one in remote_partitions(*asked)),  # type: ignore[arg-type]
    )


def deleted(of: RemotePartition) -> RemotePartition:
    assert of.log is not None
    for state in (DELETE_STARTED, DELETE_FINISHED):
        of.log.update(SECOND, state, 1)
    return of


def test_gap_between_segments_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    changed_metadata(monkeypatch, deleted)
    gap, verdict = journal(journal_of(tmp_path))
    assert gap == (
        "remote-gap",
        (
            "Offsets 60 to 119 are in no finished remote segment. Consumers get OffsetOutOfRange "
            "at 60, in the middle of the log. Objects of this range exist, such as those of "
            f"segment {SECOND}."
        ),
    )
    assert verdict == ("unreferenced", SECOND)


def test_deleted_segment_with_objects_is_an_orphan(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    changed_metadata(monkeypatch, lambda of: deleted(of)._replace(tier=None, tiered=False))
    (orphan,) = (words for code, words in journal(journal_of(tmp_path)) if code == "remote-orphan")
    assert orphan.startswith(f"Segment {SECOND} was deleted according to the metadata: 5 objects")


def test_objects_without_all_metadata_are_not_judged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tier = journal_of(tmp_path)
    changed_metadata(monkeypatch, lambda of: of._replace(log=None, complete=False))
    assert journal(tier) == []
    changed_metadata(monkeypatch, lambda of: deleted(of)._replace(tier=None, complete=False))
    assert [one for one in journal(tier) if one[0] != "remote-gap"] == [("unreferenced", SECOND)]


def test_metadata_that_cannot_be_read_leaves_objects_unreferenced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(of: RemotePartition) -> RemotePartition:
        deleted(of)
        assert of.log is not None
        of.log.problem = "it is damaged"
        return of

    changed_metadata(monkeypatch, broken)
    assert ("unreferenced", SECOND) in journal(journal_of(tmp_path))


def test_segment_that_overlaps_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Another leader copied the end of the first segment again, with the second one."""
    tier, again = journal_of(tmp_path), "A" * 22
    first, second = ((tier / JOURNAL).glob(f"*-{one}.log") for one in (FIRST, SECOND))
    log = next(first).read_bytes()
    while int.from_bytes(log[:8], "big") < 40:
        log = log[12 + int.from_bytes(log[8:12], "big") :]
    log += next(second).read_bytes()
    for end, data in (("log", log), ("index", b""), ("timeindex", b""), ("snapshot", b"x" * 10)):
        (tier / JOURNAL / f"{40:020}-{again}.{end}").write_bytes(data)
    (tier / JOURNAL / f"{40:020}-{again}.leader_epoch_checkpoint").write_bytes(b"0\n1\n0 0\n")

    def twice(of: RemotePartition) -> RemotePartition:
        assert of.log is not None
        one = of.log.segments[SECOND]
        begun = one._replace(segment_id=again, start_offset=40, size_bytes=len(log))
        of.log.add(begun._replace(state=COPY_STARTED, leader_epochs=(EpochStart(0, 40),)))
        of.log.update(again, COPY_FINISHED, one.event_ms + 1)
        return of

    changed_metadata(monkeypatch, twice)
    assert journal(tier) == [
        (
            "remote-overlap",
            (
                f"Offsets 40 to 119 overlap segment {FIRST} (0 to 59). No effect on consumers; "
                "brokers do not report it."
            ),
        ),
        ("overlapped", again),
    ]
