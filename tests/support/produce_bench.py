"""A salvage that produces to a cluster in memory, and what comes of it."""

import json
from pathlib import Path
from typing import Any

import pytest
from fake_cluster import FakeCluster, FakeGroups

from kdump.client.cluster import TopicFacts
from kdump.engine.salvage import produce as module
from kdump.engine.salvage.options import SalvageOptions
from kdump.engine.salvage.run import salvage
from kdump.errors import KdumpError
from kdump.findings.finding import Finding
from kdump.findings.rows import Row

NEW_ID = "B" * 21 + "A"
SETTINGS = {"retention.ms": "-1"}


class Bench:
    """A cluster with the topic `orders`, and a place for the state."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = path
        self.cluster = FakeCluster({"orders": TopicFacts(3, SETTINGS, NEW_ID)})
        monkeypatch.setattr(module, "Cluster", self.cluster)
        monkeypatch.setattr(module, "GroupOffsets", FakeGroups)

    @property
    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.path / "state").read_text())
        return found

    def run(self, *paths: Path, **options: Any) -> "Outcome":
        asked = {"produce": "b:9092", "resume": str(self.path / "state"), **options}
        outcome = Outcome()
        try:
            for item in salvage(list(map(str, paths)), SalvageOptions(**asked)):
                outcome.take(item)
        except KdumpError as error:
            outcome.take(error)
        return outcome


class Outcome:
    """Rows, findings and errors of a run."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.findings: list[Finding] = []
        self.errors: list[KdumpError] = []

    def take(self, item: Row | Finding | KdumpError) -> None:
        for kind, some in ((Row, self.rows), (Finding, self.findings), (KdumpError, self.errors)):
            if isinstance(item, kind):
                some.append(item)  # type: ignore[attr-defined]

    def fields(self, row: str) -> list[dict[str, Any]]:
        return [dict(one.fields) for one in self.rows if one.row == row]

    @property
    def steps(self) -> dict[str, str]:
        return {str(one["step"]): str(one["command"]) for one in self.fields("salvage-step")}
