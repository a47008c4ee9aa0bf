"""Hand the files with tests to xdist's workers, those that take longest first.

xdist's own order is by the number of tests, so that a few tests of many seconds each come last, and
all other workers wait for them. It also looks at all tests done so far after each test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    import pytest
    from xdist.remote import WorkerInteractor
    from xdist.workermanage import WorkerController

#: Files that take seconds with few tests.
_LONG = (
    "fuzz/test_campaign.py",
    "cli/test_screens.py",
    "spark/test_findings_view.py",
    "manuals/test_readme.py",
    "cli/test_process.py",
    "engine/verify/test_splits.py",
    "api/test_typed_examples.py",
    "kernels/test_parity.py",
    "kernels/test_any_bytes.py",
    "test_architecture.py",
    "sql/test_generated_queries.py",
    "engine/reindex/test_replace.py",
    "output/test_bulk_dump.py",
)


def put_longest_first(items: list[pytest.Item]) -> None:
    """Order tests: by file, those with brokers, the others that take long, then the most tests."""
    root = Path(__file__).parents[1]
    count = Counter(item.path for item in items)
    place = {root / name: place for place, name in enumerate(_LONG)}
    with_brokers = {item.path for item in items if item.get_closest_marker("broker")}
    items.sort(
        key=lambda item: (
            item.path not in with_brokers,
            place.get(item.path, len(_LONG)),
            -count[item.path],
        )
    )


class PendingOnly(LoadFileScheduling):
    """Distributes files, and keeps of them only the tests that are still to be run."""

    def mark_test_complete(
        self, node: WorkerController, item_index: int, duration: float = 0
    ) -> None:
        """Forget a test, so that the work of each is counted over those that a worker still has."""
        nodeid = self.registered_collections[node][item_index]
        of_node, file = self.assigned_work[node], self._split_scope(nodeid)
        del of_node[file][nodeid]
        if not of_node[file]:
            del of_node[file]
        self._reschedule(node)


def send_less(interactor: WorkerInteractor) -> None:
    """Let a worker send what is counted or shown: no start, no end, no set-up that passed.

    With five messages a test, who sends and who counts them take a tenth of the time.
    """
    send = interactor.sendevent

    def send_what_counts(name: str, **values: Any) -> None:
        if name in ("logstart", "logfinish"):
            return
        if name == "testreport" and _says_nothing(values["data"]):
            return
        send(name, **values)

    interactor.sendevent = send_what_counts  # type: ignore[method-assign]


def _says_nothing(report: Mapping[str, Any]) -> bool:
    return report["when"] != "call" and report["outcome"] == "passed" and not report["sections"]
