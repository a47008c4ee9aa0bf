"""Forecasts of starts: rows, statuses, and what comes first for a person."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from node_starts import Node, unpack_node
from unprivileged import run_unprivileged
from verify_command import break_batch, predict, rows, rows_but_seconds

from kdump.engine.predict.recovery import predict_partition


def test_predictions_follow_the_findings_of_their_partition(data: Path) -> None:
    break_batch(data)
    result = predict("--broker-version", "2.8", data)
    kinds = [(row["row"], row.get("partition")) for row in rows(result)]
    assert kinds == [
        ("recovery", 0),
        ("finding", 1),
        ("finding", 1),  # of what is foretold
        ("recovery", 1),
        ("node-start", None),
        ("node-start", None),  # what is not known of it
        ("way-past", 1),
        ("summary", None),
    ]
    assert rows(result)[2]["code"] == "start-loses-records"
    assert rows(result)[0]["outcome"] == "recover"
    assert rows_but_seconds(predict("--broker-version", "2.8", "-j", 2, data)) == rows_but_seconds(
        result
    )
    assert (
        "What the next start would do, if the version is Kafka 4.4:"
        in predict("--format", "table", data).stdout
    )


def test_refused_broker_start_is_a_separate_row(data: Path) -> None:
    (data / "no partition").mkdir()
    result = predict(data)
    *_, refusal, _ = rows(result)
    assert result.exit_code == 3
    assert (refusal["row"], refusal["topic"]) == ("recovery", None)
    assert (refusal["outcome"], refusal["path"]) == ("refuses-to-start", str(data))


def test_predicted_loss_fails_and_is_summed_up(data: Path) -> None:
    broken = data / "orders-1" / f"{20:020}.log"
    broken.write_bytes(broken.read_bytes()[:-9])
    assert predict("--fail-on", "never", data).exit_code == 0
    assert predict("--nagios", data).exit_code == 2
    result = predict("--format", "table", "--recovery-rate", "1k", data)
    assert result.exit_code == 3
    text = " ".join(result.stdout.split())
    assert "start-loses-records: The next start loses 2 records from offset 28 on" in text
    assert "Total: 6 segments are re-read. This reads " in text
    assert " at 1.0 KiB/s per thread and 2 recovery threads per data directory;" in text
    assert "2 records lost in 1 partition." in text


def test_table_keeps_findings_that_stop_the_start(data: Path) -> None:
    (data / ".kafka_cleanshutdown").touch()
    log = data / "orders-1" / f"{20:020}.log"
    content = bytearray(log.read_bytes())
    content[8:12] = (-5).to_bytes(4, "big", signed=True)
    log.write_bytes(content)
    text = " ".join(predict("--format", "table", data).stdout.split())
    assert "THE NODE DOES NOT START with Kafka 3.6:" in text
    assert "start-refused: The broker would stop with CorruptRecord" in text


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return unpack_node("4.4.0", 1, tmp_path / "node")


def test_node_start_is_first_in_the_table_and_a_row_in_a_pipe(node: Node) -> None:
    asked = ("--server-properties", node.server_properties)
    sound = predict(*asked)
    assert sound.exit_code == 0
    assert [row["outcome"] for row in rows(sound) if row["row"] == "node-start"] == ["starts"]
    assert "\nThe node starts with Kafka 4.4.\n" in predict(*asked, "--format", "table").stdout
    node.write_meta({"node.id": "99"})
    refused = predict(*asked)
    assert refused.exit_code == 3
    (row,) = (row for row in rows(refused) if row["row"] == "node-start")
    assert list(row) == ["row", "outcome", "cause", "message", "path", "remedy", "broker_version"]
    assert (row["outcome"], row["cause"]) == ("refuses", "node-id")
    assert row["message"].startswith("Stored node id 99 doesn't match previous node id 1 in ")
    assert rows(refused)[-1]["codes"] == {"start-refused": 1}
    table = predict(*asked, "--format", "table").stdout.splitlines()
    verdict, *said = table[table.index("") + 1 :]
    assert verdict == "THE NODE DOES NOT START with Kafka 4.4:"
    assert sum("Stored node id 99" in line for line in said) == 1
    assert predict(*asked, "--fail-on", "never").exit_code == 0
    assert "start-refused in" in predict(*asked, "--nagios").stdout


def test_missing_settings_are_reported(node: Node) -> None:
    result = predict(node.first)
    found = [row for row in rows(result) if row["row"] == "node-start"]
    assert result.exit_code == 0
    assert [row["outcome"] for row in found] == ["starts", "unknown"]


@pytest.mark.parametrize("named", ["kafka-1", "."])
def test_copied_data_directory_may_have_any_name(
    named: str, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name like a partition's, or none, does not make it the directory of the settings."""
    copy = node.directory / "kafka-1"
    node.first.rename(copy)
    monkeypatch.chdir(node.directory if named == "kafka-1" else copy)
    found = rows(predict("--server-properties", node.server_properties, named))
    assert next(row["outcome"] for row in found if row["row"] == "node-start") == "starts"


