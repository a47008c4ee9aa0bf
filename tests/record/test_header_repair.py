"""Entries of which only fields outside the checksum are wrong; see test_mending.py, too."""

import builders

from kdump.record.header_repair import with_known_magic


def test_truncated_entry_has_no_known_magic() -> None:
    """Of a gap at the end of a file there may be a few bytes."""
    entry = bytearray(builders.batch([builders.record(0)]))
    entry[16] = 44
    assert with_known_magic(bytes(entry)) == 2
    assert {with_known_magic(bytes(entry[:size])) for size in range(len(entry))} == {None}
