"""What the table of `salvage` says of what was produced, and of what is not as it was."""

from types import SimpleNamespace
from typing import Any, cast

from kdump.output.tables.salvage import _produced_notes, _salvaged_note
from kdump.rows.salvage import Produced, Salvaged


def produced(**more: Any) -> Produced:
    nothing = {"aborted_count": 0, "open_count": 0, "control_count": 0, "found_count": 0}
    given = {"records_count": 1200, "planned_count": 1200, "missing_count": 0, **nothing}
    return cast(
        "Produced", {**given, "first_offset": 7, "last_offset": 1206, "keeps_times": True} | more
    )


def test_produced_records_are_reported() -> None:
    assert _produced_notes(None) == []
    assert _produced_notes(produced()) == ["produced: 1,200 records as 7–1206"]
    assert _produced_notes(produced(first_offset=None)) == ["to be produced: 1,200 records"]
    left = {"aborted_count": 1000, "open_count": 2, "control_count": 3, "found_count": 4000}
    assert _produced_notes(produced(**left, keeps_times=False)) == [
        "produced: 1,200 records as 7–1206",
        "4,000 of them were already there",
        "left out: 1,000 aborted",
        "left out: 2 open",
        "left out: 3 control",
        "with the time of arrival as timestamp (LogAppendTime)",
    ]


def test_lost_mended_and_undecided_records_are_reported() -> None:
    one = {"path": "a", "from": 3, "to": 4}
    fields = [
        {"name": "crc", "stored": 1, "inferred": 2},
        {"name": "b", "stored": 3, "inferred": 4},
    ]
    offsets = [[0, 2], [5, 9]]
    ranges = [[0, 1], [4, 5], [8, 9], [12, 13]]
    row = SimpleNamespace(
        lost=[[0, 2], [9, None]],
        reencoded=[{**one, "doubtful": True}, {**one, "doubtful": False}],
        mended=[{**one, "fields": fields}],
        conflicts=[{**one, "paths": ["a", "b"], "chosen": at} for at in (None, "a")],
        from_=[
            {"path": "a", "offsets": offsets},
            *({"path": "i", "offsets": offsets, "bytes": ranges[:end]} for end in (3, 4)),
        ],
        carved=[
            {
                "group": f"carved-{number}",
                "named_by": named_by,
                "joined_by": joined_by,
                "proposed": proposed,
                "doubtful": doubtful,
            }
            for number, named_by, joined_by, proposed, doubtful in (
                (1, "checkpoint", ["offsets", "bytes"], ["a-0"], False),
                (2, None, [], ["a-0"], True),
                (3, None, [], ["a-0", "b-0"], False),
                (4, None, [], [], False),
            )
        ],
        produced=produced(),
        diverged=[{"path": "b", "offsets": offsets}],
    )
    assert _salvaged_note(cast("Salvaged", row)).split("; ") == [
        "lost: 0–2, 9 on",
        "re-encoded: 3–4 of a, doubtful",
        "re-encoded: 3–4 of a",
        "header repaired: 3–4: crc 1 to 2, b 3 to 4",
        "conflict: 3–4 of a and b, undecided",
        "conflict: 3–4 of a and b, taken: a",
        "from a: 0–2, 5–9",
        "from i, bytes 0–1, 4–5, 8–9",
        "from i, bytes 0–1, 4–5, 8–9 and 1 more",
        "carved-1, named by checkpoint, joined by offsets, bytes",
        (
            "carved-2, of an unknown partition, perhaps a-0, offsets may be wrong (inside a torn "
            "wrapper, or truncated)"
        ),
        "carved-3, carved-4, of an unknown partition",
        "produced: 1,200 records as 7–1206",
        "diverged: b: 0–2, 5–9",
    ]
