"""One scan of a partition: what checks are handed, however the file's blocks are put together."""

from pathlib import Path

import pytest

from kdump.broker.settings import Settings
from kdump.engine.reading import check
from kdump.engine.verify.options import VerifyOptions
from kdump.engine.verify.partition import verify_partition
from kdump.engine.verify.results import Result
from kdump.findings.code import Severity
from kdump.storage import file_records
from kdump.storage.targets import Selection, Target, resolve

SAMPLES = Path(__file__).parents[3] / "sample-data"


def results(root: Path) -> list[Result]:
    """Verify every partition under a directory."""
    directories = sorted({log.parent for log in root.rglob("*.log")})
    return [
        verify_partition(target, VerifyOptions(), Settings())
        for path in directories
        for target in resolve([str(path)], Selection(retired=True), listed=False)
        if isinstance(target, Target)
    ]


@pytest.mark.parametrize("root", ["clean", "damaged"])
def test_joined_and_separate_blocks_are_equal(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_records, "BLOCK_BYTES", 2048)
    with monkeypatch.context() as patch:
        patch.setattr(check, "FEW", 0)
        wanted = results(SAMPLES / root)
    assert results(SAMPLES / root) == wanted
    monkeypatch.setattr(check, "BATCHES_A_RUN", 520)  # a join ends after some ten batches
    assert results(SAMPLES / root) == wanted
    severe = {one.severity for result in wanted for one in result.findings} - {Severity.NOTE}
    assert bool(severe) == (root == "damaged")
