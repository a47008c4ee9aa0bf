import struct

from generated import given, st

from kdump.storage.problems import Problem
from kdump.storage.transaction_index import AbortedTransaction, TransactionIndex


def entry(
    producer: int = 7, first: int = 1, last: int = 5, stable: int = 6, version: int = 0
) -> bytes:
    return struct.pack(">hqqqq", version, producer, first, last, stable)


def codes(data: bytes, base_offset: int = 0) -> list[tuple[str, int | None, object, object, int]]:
    problems = TransactionIndex(data, base_offset).problems()
    return [(p.code, p.position, p.expected, p.actual, p.places) for p in problems]


def test_entries_are_read() -> None:
    index = TransactionIndex(entry(1026, 415, 422, 410) + entry(9, 1, 430, 431), 412)
    assert list(index.slots()) == [
        (0, AbortedTransaction(0, 1026, 415, 422, 410)),
        (1, AbortedTransaction(0, 9, 1, 430, 431)),
    ]
    assert index.problems() == []
    assert index.sanity() is None


def test_empty_index_is_sound() -> None:
    assert codes(b"") == []


def test_problem_has_the_position_of_the_entry() -> None:
    data = entry(last=5) + entry(last=4, version=9) + entry(last=3, version=8) + b"abc"
    assert TransactionIndex(data, 0).problems() == [
        Problem("transaction-index-version", 34, 34, 0, 9, 2),
        Problem("transaction-index-order", 34, 34, 6, 4, 2),
        Problem("transaction-index-size", 102, 3, 102, 105),
    ]


def test_first_entry_may_end_at_the_base() -> None:
    assert codes(entry(last=5), base_offset=5) == []
    assert TransactionIndex(entry(last=5), 5).sanity() is None
    # Of what lies behind a version that it does not know a broker asks nothing.
    unknown = entry(last=9) + entry(last=1, version=0x0100)
    assert TransactionIndex(unknown, 5).sanity() is None


def test_torn_tail_is_skipped() -> None:
    data = entry() + entry(last=9)[:33]
    assert len(list(TransactionIndex(data, 0).slots())) == 1
    assert codes(data) == [("transaction-index-size", 34, 34, 67, 1)]


def test_brokers_before_4_4_read_the_first_version_byte() -> None:
    data = entry() + entry(last=9, version=0x0009)
    old, new = TransactionIndex(data, 0, one_byte=True), TransactionIndex(data, 0)
    assert len(list(old.readable())) == 2
    assert old.find_refused_version() is None
    assert len(list(new.readable())) == 1
    assert new.find_refused_version() == 9
    assert TransactionIndex(entry(version=0x0100), 0, one_byte=True).find_refused_version() == 1


def test_wrong_version_is_reported_in_either_byte() -> None:
    assert codes(entry(version=0x0009)) == [("transaction-index-version", 0, 0, 9, 1)]
    data = entry() + entry(last=9, version=0x0100) + entry(last=12)
    assert codes(data) == [("transaction-index-version", 34, 0, 0x0100, 1)]
    index = TransactionIndex(data, 0)
    assert len(list(index.slots())) == 3
    assert len(list(index.readable())) == 1


def test_last_offsets_rise_from_the_base() -> None:
    assert codes(entry(last=5) + entry(last=5)) == [("transaction-index-order", 34, 6, 5, 1)]
    assert codes(entry(last=5), base_offset=6) == [("transaction-index-order", 0, 6, 5, 1)]
    data = entry(last=50) + entry(last=5) + entry(last=6) + entry(last=60)
    assert codes(data) == [("transaction-index-order", 34, 51, 5, 2)]


def test_sanity_checks_only_the_base() -> None:
    assert TransactionIndex(entry(last=5) + entry(last=5), 0).sanity() is None
    assert TransactionIndex(entry(last=5), 6).sanity() == "last offset 5 is below the base offset 6"


@given(st.binary(max_size=200), st.integers(0, 2**63 - 1))
def test_any_bytes_are_survived(data: bytes, base_offset: int) -> None:
    index = TransactionIndex(data, base_offset)
    assert len(list(index.slots())) == len(index)
    index.problems()
    index.sanity()
