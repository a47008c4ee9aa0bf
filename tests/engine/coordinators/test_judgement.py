"""Whether a transaction hangs: what find-hanging says, and where disk alone cannot tell."""

from dataclasses import dataclass

from each import each

from kdump.broker.visibility import OpenTransaction
from kdump.engine.coordinators.judgement import JudgementContext, OpenInPartition, judge
from kdump.replay.transactions import Transaction

NOW = 1_700_000_000_000
PLACE = ("orders", 1)
KNOWN = JudgementContext(NOW, 900_000)


def make_transaction(state: str | None, **more: object) -> Transaction:
    held = {
        "producer_id": 7,
        "producer_epoch": 3,
        "timeout_ms": 60_000,
        "start_ms": NOW - 1000,
        "last_update_ms": NOW - 1000,
        **more,
    }
    return Transaction("tx", NOW, 0, state)._replace(**held)


def make_open(
    producer_id: int = 7,
    *,
    epoch: int = 3,
    age_ms: int = 500,
    newest_ms: int = NOW,
    live: bool = False,
    place: tuple[str, int] = PLACE,
) -> OpenInPartition:
    said = OpenTransaction(producer_id, epoch, 40, NOW - age_ms, 2, newest_ms)
    return OpenInPartition(place, 40, said, age_ms, live)


@each("state", ["Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"])
def test_transaction_known_to_its_coordinator_does_not_hang(state: str) -> None:
    """However old it is: the tool does not list it either."""
    transaction = make_transaction(state, partitions=(PLACE,))
    for one in (make_open(), make_open(age_ms=10**9), make_open(epoch=1)):
        assert judge(transaction, [one], KNOWN).hanging is False


@each(
    "transaction",
    [
        make_transaction("Ongoing", partitions=(("orders", 2),)),
        make_transaction("Ongoing"),
        make_transaction("Empty"),
        make_transaction("CompleteCommit"),
        make_transaction("CompleteAbort", partitions=(PLACE,)),
        make_transaction("Dead", partitions=(PLACE,)),
        make_transaction("Ongoing", partitions=(PLACE,), producer_id=8, previous_producer_id=7),
        None,
    ],
)
def test_transaction_unknown_to_coordinators_hangs(transaction: Transaction | None) -> None:
    verdict = judge(transaction, [make_open()], KNOWN)
    assert verdict.hanging is True
    assert len(verdict.hung) == 1
    assert "no marker will follow" in str(verdict.cause)


def test_only_orphaned_transactions_are_to_be_aborted() -> None:
    other = make_open(place=("orders", 2))
    verdict = judge(make_transaction("Ongoing", partitions=(PLACE,)), [make_open(), other], KNOWN)
    assert verdict.hung == (other,)
    assert verdict.cause == "Its coordinator has no transaction in orders-2: no marker will follow."


@dataclass
class Doubt:
    """What may be so that a transaction is awaited all the same, and the words for it."""

    words: str
    transaction: Transaction | None
    one: OpenInPartition
    missing: str = ""


DOUBTS = [
    Doubt(
        "is not here, so it is unknown",
        None,
        make_open(),
        "Partition 3 of __transaction_state is not here",
    ),
    Doubt(
        "cannot be read: unknown-version",
        make_transaction(None, problem="unknown-version"),
        make_open(),
    ),
    Doubt("may be behind", make_transaction("CompleteCommit"), make_open(epoch=4)),
    Doubt("check again", make_transaction("CompleteCommit"), make_open(live=True)),
    Doubt("check again", None, make_open(live=True)),
    Doubt(
        "ends before that",
        make_transaction("CompleteCommit"),
        make_open(age_ms=1500, newest_ms=NOW - 1001),
    ),
]


@each("doubt", DOUBTS, ids=lambda doubt: doubt.words)
def test_age_decides_in_doubt(doubt: Doubt) -> None:
    around = JudgementContext(NOW, 900_000, doubt.missing)
    verdict = judge(doubt.transaction, [doubt.one], around)
    assert (verdict.hanging, verdict.hung) == (None, ())
    assert doubt.words in str(verdict.cause)
    old = doubt.one._replace(age_ms=900_001)
    assert judge(doubt.transaction, [old], around).hanging is True
    assert judge(doubt.transaction, [old._replace(age_ms=900_000)], around).hanging is None


def test_end_later_in_the_log_is_certain() -> None:
    """A record that came late, after the marker: the marker's time is in the log."""
    late = make_open(age_ms=1500, newest_ms=NOW - 1000)
    assert judge(make_transaction("CompleteCommit"), [late], KNOWN).hanging is True
    later = make_open(age_ms=999, newest_ms=-1)
    assert judge(make_transaction("CompleteCommit"), [later], KNOWN).hanging is True


def test_marker_known_only_to_the_index_is_mentioned() -> None:
    one = make_open()
    one = one._replace(said=one.said._replace(marker_offset=1234))
    assert judge(make_transaction("CompleteAbort"), [one], KNOWN).cause == (
        "Its coordinator has no transaction in orders-1: no marker will follow. The transaction "
        "index of orders-1 has an ABORT marker for it, at offset 1,234."
    )


def test_expected_end_is_described() -> None:
    def words(state: str, as_of_ms: int = NOW, **more: object) -> str:
        transaction = make_transaction(state, partitions=(PLACE,), **more)
        return str(judge(transaction, [make_open()], JudgementContext(as_of_ms, 900_000)).cause)

    when = "2023-11-14T22:14:19.000Z"
    assert words("Ongoing") == (
        f"Its producer should end it; otherwise its coordinator aborts it at {when}."
    )
    assert words("Ongoing", NOW + 59_001) == (
        f"It timed out at {when}: the coordinator aborts it as soon as the coordinator runs."
    )
    assert words("Ongoing", start_ms=None) == "Its coordinator will abort it."
    assert words("PrepareEpochFence") == "Its coordinator will abort it."
    assert "decided (abort)" in words("PrepareAbort")
    assert "decided (commit)" in words("PrepareCommit")


def test_closed_transaction_has_no_verdict() -> None:
    assert judge(make_transaction("CompleteCommit"), [], KNOWN) == (False, None, ())
    assert judge(make_transaction("Ongoing"), [], KNOWN).cause is not None
    unread = judge(make_transaction(None, problem="malformed"), [], KNOWN)
    assert (unread.hanging, unread.cause) == (
        None,
        "The coordinator's record cannot be read: malformed.",
    )
