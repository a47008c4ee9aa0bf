"""Views of replayed topics have the rows of their commands; planned and read here."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from findings_rows import Rows, rows_of
from view_rows import view_rows

from kdump.engine.registry import COMMANDS
from kdump.errors import KdumpError, NothingToDo
from kdump.findings.finding import Finding
from kdump.rows.declarations import members
from kdump.rows.finding import FindingRow
from kdump.spark.owners import OWNER
from kdump.spark.replays import VIEWS
from kdump.spark.schema import columns_of

SAMPLES = Path(__file__).parents[2] / "sample-data"
_TIERED = SAMPLES / "damaged/4.1.1-tiered"  # beside its data directory lies what none of them reads
DIRECTORIES = sorted(
    [*SAMPLES.glob("clean/*"), *{*SAMPLES.glob("damaged/*")} - {_TIERED}, _TIERED / "d1"]
)
OWNERS = {field.name for field in OWNER}


def of_the_command(name: str, path: Path, **options: object) -> list[dict[str, Any]]:
    command = COMMANDS[name]
    rows = []
    try:
        for item in command.run([str(path)], command.options(**options)):
            if isinstance(item, Finding):
                rows.append({**item.fields(), "kind": "finding"})
            elif not isinstance(item, KdumpError):
                rows.append({**item.fields, "kind": item.row})
    except NothingToDo:
        pass
    return rows


def counted(view: str, rows: Iterable[Mapping[str, Any]]) -> Rows:
    """Count rows by the columns of the view that the command has too."""
    known = {"kind", *columns_of(view)} - OWNERS - {"leads", "leader"}
    return rows_of(
        {name: row[name] for name in known & row.keys() if row[name] != ""} for row in rows
    )


@pytest.mark.parametrize(
    ("view", "name", "options"),
    [
        ("groups", "groups", {}),
        ("commits", "groups", {"history": True, "commits_only": True}),
        ("transactions", "transactions", {}),
        ("metadata", "cluster", {}),
    ],
)
def test_sample_data_has_the_same_rows(view: str, name: str, options: dict[str, object]) -> None:
    found: Counter[str] = Counter()
    for directory in DIRECTORIES:
        command = of_the_command(name, directory, **options)
        rows = [{**row, "kind": row["row"]} for row in view_rows(view, [directory])]
        assert counted(view, rows) == counted(view, command), directory
        found.update(row["kind"] for row in command)
    assert found.total() > 5


def test_replay_findings_name_their_partition() -> None:
    rows = view_rows("transactions", [SAMPLES / "damaged/4.1.1-stopped"])
    told = [row for row in rows if row["row"] == "finding"]
    assert told
    assert all(row["topic"] is not None and row["partition"] is not None for row in told)


def test_replay_findings_equal_those_of_the_command() -> None:
    said = {field.name for field in members(FindingRow) if not field.omitted}
    for view in VIEWS:
        assert not said - columns_of(view).keys(), view
