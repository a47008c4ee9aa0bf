"""Ask the coordinators about open transactions when the first is met.

Apart from `judgement.py`: most logs have none, and most runs import nothing that judges them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kdump.broker.visibility import OpenTransaction
    from kdump.engine.coordinators.judgement import JudgementContext
    from kdump.replay.transactions import Partition, Transaction


class Coordinators:
    """Judges open transactions by what the coordinators say under some paths, read when first
    asked. Goes to workers, which read it again.
    """

    def __init__(self, paths: Iterable[str] = (), server_properties: str | None = None) -> None:
        self._paths = tuple(paths)
        self._server_properties = server_properties
        self._said: tuple[dict[int, Transaction], JudgementContext] | None = None

    def __call__(self, place: Partition, opened: OpenTransaction, live: bool) -> tuple[bool, str]:
        """Say whether a transaction hangs whatever its age, and name its transactional id."""
        from kdump.engine.coordinators.judgement import OpenInPartition, judge

        if self._said is None:
            self._said = self._read()
        transactions, known = self._said
        transaction = transactions.get(opened.producer_id)
        verdict = judge(transaction, [OpenInPartition(place, None, opened, None, live)], known)
        hangs = verdict.hanging is True
        if transaction is None:
            return hangs, f" {verdict.cause}" if hangs else ""
        state, name = transaction.state, transaction.transactional_id
        state = "" if state is None or state in str(verdict.cause) else f" ({state})"
        return hangs, f" Its transactional id is {name}{state}. {verdict.cause}"

    def _read(self) -> tuple[dict[int, Transaction], JudgementContext]:
        from kdump.engine.coordinators.judgement import JudgementContext
        from kdump.engine.coordinators.partitions import (
            Marks,
            by_producer,
            describe_missing,
            describe_unread,
            items_of,
            replay_state,
        )  # fmt: skip
        from kdump.findings.finding import Finding
        from kdump.replay.transactions import TOPIC
        from kdump.storage.names import OFFSET_MAX
        from kdump.storage.targets import Selection, Target, resolve

        found = resolve(self._paths, Selection(topic="__*"), self._server_properties, listed=False)
        targets = [one for one in found if isinstance(one, Target)]
        chosen = items_of(targets, TOPIC, retired=False)
        items = [one for one in chosen if not isinstance(one, Finding)]
        missing = describe_missing(items, Marks(targets))
        transactions: list[Transaction] = []
        newest_ms = -1
        for item in items:
            replayed = replay_state(item, lambda _: None, wanted=lambda _: True)
            transactions += replayed.transactions
            newest_ms = max(newest_ms, replayed.newest_ms)
            if replayed.lost:
                missing = missing or describe_unread(item)
        return by_producer(transactions), JudgementContext(newest_ms, OFFSET_MAX, missing)
