"""Breaks bytes. Each function promises that something changed, and that the size is as it says."""


def flip(data: bytes, position: int, count: int = 1) -> bytes:
    """Invert all bits of `count` bytes."""
    return _put(data, position, bytes(byte ^ 0xFF for byte in data[position : position + count]))


def flip_bit(data: bytes, position: int, bit: int) -> bytes:
    """Invert one bit of one byte; bit 0 is the lowest."""
    return _put(data, position, bytes([data[position] ^ 1 << bit]))


def zero(data: bytes, position: int, count: int) -> bytes:
    """Set bytes to zero, as a lost page is; at least one of them was something else."""
    return _put(data, position, bytes(count))


def put(data: bytes, position: int, replacement: bytes) -> bytes:
    """Write other bytes over some."""
    return _put(data, position, replacement)


def cut(data: bytes, size: int) -> bytes:
    """Keep the first `size` bytes only."""
    assert 0 <= size < len(data)
    return data[:size]


def remove(data: bytes, position: int, count: int) -> bytes:
    """Take bytes out; what follows moves up."""
    assert count > 0 <= position <= len(data) - count
    return data[:position] + data[position + count :]


def swap(data: bytes, first: int, second: int, count: int) -> bytes:
    """Exchange two ranges of `count` bytes that do not overlap and are not the same."""
    assert 0 <= first <= first + count <= second <= len(data) - count
    changed = (
        data[:first]
        + data[second : second + count]
        + data[first + count : second]
        + data[first : first + count]
        + data[second + count :]
    )
    assert changed != data
    assert len(changed) == len(data)
    return changed


def repeat(data: bytes, position: int, count: int) -> bytes:
    """Write a range a second time right behind itself."""
    assert count > 0 <= position <= len(data) - count
    return data[: position + count] + data[position:]


def _put(data: bytes, position: int, replacement: bytes) -> bytes:
    assert 0 <= position <= len(data) - len(replacement)
    changed = data[:position] + replacement + data[position + len(replacement) :]
    assert changed != data
    assert len(changed) == len(data)
    return changed
