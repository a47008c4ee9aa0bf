"""`usage`, `sequences`, `why` and the sums of `verify` on Spark say what they say in process."""

from pathlib import Path
from typing import Any

import pytest
from corpus import corpus
from declared_rows import without_times

from kdump.engine.sequences.run import SequenceOptions, sequences
from kdump.engine.transactions.run import TransactionOptions, transactions
from kdump.engine.usage.run import usage
from kdump.engine.usage.step import UsageOptions
from kdump.engine.verify.options import VerifyOptions
from kdump.engine.verify.run import verify
from kdump.engine.why.options import WhyOptions
from kdump.engine.why.run import why
from kdump.engine.why.volumes import FreeRequest
from kdump.findings.rows import Row
from kdump.spark.driver import SparkDriver

SAMPLES = Path(__file__).parents[2] / "sample-data"
pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]


def directories(name: str) -> list[str]:
    return sorted({str(log.parent.parent) for log in corpus(name).rglob("*.log")})


def told(items: Any) -> list[Any]:
    """Give what was yielded, without how long it took."""
    return [repr(item) if isinstance(item, Exception) else without_times(item) for item in items]


@pytest.mark.parametrize("name", ["modern/data/killed", "old/damage-01022.all.before"])
@pytest.mark.parametrize("by", [("topic", "partition", "producer", "codec"), ("topic", "key")])
def test_usage_is_the_same_on_spark(spark: Any, name: str, by: tuple[str, ...]) -> None:
    paths = directories(name)
    options = UsageOptions(by=by)
    ours = told(usage(paths, options))
    assert len(ours) > 10
    driver = SparkDriver(spark, 4, decodes=True)
    assert told(usage(paths, options, driver=driver)) == ours
    assert told(usage(paths, options, driver=driver, split_bytes=16 << 10)) == ours


@pytest.mark.parametrize("name", ["modern/data/killed", "old/damage-01022.all.before"])
def test_sequences_are_the_same_on_spark(spark: Any, name: str) -> None:
    paths = directories(name)
    options = SequenceOptions(explained=True)
    ours = told(sequences(paths, options))
    assert told(sequences(paths, options, driver=SparkDriver(spark, 4))) == ours


@pytest.mark.parametrize("name", ["modern/data/killed", "old/damage-01022.all.before"])
def test_why_is_the_same_on_spark(spark: Any, name: str) -> None:
    paths = directories(name)
    options = WhyOptions(
        now_ms=1_800_000_000_000, rolls=True, cleaner=True, free=(FreeRequest(1 << 20),)
    )
    ours = told(why(paths, options))
    assert len(ours) > 50
    driver = SparkDriver(spark, 4, decodes=True)
    assert told(why(paths, options, driver=driver)) == ours


def test_transactions_are_the_same_on_spark(spark: Any) -> None:
    paths = [str(SAMPLES / "clean/4.1.1"), str(SAMPLES / "damaged/4.1.1-stopped")]
    ours = told(transactions(paths, TransactionOptions()))
    assert len(ours) > 1
    assert told(transactions(paths, TransactionOptions(), driver=SparkDriver(spark, 4))) == ours


def test_more_keys_than_the_limit(spark: Any, tmp_path: Path) -> None:
    """Approximate rows, too, are the same: the plan and the order of merging are."""
    paths = directories("modern/data/clean")
    options = UsageOptions(by=("key",))
    ours = told(usage(paths, options, groups_kept=100))
    assert not ours[-1].fields["exact"]
    driver = SparkDriver(spark, 3, decodes=True)
    assert told(usage(paths, options, driver=driver, groups_kept=100)) == ours


def test_verify_sums_are_the_same_on_spark(spark: Any) -> None:
    paths = directories("old/damage-01022.all.before")
    options = VerifyOptions(summary_by=("broker", "topic"))
    ours = told(verify(paths, options))
    assert any(isinstance(item, Row) and item.row == "summary-by" for item in ours)
    assert told(verify(paths, options, driver=SparkDriver(spark, 4))) == ours
