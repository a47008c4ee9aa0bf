"""Make rows of transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.findings.commands import abort_command, shell_text
from kdump.findings.rows import Row

if TYPE_CHECKING:
    from kdump.engine.coordinators.judgement import Opened, Verdict
    from kdump.replay.transactions import Transaction


def transaction_row(
    transaction: Transaction | None,
    state_partition: int | None,
    opened: list[Opened],
    verdict: Verdict,
) -> Row:
    """Make the row of a transactional id, or of a producer that none has: then something is open.

    An id whose record cannot be read has nothing but its name.
    """
    known = transaction if transaction is not None and transaction.problem is None else None
    first = opened[0].said if opened else None
    commands = [abort_command(*one.partition, one.said.first_offset) for one in verdict.hung]
    return Row(
        "transaction",
        {
            "transactional_id": None if transaction is None else transaction.transactional_id,
            "producer_id": known.producer_id if known else first and first.producer_id,
            "producer_epoch": known.producer_epoch if known else first and first.producer_epoch,
            "previous_producer_id": known and known.previous_producer_id,
            "next_producer_id": known and known.next_producer_id,
            "timeout_ms": known and known.timeout_ms,
            "state": known and known.state,
            "start_ms": known and known.start_ms,
            "last_update_ms": known and known.last_update_ms,
            "client_transaction_version": known and known.client_version,
            "state_partition": state_partition,
            "partitions": [
                {"topic": topic, "partition": partition}
                for topic, partition in sorted(known.partitions if known else ())
            ],
            "open_in": [
                {
                    "topic": one.partition[0],
                    "partition": one.partition[1],
                    "first_offset": one.said.first_offset,
                    "last_stable_offset": one.last_stable_offset,
                    "records_count": one.said.records_count,
                    "age_ms": one.age_ms,
                }
                for one in opened
            ],
            "hanging": verdict.hanging,
            "cause": verdict.cause,
            "abort_command": " && ".join(map(shell_text, commands)) or None,
        },
    )
