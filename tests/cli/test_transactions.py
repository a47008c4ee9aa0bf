"""`kdump transactions` as it is called: forms, statuses, what is said beside the rows."""

import csv
import io
import json
from functools import partial
from pathlib import Path

import commands
from offsets_log import START_MS, Log
from producing import data, write_log
from terminals import find_controls, on_terminal
from transaction_log import transaction

ABORT = (
    "kafka-transactions.sh --bootstrap-server BOOTSTRAP abort --topic orders --partition 7 "
    "--start-offset 0"
)


run = partial(commands.run, "transactions")


def hanging(directory: Path, name: str = "billing-7") -> Path:
    log = Log()
    log.add(transaction(name, "CompleteCommit"), transaction("idle", "Empty", producerId=8))
    log.write(directory / "__transaction_state-0")
    batches = [data(0, 7, 0, transactional=True, timestamp=START_MS + 1)]
    write_log(directory, {0: batches})
    return directory


def test_rows_have_their_declared_members(tmp_path: Path) -> None:
    result = run(hanging(tmp_path))
    assert result.exit_code == 0
    row = json.loads(result.stdout.splitlines()[0])
    assert (
        list(row)
        == (
            "row transactional_id producer_id producer_epoch previous_producer_id next_producer_id"
            " timeout_ms state start_ms last_update_ms client_transaction_version state_partition"
            " partitions open_in hanging cause abort_command"
        ).split()
    )
    assert row["row"] == "transaction"
    assert row["abort_command"] == ABORT
    assert (
        list(row["open_in"][0])
        == ("topic partition first_offset last_stable_offset records_count age_ms").split()
    )


def test_csv_is_rectangular(tmp_path: Path) -> None:
    lines = list(csv.reader(io.StringIO(run("--format", "csv", hanging(tmp_path)).stdout)))
    assert {len(line) for line in lines} == {len(lines[0])}
    assert [line[1] for line in lines] == ["transactional_id", "billing-7", "idle"]


def test_table_fits_a_terminal(tmp_path: Path) -> None:
    result = run("--format", "table", hanging(tmp_path))
    assert max(map(len, result.stdout.splitlines())) <= 80
    head, _, first = result.stdout.splitlines()[:3]
    assert head.split() == ["id", "producer", "state", "hangs", "open", "in", "why"]
    assert first.split()[:4] == ["billing-7", "7/0", "CompleteCommit", "yes"]


def test_open_and_id_select_transactions(tmp_path: Path) -> None:
    path = hanging(tmp_path)
    for words, ids in (
        (("--open",), ["billing-7"]),
        (("--id", "id*"), ["idle"]),
        (("--id", "billing-7"), ["billing-7"]),
        (("--at", START_MS), []),
    ):
        lines = run(*words, path).stdout.splitlines()
        assert [json.loads(line)["transactional_id"] for line in lines] == ids


def test_empty_result_is_reported(tmp_path: Path) -> None:
    result = run("--id", "none", hanging(tmp_path))
    assert result.exit_code == 0
    assert result.stderr == "kdump: no transaction found\n"
    assert run("--id", "none", "-q", tmp_path).stderr == ""


def test_directory_without_partitions_is_an_error(tmp_path: Path) -> None:
    result = run(tmp_path)
    assert result.exit_code == 1


def test_terminal_output_names_the_abort_command(tmp_path: Path) -> None:
    status, written = on_terminal("transactions", str(hanging(tmp_path, "\x1b[2J")))
    assert (status, find_controls(written)) == (0, [])
    assert f"To end it, on a running cluster:\r\n  {ABORT}" in written.decode()


def test_hostile_names_are_escaped(tmp_path: Path) -> None:
    path = hanging(tmp_path, "\x1b[2J[red]\n")
    result = run("--format", "table", path)
    assert "\x1b" not in result.stdout
    assert "[red]" in result.stdout
    row = json.loads(run(path).stdout.splitlines()[0])
    assert row["transactional_id"] == "\x1b[2J[red]\n"
