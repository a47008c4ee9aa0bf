"""Whether a node starts, as a person reads it."""

import pytest
from declared_rows import make_row

from kdump.findings.rows import Row
from kdump.output.verify_node import node_lines
from kdump.rows.verify import NodeStart


def lines(*outcomes: str) -> list[str]:
    rows: list[NodeStart] = []
    for number, outcome in enumerate(outcomes):
        fact = {"outcome": outcome, "cause": f"cause-{number}", "message": f"message {number}"}
        row: Row = make_row("node-start", **fact, path=None, remedy=None)
        assert isinstance(row, NodeStart)
        rows.append(row)
    return list(node_lines(rows, 80, lambda text, colour: text))


@pytest.mark.parametrize(
    ("outcomes", "told"),
    [
        (
            ("unknown", "refuses", "starts", "refuses"),
            ("THE NODE DOES NOT START:|message 1|message 3|Unknown: message 0|Warning: message 2"),
        ),
        (
            ("loses", "unknown", "starts"),
            "The node starts:|Warning: message 2|Warning: message 0|Unknown: message 1",
        ),
    ],
)
def test_verdict_reasons_are_first(outcomes: tuple[str, ...], told: str) -> None:
    assert [line.strip() for line in lines(*outcomes)] == told.split("|")
