"""Describe an open transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.findings.moments import time_text

if TYPE_CHECKING:
    from kdump.broker.producer_state import Producer


def transaction_words(producer_id: int, producer: Producer, first: int) -> str:
    """Say whose transaction is open, and since when; a snapshot does not know how much is in it."""
    since = time_text(producer.since_ms)
    when = f" ({since})" if since else ""
    count = producer.records_count
    records = f", with {count:,} record{'s' * (count != 1)}" if count else ""
    return (
        f"Producer {producer_id}, epoch {producer.producer_epoch}, has a transaction open since "
        f"offset {first:,}{when}{records}"
    )
