"""`verify --tier` on a real broker's remote storage: sound, and with planted faults."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from corpus import find_shared
from tiered import MOMENTS, moment, plant_faults, truth

from kdump.cli import cli
from kdump.engine.verify.options import VerifyOptions
from kdump.engine.verify.run import verify
from kdump.errors import KdumpError
from kdump.findings.finding import Finding

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
