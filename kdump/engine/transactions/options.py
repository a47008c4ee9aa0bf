"""What `transactions` is asked for."""

from __future__ import annotations

from typing import NamedTuple

from kdump.engine.coordinators.patterns import matches, one_name
from kdump.storage.file_records import DEFAULT_LIMIT
from kdump.storage.targets import EVERYTHING, Selection


class TransactionOptions(NamedTuple):
    """What is asked for; the names are those of the command line.

    `selection` has topic and partition of what transactions write to; `at_ms`: as of that time,
    inclusive; `open_only`: only those that are not ended.
    """

    selection: Selection = EVERYTHING
    server_properties: str | None = None
    transactional_id: str | None = None
    at_ms: int | None = None
    open_only: bool = False
    decompress_limit: int = DEFAULT_LIMIT

    @property
    def one_id(self) -> str | None:
        """The one id that is asked for; None where it is a pattern, or none."""
        return one_name(self.transactional_id)

    def wants_id(self, name: str) -> bool:
        """Whether an id is asked for."""
        return matches(self.transactional_id, name)
