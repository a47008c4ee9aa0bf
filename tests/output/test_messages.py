"""What goes to standard error: findings in both forms, errors, the summary."""

import io
import json

import pytest

from kdump.errors import PathError
from kdump.findings.finding import Severity, finding
from kdump.output.amounts import count_text, size_text
from kdump.output.messages import Messages, finding_lines
from kdump.output.progress import Tally

FOUND = finding(
    "crc-mismatch",
    path="orders-7/00000000000048230114.log",
    topic="orders",
    partition=7,
    segment=48230114,
    position=402653184,
    size_bytes=16381,
    offset=48301337,
    expected=1,
    actual=2,
    message="stored 00000002, computed 00000001",
    consequences=("Readers stop here.",),
)


def messages(*, as_json: bool) -> tuple[Messages, io.StringIO, list[str]]:
    file, order = io.StringIO(), []
    return (
        Messages(file, as_json=as_json, colour=False, before=lambda: order.append("flushed")),
        file,
        order,
    )


_PLACE = "orders-7 · segment 48230114 · position 402,653,184"
_WORDS = "crc-mismatch: stored 00000002, computed 00000001"


@pytest.mark.parametrize(
    ("columns", "first", "more"),
    [
        ("120", f"{_PLACE} · 16,381 bytes · offset 48301337", [f"{_WORDS} Readers stop here."]),
        ("60", _PLACE, ["16,381 bytes · offset 48301337", _WORDS, "Readers stop here."]),
    ],
)
def test_finding_fits_the_terminal(
    columns: str, first: str, more: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    more = [" " * 9 + line for line in more]
    assert finding_lines(FOUND, colour=False) == [f"DAMAGE   {first}", *more]
    assert finding_lines(FOUND, colour=True) == [f"\x1b[1;31mDAMAGE  \x1b[0m {first}", *more]


def test_finding_without_a_partition_names_its_file() -> None:
    lines = finding_lines(finding("snapshot-crc", path="a\x1bb", message="m"), colour=False)
    assert lines == ["REBUILD  a\\x1bb  snapshot-crc: m"]


def test_finding_as_json() -> None:
    target, file, order = messages(as_json=True)
    target.finding(FOUND)
    row = json.loads(file.getvalue())
    assert (row["row"], row["code"], row["severity"]) == ("finding", "crc-mismatch", "damage")
    assert row["consequences"] == ["Readers stop here."]
    assert order == ["flushed"]


def test_worst_severity_is_kept() -> None:
    target, _, _ = messages(as_json=False)
    assert target.worst is None
    target.finding(FOUND)
    target.finding(finding("file-shrank", path="p"))
    assert target.worst is Severity.DAMAGE


def test_error_names_the_path_and_counts() -> None:
    target, file, _ = messages(as_json=True)
    target.error(PathError("a\nb", "Permission denied"))
    assert file.getvalue() == "kdump: a\\nb: Permission denied\n"
    assert target.statuses == {1}
    target.summary(Tally())
    assert "1 path not read completely" in file.getvalue()


def test_numbers_are_formatted_for_people() -> None:
    assert count_text(1, "record") == "1 record"
    assert count_text(1234, "record") == "1,234 records"
    assert count_text(2, "damage") == "2 damage"
    assert count_text(2, "batch") == "2 batches"
    assert size_text(999) == "999 bytes"
    assert size_text(1536) == "1.5 KiB"
    assert size_text(5 << 40) == "5.0 TiB"
