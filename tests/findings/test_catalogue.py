"""The catalogue: what its entries say is one thing for each, and tables made of them are whole."""

from kdump.findings.catalogue import CATALOGUE, GAPS, UNDECODED
from kdump.kernels import reasons
from kdump.record.frames import GAP_REASONS


def test_every_reason_for_a_gap_has_one_name() -> None:
    assert set(GAP_REASONS) <= GAPS.keys()
    assert sum(bool(entry.gap) for entry in CATALOGUE.values()) == len(GAPS)


def test_kernels_define_every_decoding_failure() -> None:
    assert UNDECODED.keys() <= set(reasons.NAMES.values())
    assert sum(bool(entry.undecoded) for entry in CATALOGUE.values()) == len(UNDECODED)
