"""What verify says to a person."""

import re
from typing import Any

import pytest
from declared_rows import make_row
from each import each

from kdump.cli.verify_report import VerifyReport
from kdump.engine.verify.ways import WaysPast
from kdump.findings.commands import abort_command
from kdump.findings.finding import Finding, finding
from kdump.findings.rows import Row
from kdump.findings.shell import format_command
from kdump.output.report import Page
from kdump.output.verify_table import VerifyTable
from kdump.output.verify_text import not_checked_text
from kdump.rows.verify import VerifySummary
from kdump.storage.directory_facts import DirectoryFacts

DIRECTORY = DirectoryFacts("/var/lib/kafka", "3", "5L6g3nShT-eMCtK--X86sw", locked=True)


def found(code: str, partition: int = 7, **members: Any) -> Finding:
    path = f"/var/lib/kafka/orders-{partition}/00000000000000000042.log"
    given = {"path": path, "topic": "orders", "partition": partition, "segment": 42} | members
    return finding(code, **given)


def summary(**fields: Any) -> VerifySummary:
    return VerifySummary(
        **{
            "paths": 3,
            "segments": 12,
            "batches": 1000,
            "records_count": 5000,
            "bytes": 1 << 20,
            "findings": {"damage": 0, "rebuild": 0, "note": 0},
            "not_checked": {},
            "segments_checked": 12,
            "paths_unfinished": 0,
            "mode": "default",
            "seconds": 1.25,
        }
        | fields,
    )


def drawn(*items: Finding | Row, quiet: bool = False, **settings: Any) -> list[str]:
    text = bytearray()
    given = {"all_notes": False, "all_findings": False, "status": lambda: 3} | settings
    given = {"plan": "kdump plan"} | given
    page = Page(text.extend, given.pop("width", 100), given.pop("colour", False))
    table = VerifyTable(page, quiet=quiet, directories=lambda: [DIRECTORY], **given)
    ways = WaysPast()
    for item in items:
        if isinstance(item, Finding):
            table.finding(item)
            ways.add(item)
        else:
            table.write(item)
    for row in ways.rows():
        table.write(row)
    table.finish()
    return text.decode().splitlines()


DAMAGE = found(
    "crc-mismatch",
    position=402_653_184,
    size_bytes=16_381,
    offset=48_301_220,
    message="stored 9a1c03ff, computed 2b90e1d0.",
    next_offset=48_301_338,
    consequences=("offset-index-order@8", "offset-index-order@16", "time-index-order"),
)._replace(served_from=48_301_394, skipped_by_seek=56, served_by="4.1 running")


def predicted(**members: Any) -> Row:
    given = {"topic": "orders", "partition": 7, "path": "/var/lib/kafka/orders-7"} | members
    return make_row("recovery", **given)


@pytest.mark.parametrize(
    ("outcome", "end", "words"),
    [
        ("truncate", 48_301_220, None),
        ("stray", 0, None),
        ("recover", 48_301_500, "Reset stuck groups to offset 48301394, the first that a 4.1 "),
        ("refuses-to-start", None, "If the next start does not truncate the log here, reset "),
        ("unknown", None, "If the next start does not truncate the log here, reset "),
    ],
)
def test_reset_that_the_start_undoes_is_left_out(
    outcome: str, end: int | None, words: str | None
) -> None:
    one = DAMAGE._replace(served_by="4.1 starting")
    row = predicted(outcome=outcome, log_end_after=end)
    text = " ".join(" ".join(drawn(one, row)).split())
    assert ("--reset-offsets" in text) == (words is not None)
    assert words is None or words in text
    assumed = make_row(
        "node-start", outcome="unknown", cause="version", message="which", path=None, remedy=None
    )
    assert "If the next start does not" in " ".join(" ".join(drawn(assumed, one, row)).split())


