"""What a restart would cost, as a person reads it."""

from typing import Any

import pytest
from declared_rows import make_row

from kdump.engine.predict.verdict import Totals
from kdump.findings.rows import Row
from kdump.output.verify_recovery import recovery_lines, totals_lines
from kdump.rows.verify import Recovery


def row(partition: int, outcome: str, **fields: Any) -> Row:
    given = {
        "topic": "orders",
        "partition": partition,
        "outcome": outcome,
        "segments_read": [],
        "truncate_segment": None,
        "truncate_position": None,
        "log_end_before": 100,
        "log_end_after": 100,
        "first_lost_offset": None,
        "records_lost": 0,
        "segments_deleted": [],
        "indexes_rebuilt": [],
        "reason": None,
    }
    return make_row("recovery", **given | fields)


WHOLE = make_row(
    "recovery",
    topic=None,
    partition=None,
    outcome="refuses-to-start",
    reason="the broker would not start: orders-9 stops it",
    records_lost=0,
    path="/data",
)


def lines(*rows: Row, width: int = 100) -> list[str]:
    totals = Totals(1, 1)
    for one in rows:
        assert isinstance(one, Recovery)
        totals.add(one)
    drawn = list(recovery_lines(rows, totals.fields(), width))[2:]
    return drawn[2:] if drawn[0].startswith("partition ") else drawn


def test_partitions_without_loss_are_counted() -> None:
    plain = [row(n, "recover", segments_read=[0], bytes_read=1024) for n in range(11)]
    told = lines(row(11, "truncate", records_lost=3, first_lost_offset=7), *plain)
    assert len(told) == 2
    counted = "11 partitions recover, nothing lost: re-reads 11 segments, 11.0 KiB; --all lists"
    assert told[1].startswith(counted)
    assert len(lines(*plain[1:])) == 10
    drawn = [
        *recovery_lines(
            [each for each in plain if isinstance(each, Recovery)], None, 100, every=True
        )
    ]
    assert sum("nothing lost" in line for line in drawn) == 11


def test_worst_outcome_is_first_and_clean_ones_are_counted() -> None:
    told = lines(
        row(1, "clean"),
        row(2, "recover"),
        row(11, "truncate"),
        row(3, "truncate"),
        WHOLE,
        row(4, "clean"),
    )
    assert [line.split("  ")[0].strip() for line in told] == [
        "/data",
        "orders-3",
        "orders-11",
        "orders-2",
        "Once the broker starts: 2 partitions clean: nothing is re-read or lost",
    ]


def test_lost_records_are_counted() -> None:
    told = lines(
        row(
            7,
            "truncate",
            reason="torn batch",
            log_end_after=48_996_102,
            first_lost_offset=48_996_102,
            records_lost=14,
        )
    )
    assert " ".join(" ".join(told).split()) == (
        "orders-7 truncate torn batch; 14 records lost from offset 48,996,102 on,"
        " the last intact one is 48,996,101"
    )


def test_cost_of_a_recovery() -> None:
    (line,) = lines(row(3, "recover", segments_read=[5], indexes_rebuilt=[5], bytes_read=212 << 20))
    assert line == "orders-3   recover  nothing lost; re-reads 1 segment (212.0 MiB)"


def test_unknown_loss_is_reported() -> None:
    (line,) = lines(row(3, "truncate", records_lost=None))
    assert line.endswith("the number of lost records is unknown")


@pytest.mark.parametrize("width", [40, 100])
def test_lines_fit_the_width(width: int) -> None:
    for line in lines(row(3, "unknown", reason="word " * 50), width=width):
        assert len(line) <= width


def test_hostile_names_and_reasons_are_escaped() -> None:
    for line in lines(row(1, "unknown", topic="a\x1b[2J", reason="\x07bell\n")):
        assert line.isprintable()


def stays(served_from: int | None, skipped: int) -> dict[str, object]:
    return {
        "offset": 14,
        "next_offset": 16,
        "served_from": served_from,
        "skipped_by_seek": skipped,
    }


@pytest.mark.parametrize(
    ("unserved", "words"),
    [
        ([stays(16, 0)], "stop at offset 14 and are served again from 16"),
        ([stays(21, 5)], "at offset 14 and are served again from 21, skipping 5 sound records"),
        ([stays(None, 9)] * 3, "14 and receive nothing after it (and at 2 more places)"),
    ],
)
def test_damage_remaining_after_a_start_is_reported(
    unserved: list[dict[str, object]], words: str
) -> None:
    (line,) = lines(row(3, "recover", unserved=unserved), width=200)
    assert line.endswith(words)
    assert lines(row(3, "clean", unserved=unserved), width=200)[0].endswith(words)


@pytest.mark.parametrize(
    ("lost", "words"),
    [(3, "3 records lost in 1 partition."), (0, "1 partition renamed to -stray.")],
)
def test_partitions_with_an_unknown_loss_are_listed_apart(lost: int, words: str) -> None:
    forecast = {
        "segments_to_read": 0,
        "bytes_to_read": 0,
        "records_lost": lost,
        "partitions_losing": 1,
    }
    assert list(totals_lines(forecast, 100))[-1].endswith(words)


def forecast(bytes_read: int) -> Recovery:
    clean = row(0, "clean", bytes_read=bytes_read, path="/data/orders-0")
    assert isinstance(clean, Recovery)
    return clean


def test_loading_without_recovery_is_not_called_a_re_read() -> None:
    totals = Totals(100 << 20, 1)
    totals.add(forecast(0))
    assert list(totals_lines(totals.fields(), 100)) == ["Total: no segment is re-read."]
    totals.add(forecast(1843))
    (line, *_) = totals_lines(totals.fields(), 100)
    assert line.startswith("Total: no segment is re-read. A normal load of the logs reads 1.8")
