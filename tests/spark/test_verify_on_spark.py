"""`verify` on Spark says what it says in process, in the same order."""

from pathlib import Path
from typing import Any

import pytest
from corpus import corpus

from kdump.engine.pace import Progress
from kdump.engine.rows import Row
from kdump.engine.verify import VerifyOptions
from kdump.engine.verify_run import verify
from kdump.spark.driver import items_on

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]


def told(path: Path, jobs: int = 1, **driver: Any) -> list[Any]:
    """Give what verify yields, without how long it took."""
    items = list(verify([str(path)], VerifyOptions(jobs=jobs), progress=Progress(), **driver))
    for item in items:
        if isinstance(item, Row):
            item.fields.pop("seconds", None)
    return [repr(item) if isinstance(item, Exception) else item for item in items]


@pytest.mark.parametrize("name", ["old/damage-01022.all.before", "modern/data/clean"])
def test_findings_and_summary(spark: Any, name: str) -> None:
    for root in sorted({log.parent.parent for log in corpus(name).rglob("*.log")}):
        ours = told(root)
        assert told(root, jobs=4, driver=items_on(spark)) == ours
        assert ours[-1].row == "summary"