def test_writing_of_indexes_is_explained_once() -> None:
    hint = "Each reindex command above only shows what it would do; add --write to do it."
    wrong = [found("offset-index-order", number, position=8) for number in (1, 2)]
    assert drawn(*wrong, summary()).count(hint) == 1
    assert hint not in drawn(DAMAGE, summary()) + drawn(*wrong, quiet=True)


def test_heading_names_the_node_of_the_directory() -> None:
    runs = "a broker is running (it holds .lock); kdump only reads"
    assert drawn(summary(), width=80)[:3] == [
        "/var/lib/kafka",
        "  broker 3 · cluster 5L6g3nShT-eMCtK--X86sw",
        f"  {runs}",
    ]
    assert drawn(summary(), width=200)[:2] == [
        "/var/lib/kafka",
        f"  broker 3 · cluster 5L6g3nShT-eMCtK--X86sw · {runs}",
    ]


def test_finding_has_place_message_consequences_and_command() -> None:
    lines = drawn(DAMAGE, quiet=True)
    assert lines[0] == ("DAMAGE   orders-7   segment 42   position 402,653,184 · 16,381 bytes")
    assert lines[1].strip() == "crc-mismatch: stored 9a1c03ff, computed 2b90e1d0."
    text = "\n".join(lines)
    assert (
        "Caused by this, so not counted separately: offset-index-order ×2, time-index-order."
        in text
    )
    told = " ".join(text.split())
    assert (
        "The log continues at offset 48,301,338. Reset stuck groups to offset 48301394, "
        "the first that the running broker (if it is a 4.1) can serve after the damage. No "
        "consumer can fetch the 56 sound records between the damage and that offset; kdump dump "
        "shows them."
    ) in told
    commands = [line.strip() for line in lines if "→" in line]
    assert commands[0].startswith("→ kdump dump --hex --from-offset 48301220 --limit 1 /var")
    assert commands[1:] == [
        (
            "→ kafka-consumer-groups.sh --bootstrap-server BOOTSTRAP --group GROUP --reset-offsets "
            "--topic orders:7 --to-offset 48301394 --execute"
        ),
        "→ kdump dump --from-offset 48301338 --to-offset 48301394 /var/lib/kafka/orders-7",
    ]


def test_one_plan_resets_a_group_in_many_partitions() -> None:
    behind = DAMAGE._replace(position=500_000_000, next_offset=60_000_000, served_from=60_000_000)
    elsewhere = DAMAGE._replace(partition=8, path=DAMAGE.path.replace("orders-7", "orders-8"))
    lines = drawn(behind, DAMAGE, elsewhere, quiet=True)
    tool = "kafka-consumer-groups.sh --bootstrap-server BOOTSTRAP --group GROUP --reset-offsets"
    assert [line.strip() for line in lines if f"→ {tool}" in line] == [
        f"→ {tool} --topic orders:7 --to-offset 60000000 --execute",
        f"→ {tool} --from-file FILE --execute",
    ]
    assert lines[-2].strip() == r"→ printf '%s\n' orders,7,48301394 orders,8,48301394 > FILE"
    assert lines[-3].endswith(" --group GROUP --describe")
    text = " ".join(" ".join(lines).split())
    assert "the first damage of 2 partitions" in text
    assert "In 1 partition more damage follows" in text


def test_command_in_the_message_is_printed_once() -> None:
    command = format_command(abort_command("orders", 7, 4))
    hangs = found("transaction-hanging", offset=4, message=f"This ends it: {command} More.")
    lines = drawn(hangs, summary())
    assert [line for line in lines if "kafka-transactions.sh" in line] == [f"         → {command}"]
    assert any("This ends it: see below. More." in line for line in lines)


