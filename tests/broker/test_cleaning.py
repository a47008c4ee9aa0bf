"""What a cleaning takes up and keeps in memory (K4, K6); the rest is held to brokers elsewhere."""

from kdump.broker.cleaning import OffsetMap, Repeats
from kdump.broker.settings import Settings


def test_map_is_full_at_its_load_factor_even_for_known_keys() -> None:
    offsets = OffsetMap(Settings(dedupe_buffer=24 * 10, dedupe_load_factor=0.2))
    assert offsets.put(1, 5)
    assert offsets.put(2, 6)
    assert not offsets.put(1, 7)
    assert (offsets.full, offsets.overflowed, offsets.end) == (True, False, 7)
    assert offsets.offsets == {1: 5, 2: 6}


def test_threads_share_the_buffer() -> None:
    offsets = OffsetMap(Settings(dedupe_buffer=48, dedupe_load_factor=1.0, cleaner_threads=2))
    assert offsets.put(1, 5)
    assert not offsets.put(2, 6)


def test_key_outside_the_map_is_still_checked() -> None:
    offsets = OffsetMap(Settings(), kept=1)
    assert offsets.put(1, 5)
    assert offsets.put(2, 6)
    assert offsets.put(1, 7)
    assert (offsets.overflowed, offsets.end, offsets.offsets) == (True, 8, {1: 7})


def test_repeats_are_counted_and_the_first_is_kept() -> None:
    repeats = Repeats(0, 100)
    for offset, key in enumerate((7, 8, 7, 9, 8)):
        repeats.take(key, offset)
    assert (repeats.count, repeats.example) == (2, (0, 2))


def test_record_read_twice_is_not_a_repeat() -> None:
    repeats = Repeats(0, 100)
    repeats.take(7, 3)
    repeats.take(7, 3)
    assert repeats.count == 0


def test_too_many_keys_are_cleaned_in_part() -> None:
    repeats = Repeats(0, 1000, kept=10)
    for key in range(100):
        repeats.take(key, key)
    assert repeats.count == 0
    for key in range(100):
        repeats.take(key, 200 + key)
    assert 0 < repeats.count <= 10
