"""The catalogue: what its entries say is one thing for each, and tables made of them are whole.

`recorded_catalogue.txt` has what is said of each code beside its words, where that is not the
usual. Where it is meant to change: KDUMP_RECORD=1 pytest -n0 THIS_FILE.
"""

import os
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

from kdump.findings.catalogue import CATALOGUE, GAPS, UNDECODED
from kdump.kernels import reasons
from kdump.record.frames import GAP_REASONS

RECORDED = Path(__file__).with_name("recorded_catalogue.txt")
_WORDS = ("sentence", "remedy", "meaning")


def attribute_lines() -> Iterator[str]:
    for code, entry in CATALOGUE.items():
        said = {
            name: value.name.lower() if isinstance(value, Enum) else value
            for name, value in entry._asdict().items()
            if name not in _WORDS and (name == "severity" or value != entry._field_defaults[name])
        }
        yield " ".join((f"{code}:", *(f"{name}={value}" for name, value in said.items())))


def test_attributes_match_the_record() -> None:
    if "KDUMP_RECORD" in os.environ:
        RECORDED.write_text("".join(f"{line}\n" for line in attribute_lines()), "utf-8")
    assert [*attribute_lines()] == RECORDED.read_text("utf-8").splitlines()


def test_every_reason_for_a_gap_has_one_name() -> None:
    assert set(GAP_REASONS) <= GAPS.keys()
    assert sum(bool(entry.gap) for entry in CATALOGUE.values()) == len(GAPS)


def test_kernels_define_every_decoding_failure() -> None:
    assert UNDECODED.keys() <= set(reasons.NAMES.values())
    assert sum(bool(entry.undecoded) for entry in CATALOGUE.values()) == len(UNDECODED)
