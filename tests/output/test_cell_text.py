"""How cells are broken, and which columns of a table have room."""

import random

from each import each

from kdump.findings.ranges import range_cell, range_text
from kdump.output.column_widths import (
    Column,
    fit,
    fold,
    folding_column,
    number,
    pieces_of,
    width_of,
)
from kdump.output.grid import table_lines


@each(
    ("text", "width", "lines"),
    [
        ("__consumer_offsets", 12, ["__consumer_", "offsets"]),
        ("__cluster_metadata-0", 19, ["__cluster_", "metadata-0"]),
        ("clock.append.zstd", 15, ["clock.append.", "zstd"]),
        ("CONTROLLER://127.0.0.1:21101", 22, ["CONTROLLER://", "127.0.0.1:21101"]),
        ("transaction.version 0-2", 22, ["transaction.version", "0-2"]),
        ("the last is 48,996,101", 16, ["the last is", "48,996,101"]),
        ("open of producer 5; pending", 19, ["open of producer 5;", "pending"]),
        ("1,2,3,4", 4, ["1,2,", "3,4"]),
        ("/var/lib/kafka/orders-0", 16, ["/var/lib/kafka/", "orders-0"]),
        ("/data/rv-garbage-tail-0/0.log", 20, ["/data/", "rv-garbage-tail-0/", "0.log"]),
        ("live-0-17f6e98b-fe34-48cf", 15, ["live-0-17f6e98", "b-fe34-48cf"]),
        ("re-reads 1 segment, 826 bytes", 23, ["re-reads 1 segment,", "826 bytes"]),
        ("at 2026-11-21T00:36:28.607Z.", 22, ["at 2026-11-21", "T00:36:28.607Z."]),
        ("a" * 25, 10, ["a" * 10, "a" * 10, "a" * 5]),
        ("\u6f22\u5b57\u6f22", 4, ["\u6f22\u5b57", "\u6f22"]),
        ("", 5, [""]),
    ],
)
def test_cells_are_broken_between_pieces(text: str, width: int, lines: list[str]) -> None:
    assert fold(text, width) == lines


def test_cells_lose_no_text() -> None:
    rng = random.Random(1)
    for _ in range(2000):
        text = "".join(rng.choice("ab1 ._-/,:\u6f22=") for _ in range(rng.randrange(25)))
        width = rng.randrange(2, 12)
        assert "".join(pieces_of(text)) == text
        lines = fold(text, width)
        assert all(width_of(line) <= width for line in lines)
        assert "".join(lines).replace(" ", "") == text.replace(" ", "")


ROWS = [{"topic": "orders.of.customers", "isr": "-", "note": "in the way " * 2, "end": 9}]
COLUMNS = (
    folding_column("topic", lambda row: row["topic"], 8),
    Column("isr", lambda row: row["isr"]),
    number("end", rank=1),
    Column("note", lambda row: row["note"], rank=2),
)


def test_empty_column_is_dropped_first() -> None:
    cells = [tuple(column.cell(row) for column in COLUMNS) for row in ROWS]
    assert fit(COLUMNS, cells, 50).without(COLUMNS) == []
    narrow = fit(COLUMNS, cells, 38)
    assert (narrow.shown, narrow.without(COLUMNS)) == ((0, 2), ["note"])
    blank = [(*cells[0][:3], "-")]
    assert fit(COLUMNS, blank, 200).shown == (0, 1, 2)
    assert fit(COLUMNS, cells, 20, more=True).without(COLUMNS) == ["end", "note"]


def test_names_break_between_words() -> None:
    lines = [line.rstrip() for line in table_lines(COLUMNS, ROWS, 38)]
    assert lines[2].split()[0] == "orders.of.customers"
    lines = [line.rstrip() for line in table_lines(COLUMNS, ROWS, 12)]
    assert [line.split()[0] for line in lines[2:4]] == ["orders.of.", "customers"]


def test_ranges_of_negative_offsets() -> None:
    assert range_text(1000, 2000) == "1,000-2,000"
    assert range_text(-4000, -4) == "-4,000 to -4"
    assert range_cell(3, 9) == "3\u20139"
    assert range_cell(-5, -4) == "-5 to -4"
    assert range_cell("?", 9) == "?\u20139"


def test_note_goes_below_its_row_instead_of_breaking_names() -> None:
    """A note of some rows takes no room from the names of all, and is not broken itself."""
    topic = "idle-count-counts-changelog-0"
    error = "OFFSET_OUT_OF_RANGE: the log starts at 0 and ends at 18"
    columns = (
        folding_column("partition", lambda row: row["topic"], 14),
        number("offset"),
        number("position", rank=1),
        folding_column("note", lambda row: row["note"], 20)._replace(below=True),
    )
    found = {"topic": topic, "offset": 100, "position": 7157, "note": ""}
    rows = [found, {**found, "topic": "orders-0", "offset": None, "position": None, "note": error}]
    lines = list(table_lines(columns, rows, 60))
    assert lines[2] == f"{topic}     100      7157"
    assert lines[3:] == ["orders-0                            -         -", f"    {error}"]
    (heading, *_), *_ = [list(table_lines(columns, rows, 110))]
    assert heading.split() == ["partition", "offset", "position", "note"]
    lines = list(table_lines(columns, [found], 60))
    assert "note" in lines[0]