def test_worst_finding_is_first() -> None:
    lines = drawn(
        found("file-vanished", 1),
        found("offset-index-order", 2, position=8),
        found("crc-mismatch", 9, position=8),
        found("crc-mismatch", 10, position=8),
        found("crc-mismatch", 9, position=0),
        quiet=True,
    )
    heads = [re.sub(r" {2,}", " ", line) for line in lines if not line.startswith(" ")]
    assert [re.split(r" segment|:", line)[0] for line in heads] == [
        "DAMAGE orders-9",
        "DAMAGE orders-9",
        "DAMAGE orders-10",
        "REBUILD orders-2",
        "NOTE file-vanished",
    ]
    assert "position 0" in heads[0]


def test_many_findings_of_a_kind_are_counted() -> None:
    lines = drawn(*(found("crc-mismatch", position=n * 100) for n in range(30)), quiet=True)
    assert sum(line.startswith("DAMAGE") for line in lines) == 6
    assert lines[-1] == "DAMAGE   25 more crc-mismatch in orders-7; --format jsonl lists them"


def test_findings_above_the_limit_are_counted() -> None:
    lines = drawn(*(found("crc-mismatch", n, position=0) for n in range(2100)), quiet=True)
    assert lines[-1] == "DAMAGE   100 more findings; --format jsonl lists them"


def test_notes_are_condensed_by_default() -> None:
    notes = [found("file-vanished", number % 3) for number in range(10)]
    assert drawn(*notes, quiet=True)[0].startswith(
        "NOTE     file-vanished (10 notes in 3 partitions): "
    )
    outside = [one._replace(topic=None, partition=None) for one in notes]
    assert drawn(*outside, quiet=True)[0].startswith("NOTE     file-vanished (10 notes in ")
    assert " place" in drawn(*outside, quiet=True)[0]
    every = drawn(*notes, quiet=True, all_notes=True)
    assert sum(line.startswith("NOTE") for line in every) == 10


def test_summary_gives_findings_bytes_and_rest() -> None:
    row = summary(
        findings={"damage": 1, "rebuild": 2, "note": 3},
        not_checked={"segments_out_of_time": 2, "bytes_out_of_time": 4096},
        paths_unfinished=1,
    )
    text = " ".join(drawn(DAMAGE, row))
    assert text.endswith(
        " 1 damage · 2 rebuild · 3 notes."
        " Checked 3 partitions, 12 segments, 1,000 batches, 1.0 MiB in 1.2 s. Not checked: the "
        "records inside 1,000 batches (--deep checks them);"
        " 2 segments out of time (--max-duration), 4.0 KiB; 1 path that could not be read."
        " exit status 3"
    )


def test_sound_result_is_stated() -> None:
    lines = drawn(summary(mode="deep"), status=lambda: 0)
    assert lines[3:] == [
        "No damage, nothing to rebuild.",
        "Checked 3 partitions, 12 segments, 1,000 batches, 1.0 MiB in 1.2 s.",
        "Everything was checked.",
        "exit status 0",
    ]


@pytest.mark.parametrize("mode", ["default", "quick"])
def test_only_deep_claims_everything(mode: str) -> None:
    assert not_checked_text(summary(mode=mode)).startswith("Not checked: ")


@each("width", [40, 80, 100, 300])
def test_lines_fit_the_width(width: int) -> None:
    long = DAMAGE._replace(message="word " * 60)
    for line in drawn(long, width=width, quiet=True):
        assert len(line) <= min(width, 100) or "→" in line or line.startswith("DAMAGE")


def test_names_are_escaped_for_the_terminal() -> None:
    hostile = found(
        "crc-mismatch", topic="x\x1b[2J\u202e", message="\x07\n\x1b]0;", path="/a\n\x1b/0.log"
    )
    for line in drawn(hostile, hostile._replace(topic=None), quiet=True):
        assert line.isprintable()


def test_color_shows_only_the_severity() -> None:
    plain, coloured = drawn(DAMAGE), drawn(DAMAGE, colour=True)
    assert plain != coloured
    assert [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in coloured] == plain


