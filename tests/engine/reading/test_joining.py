"""Runs joined: every header once and in order, and no more at a time than a run may hold."""

from pathlib import Path

import pytest

from kdump.engine.reading.check import FEW, join_headers
from kdump.record.frames import Gap, Run
from kdump.storage import file_records
from kdump.storage.file_records import BATCHES_A_RUN, FileRecords
from kdump.storage.source import Source

SAMPLES = Path(__file__).parents[3] / "sample-data"
LOGS = sorted(SAMPLES.rglob("*.log"))


@pytest.mark.parametrize("everything", [False, True])
def test_joined_runs_contain_every_header_in_order(
    everything: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_records, "BLOCK_BYTES", 2048)
    fewer = 0
    for log in LOGS:
        with Source(str(log)) as source:
            walked = list(FileRecords(source).walk())
        together = list(
            join_headers(walked, lambda _: True) if everything else join_headers(walked)
        )
        assert headers(together) == headers(walked)
        assert [item for item in together if isinstance(item, Gap)] == [
            item for item in walked if isinstance(item, Gap)
        ]
        fewer += len(walked) - len(together)
    assert fewer > 0


def test_joined_runs_are_bounded() -> None:
    with Source(str(LOGS[0])) as source:
        run = next(item for item in FileRecords(source).walk() if isinstance(item, Run))
    one = run._replace(batches=run.batches.slice(0, 1))
    together = [
        item for item in join_headers([one] * 9000, lambda _: True) if isinstance(item, Run)
    ]
    sizes = [len(item.batches) for item in together]
    assert sum(sizes) == 9000
    assert BATCHES_A_RUN - FEW <= max(sizes) <= BATCHES_A_RUN


def headers(items: list[object]) -> list[tuple[int, ...]]:
    batches = [item.batches for item in items if not isinstance(item, Gap)]  # type: ignore[attr-defined]
    return [row for each in batches for row in each.rows()]
