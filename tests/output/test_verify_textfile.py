"""Metrics for the textfile collector."""

import re
from typing import Any

from kdump.findings.finding import finding
from kdump.output.verify_textfile import metrics, place_of
from kdump.rows.verify import VerifySummary

SUMMARY = VerifySummary(
    paths=4,
    segments=9,
    batches=100,
    bytes=4096,
    findings={"damage": 1, "rebuild": 0, "note": 2},
    codes={"crc-mismatch": 1, "file-vanished": 2},
    not_checked={"segments_out_of_time": 3},
    paths_unfinished=0,
    finished=False,
    seconds=1.5,
)


def values(text: str) -> dict[str, float]:
    return {
        name: float(value)
        for name, value in re.findall(r"^([a-z_]+(?:\{.*\})?) (\S+)$", text, re.MULTILINE)
    }


def written(summary: VerifySummary | None = SUMMARY, **given: Any) -> str:
    settings = {"now_s": 1000, "succeeded": True, "before": ""} | given
    return metrics(summary, **settings)


def test_every_line_has_the_format() -> None:
    metric = r"[a-z_]+(\{[a-z]+=\"[a-z_-]+\"\})? [0-9.]+"
    for line in written().splitlines():
        assert re.fullmatch(rf"# HELP [a-z_]+ .+|# TYPE [a-z_]+ gauge|{metric}", line), line


def test_values() -> None:
    found = values(written())
    assert found['kdump_verify_findings{severity="damage"}'] == 1
    assert found['kdump_verify_findings_by_code{code="file-vanished"}'] == 2
    assert found['kdump_verify_not_checked{what="segments_out_of_time"}'] == 3
    assert found["kdump_verify_bytes"] == 4096
    assert found["kdump_verify_seconds"] == 1.5
    assert found["kdump_verify_finished"] == 0
    assert found["kdump_verify_last_success_timestamp_seconds"] == 1000


def test_findings_by_partition() -> None:
    found = finding("crc-mismatch", path="/data/x", topic='a"b\\c', partition=3)
    place = place_of(found)
    assert place is not None
    of_directory = place_of(finding("meta-properties-differ", path="/data/meta.properties"))
    assert of_directory is not None
    text = written(places={place: 2, of_directory: 1})
    labels = r'severity="damage",code="crc-mismatch",topic="a\"b\\c",partition="3"'
    assert f"kdump_verify_findings_by_partition{{{labels}}} 2\n" in text
    labels = 'severity="rebuild",code="meta-properties-differ",topic="",partition=""'
    assert f"kdump_verify_findings_by_partition{{{labels}}} 1\n" in text


def test_names_add_no_lines() -> None:
    place = place_of(finding("crc-mismatch", path="/x", topic="a\n\x1b} 1", partition=0))
    assert place is not None
    (line,) = (line for line in written(places={place: 1}).splitlines() if "by_partition{" in line)
    assert line.isprintable()


def test_notes_make_no_series() -> None:
    assert place_of(finding("file-vanished", path="/x", topic="a", partition=0)) is None


def test_prediction_has_its_series() -> None:
    forecast = {
        "records_lost": 7,
        "partitions_losing": 1,
        "segments_to_read": 3,
        "bytes_to_read": 900,
        "seconds": 0.5,
    }
    found = values(written(VerifySummary(**SUMMARY.fields | {"forecast": forecast})))
    assert found["kdump_verify_start_records_lost"] == 7
    assert found["kdump_verify_start_bytes_to_read"] == 900
    assert found["kdump_verify_start_seconds"] == 0.5


def test_last_success_survives_a_failure() -> None:
    before = written(now_s=500)
    found = values(written(None, succeeded=False, before=before))
    assert found["kdump_verify_last_success_timestamp_seconds"] == 500
    assert found["kdump_verify_last_run_timestamp_seconds"] == 1000
    assert "kdump_verify_bytes" not in found


def test_missing_success_is_omitted() -> None:
    assert "last_success" not in written(None, succeeded=False, before="nonsense\n")
