"""Pairs for the tool's closing reports: bare numbers, and no more than there is room for."""

from kdump.engine.kafka_text.pairs import Pairs, Room


def test_pairs_are_returned_in_both_orders() -> None:
    pairs = Pairs(Room(1 << 10))
    pairs.append(1, 2)
    pairs.append(-(1 << 63), (1 << 63) - 1)
    assert list(pairs) == [(1, 2), (-(1 << 63), (1 << 63) - 1)]
    assert list(reversed(pairs)) == [(-(1 << 63), (1 << 63) - 1), (1, 2)]
    assert len(pairs) == 2
    assert not pairs.left_out


def test_room_is_shared_by_the_run() -> None:
    room = Room(3 * 16 + 15)
    first, second = Pairs(room), Pairs(room)
    for number in range(2):
        first.append(number, number)
        second.append(number, number)
    assert (len(first), len(second)) == (2, 1)
    assert (first.left_out, second.left_out) == (0, 1)
    first.extend(second)
    assert list(first) == [(0, 0), (1, 1), (0, 0)]
    assert first.left_out == 1
