"""Units of sizes and durations on the command line."""

from kdump.option_values import read_duration, read_size


def test_units_of_sizes_are_powers_of_two_and_of_ten() -> None:
    for power, letter in enumerate("KMGT", 1):
        for unit, size in (
            (letter, 1 << 10 * power),
            (f"{letter}iB", 1 << 10 * power),
            (f"{letter}B", 1000**power),
        ):
            assert read_size(f"3{unit}") == read_size(f"3{unit.lower()}") == 3 * size
    assert read_size("3") == read_size("3b") == 3


def test_units_of_durations() -> None:
    lengths = {"ms": 1, "s": 1_000, "m": 60_000, "h": 60 * 60_000, "d": 24 * 60 * 60_000}
    lengths["w"] = 7 * lengths["d"]
    for unit, milliseconds in lengths.items():
        assert read_duration(f"5{unit}") == 5 * milliseconds / 1000
