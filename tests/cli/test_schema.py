"""`kdump schema`: what it lists is what rows have."""

import json
from functools import cache, partial

import commands
import pytest
from every_command import OF_THE_MOMENT, RUNS, rows_of

run = partial(commands.run, "schema")


@cache
def schemas() -> dict[str, dict[str, dict[str, object]]]:
    whole = json.loads(run("--format", "json-schema").stdout)
    return {one["title"]: one for one in whole["oneOf"]}


def test_rows_are_listed_by_kind() -> None:
    lines = [json.loads(line) for line in run("group", "record").stdout.splitlines()]
    assert list(dict.fromkeys(line["kind"] for line in lines)) == ["group", "record"]
    epoch = next(line for line in lines if line["field"] == "epoch")
    assert (epoch["type"], epoch["null"]) == ("int32", True)


def test_unknown_kind_is_a_usage_error() -> None:
    result = run("gruop")
    assert result.exit_code == 2
    assert "gruop" in result.output


@pytest.mark.parametrize(("words", "sample", "behind"), RUNS)
def test_json_schema_matches_rows(words: str, sample: str, behind: str) -> None:
    known = schemas()
    for kind, rows in rows_of(words, sample, behind).items():
        if kind in known:
            properties = known[kind]["properties"]
            for row in rows:
                needed = {*known[kind]["required"]} - {"row", *OF_THE_MOMENT}
                assert needed <= row.keys() <= properties.keys()


def test_types_are_json_types() -> None:
    properties = json.loads(run("--format", "json-schema", "member").stdout)["properties"]
    assert properties["subscription"]["type"] == ["array", "null"]
    assert properties["epoch"]["maximum"] == (1 << 31) - 1
    assert properties["row"] == {"const": "member"}