def test_misplaced_log_end_is_listed_first() -> None:
    lines = drawn(
        *(found("crc-mismatch", partition, position=4) for partition in range(3)),
        found("log-end-astray", 9, position=8),
        summary(findings={"damage": 4, "rebuild": 0, "note": 0}),
    )
    told = [line for line in lines if line.startswith("DAMAGE")]
    assert "orders-9" in told[0]
    assert any("Do not start a broker on it" in line for line in lines)


def test_sentence_consequences_are_separate() -> None:
    words = "A broker that looks for offsets 8-9 skips this wrapper, which contains them."
    text = " ".join(" ".join(drawn(found("wrapper-offset", consequences=(words,)))).split())
    assert words in text
    assert ".." not in text.replace("...", "")
    assert "From this follow" not in text
    both = drawn(found("wrapper-offset", consequences=(words, "time-index-entry@8")))
    text = " ".join(" ".join(both).split())
    assert f"{words} Caused by this, so not counted separately: time-index-entry." in text


def test_skipped_partition_is_printed_despite_quiet() -> None:
    fields = {"topic": "orders", "partition": 7, "outcome": "stray", "reason": "another topic id"}
    numbers = ("log_end_before", "log_end_after", "first_lost_offset", "records_lost")
    lists = ("segments_read", "segments_deleted", "indexes_rebuilt")
    row = make_row("recovery", **fields | dict.fromkeys(numbers, 0) | {name: [] for name in lists})
    report = VerifyReport.__new__(VerifyReport)
    report.quiet = True
    assert report.takes(row)
    assert not report.takes(make_row("recovery", **row.fields | {"outcome": "clean"}))


def _many(count: int) -> list[Finding]:
    return [
        DAMAGE._replace(
            partition=number, offset=number, lost_at_least=number, lost_at_most=number + number % 2
        )
        for number in range(1, count + 1)
    ]


def test_many_findings_start_with_a_table_and_the_worst() -> None:
    lines = drawn(*_many(24), summary())
    table = [line.split() for line in lines if line.startswith("orders-")]
    assert table[0] == ["orders-24", "1", "-", "24", "24"]
    assert table[1] == ["orders-23", "1", "-", "23–24", "23"]
    assert [words[0] for words in table] == [f"orders-{number}" for number in range(24, 0, -1)]
    full = [line.split()[1] for line in lines if line.startswith("DAMAGE")]
    assert full == [f"orders-{number}" for number in range(16, 25)]  # ten would be 124 lines
    assert lines.index("… 15 more: --all shows them in full.") > lines.index("The 9 worst:")
    assert len(lines) <= 120
    short = [one._replace(served_from=None, next_offset=None) for one in _many(24)]
    assert "The 10 worst:" in drawn(*short, summary())


@pytest.mark.parametrize(("count", "given"), [(10, {}), (24, {"all_findings": True})])
def test_few_findings_or_all_are_shown_in_full(count: int, given: dict[str, bool]) -> None:
    lines = drawn(*_many(count), summary(), **given)
    assert sum(line.startswith("DAMAGE") for line in lines) == count
    assert not any("worst" in line or "--all" in line for line in lines)


def test_loss_without_an_upper_bound_is_marked_in_the_table() -> None:
    open_end = DAMAGE._replace(partition=99, lost_at_least=3, lost_at_most=None)
    lines = drawn(open_end, *_many(12))
    assert [line.split()[3] for line in lines if line.startswith("orders-99")] == ["3+"]


@pytest.mark.parametrize("quiet", [False, True])
def test_finding_that_the_verdict_repeats_is_written_once(quiet: bool) -> None:
    node = make_row(
        "node-start", outcome="refuses", cause="quorum-state", message="no clusterId",
        path="/data/quorum-state", remedy=None,
    )  # fmt: skip
    refused = finding("start-refused", path="/data/quorum-state", message="Its log: no clusterId")
    text = "\n".join(drawn(node, refused, quiet=quiet))
    assert text.count("no clusterId") == 1
    assert ("start-refused" in text) == quiet
