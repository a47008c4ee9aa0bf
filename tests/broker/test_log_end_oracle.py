"""An absurd last base offset: what 4.1.1 makes of it, and that the remedies told are remedies."""

import struct
from pathlib import Path

import pytest
from each import each
from long_runs import LONG
from oracle import oracle
from recoveries import BROKER, INTERVAL, NOW, TOPIC_ID, batches
from segments import run_checks, target_of

from kdump.broker.settings import Settings
from kdump.engine.predict.recovery import predict_partition

pytestmark = pytest.mark.oracle

PROFILES = ("leader-v1", "txn", "restarts", "leader-v0", "leader-v2", "mixed-v2", "mixed-v1")
ABSURD = 6_577_225_780_797_898_836


def start_broker(directory: Path, *, clean: bool) -> int | None:
    """The log end after a start, None where there is no start."""
    options = {"delete": [], "indexIntervalBytes": INTERVAL, "now": NOW, "clean": clean}
    answer = oracle().answer("recover", dir=directory, **options)
    return answer["result"]["logEndOffset"] if answer["ok"] else None


@each("wild", [ABSURD, -ABSURD])
@each("profile", PROFILES if LONG else PROFILES[:3])
def test_forecast_and_remedies_match_the_broker(tmp_path: Path, profile: str, wild: int) -> None:
    directory = tmp_path / "t-0"
    options = {"segmentBytes": 100_000, "batches": 60, "indexIntervalBytes": INTERVAL}
    oracle().make(profile, 11, directory, **options)
    (directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}\n")
    mark = tmp_path / ".kafka_cleanshutdown"
    mark.write_bytes(b"")
    end = start_broker(directory, clean=True)
    assert end is not None
    log = [path for path in sorted(directory.glob("*.log")) if path.stat().st_size][-1]
    sound = log.read_bytes()
    position, _ = batches(sound)[-1]
    log.write_bytes(sound[:position] + struct.pack(">q", wild) + sound[position + 8 :])

    (found,) = [one for one in run_checks(directory) if one.code == "log-end-astray"]
    assert (found.position, found.actual) == (position, wild)
    row = predict_partition(
        target_of(directory), BROKER, Settings(index_interval_bytes=INTERVAL)
    ).fields
    assert row["log_end_after"] == start_broker(directory, clean=True)
    assert (row["log_end_before"] or 0) <= end  # type: ignore[operator]
    if wild > 0:
        assert row["outcome"] == "wrong-log-end"
        without = start_broker(directory, clean=False)
        assert without is None or without > wild  # no way out
    else:
        assert row["outcome"] in ("delete-segments", "empty", "refuses-to-start")
        assert start_broker(directory, clean=False) is None  # it refuses

    # What fits, over the first eight bytes; or cut off there, and the mark taken away.
    assert isinstance(found.expected, int)
    log.write_bytes(sound[:position] + struct.pack(">q", found.expected) + sound[position + 8 :])
    assert start_broker(directory, clean=True) == end
    log.write_bytes(sound[:position])
    cut = start_broker(directory, clean=False)
    assert cut is not None
    assert found.expected - 50 <= cut <= found.expected