def test_emptied_volume_has_a_row(node: Node) -> None:
    shutil.rmtree(node.first)
    node.first.mkdir()
    result = predict("--server-properties", node.server_properties, node.first)
    (row,) = (row for row in rows(result) if row["row"] == "node-start")
    assert (row["outcome"], row["cause"]) == ("refuses", "meta-missing")
    assert result.exit_code in (1, 3)


def test_permissions_are_checked_for_the_given_user(node: Node) -> None:
    (node.first / "meta.properties").chmod(0o600)
    asked = ("--server-properties", node.server_properties)
    assert predict(*asked, "--as-user", os.getuid()).exit_code == 0
    result = predict(*asked, "--as-user", "54321")
    told = [row for row in rows(result) if row["row"] == "node-start"]
    assert {(row["outcome"], row["cause"]) for row in told} == {("refuses", "permission")}
    files = [Path(row["path"]).name for row in told]
    assert files == ["meta.properties", ".lock"]  # all obstacles, in the broker's order
    assert predict(*asked, "--as-user", "nobody of that name").exit_code == 2


def test_files_without_permission_are_unknown(node: Node) -> None:
    bootstrap = node.first / "bootstrap.checkpoint"
    bootstrap.write_bytes(b"no records")
    asked = ("--format", "jsonl", "--server-properties", node.server_properties)

    def told() -> list[tuple[str, str, str]]:
        lines = map(json.loads, run_unprivileged("predict", *asked).stdout.splitlines())
        starts = (row for row in lines if row["row"] == "node-start")
        return [(one["outcome"], one["cause"], Path(one["path"]).name) for one in starts]

    assert told()[0] == ("refuses", "bootstrap", "bootstrap.checkpoint")
    bootstrap.chmod(0)
    assert told()[0][0] == "starts"
    assert told()[1:] == [("unknown", "permission", "bootstrap.checkpoint")]
    bootstrap.unlink()
    (node.first / "meta.properties").chmod(0)
    assert ("unknown", "permission", "meta.properties") in told()
    assert "refuses" not in {outcome for outcome, *_ in told()}


def test_partition_deleted_meanwhile_has_no_forecast(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(target: Any, *asked: Any, **more: Any) -> Any:
        if target.partition == 1:
            shutil.rmtree(target.path)
        return predict_partition(target, *asked, **more)

    monkeypatch.setattr("kdump.engine.verify.predict.predict_partition", gone)
    result = predict("--format", "jsonl", data)
    found = rows(result)
    assert result.exit_code == 0
    assert [row["partition"] for row in found if row["row"] == "recovery"] == [0]
    assert [row["path"] for row in found if row.get("code") == "file-vanished"] == [
        str(data / "orders-1")
    ]
