"""The twins give the same answers on bytes that need not be a log: drawn by Hypothesis, at will."""

from __future__ import annotations

import random
from types import ModuleType

import builders
import pytest
from generated import given, settings, st
from long_runs import LONG
from random_logs import TEXTS, log_file
from twins import all_forms, both, compare_records

from kdump.kernels import _pure
from kdump.kernels.columns import Columns
from kdump.kernels.text_form import TextForm

PROFILE = settings(max_examples=20_000 if LONG else 80)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
ANY = st.one_of(
    st.binary(max_size=300),
    st.integers(0, 1 << 32).map(lambda seed: log_file(random.Random(seed))),
)
HEADER = builders.batch([], records_count=3)


@pytest.mark.fuzz
@PROFILE
@given(ANY, st.integers(-2, 400), st.integers(-2, 400), INT64, st.booleans(), st.integers(-1, 9))
def test_walk_survives_any_bytes(
    data: bytes, start: int, end: int, last_offset: int, check: bool, most: int
) -> None:
    batches, stop, _ = both("walk", data, start, end, 0, last_offset, check, most)
    assert sum(batches.sizes) == stop - max(0, min(start, end, len(data)))


@pytest.mark.fuzz
@PROFILE
@given(ANY, st.integers(-1, 400), st.integers(-1, 400), INT64, INT64, st.integers(-1, 5000))
def test_resync_survives_any_bytes(
    data: bytes, start: int, behind: int, low: int, high: int, summed: int
) -> None:
    both("resync", data, start, len(data), behind, low, high, summed)


VARINTS = st.one_of(
    st.binary(max_size=12),
    st.integers(-(1 << 63), (1 << 63) - 1).map(builders.varint),
    st.integers(-40, 40).map(builders.varint),
    st.integers(0, 10).map(lambda size: b"\xff" * size),
)
FIELDS = st.lists(st.one_of(VARINTS, st.binary(max_size=10)), max_size=12).map(b"".join)
RECORDS = st.lists(
    st.one_of(
        FIELDS.map(lambda inside: builders.varint(len(inside)) + inside),
        FIELDS,
        st.builds(
            builders.record,
            st.integers(-(1 << 31), (1 << 31) - 1),
            INT64,
            st.none() | st.binary(max_size=40),
            st.none() | st.binary(max_size=40),
            st.lists(
                st.tuples(st.binary(max_size=9), st.none() | st.binary(max_size=9)), max_size=3
            ),
        ),
    ),
    max_size=5,
).map(b"".join)


@pytest.mark.fuzz
@PROFILE
@given(RECORDS, st.integers(-1, 6), INT64, INT64, INT64, st.booleans())
def test_decoding_survives_any_records(
    payload: bytes, count: int, offset: int, timestamp: int, maximum: int, append_time: bool
) -> None:
    data = builders.batch(
        [],
        payload=payload,
        records_count=count,
        base_offset=offset,
        base_timestamp=timestamp,
        max_timestamp=maximum,
        attributes=builders.LOG_APPEND_TIME if append_time else 0,
    )
    batches, _, _ = both("walk", data, 0, len(data), 0, -1, True, 1)
    both("decode_run", data, 0, batches, 0, 100)
    for most in (1, 100):
        records, _, _ = both("decode_records", data, 61, len(data), batches, 0, 0, most)
        compare_records(random.Random(0), data, batches, records)


@pytest.mark.fuzz
@PROFILE
@given(ANY, INT64, INT64, st.integers(-1, 2))
def test_inner_messages_survive_any_bytes(data: bytes, offset: int, base: int, magic: int) -> None:
    batches, _, _ = _pure.walk(HEADER, 0, len(HEADER), 0, -1, True, 1)
    both("inner_base", data, 0, len(data), offset, magic)
    both("decode_messages", data, 0, len(data), batches, 0, base, 100)


def some_forms(number: int) -> list[TextForm]:
    """Give every form, or by turns half of them: the form next to each differs in one flag."""
    forms = all_forms(b"")
    return forms if LONG else forms[number % 2 :: 2]


@pytest.mark.fuzz
@PROFILE
@given(
    st.binary(max_size=60)
    | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass"))
    | st.text(max_size=30).map(lambda text: text.encode()[:-1])
    | st.lists(st.sampled_from(TEXTS), max_size=6).map(b"".join)
)
def test_text_is_written_for_any_bytes(value: bytes) -> None:
    data = builders.batch([builders.record(0, 0, value, value, [(value, value)])])
    batches, _, _ = both("walk", data, 0, len(data), 0, -1, True, 1)
    records, *_ = both("decode_run", data, 0, batches, 0, 1)
    for form in some_forms(len(value)):
        both("format_records", data, batches, records, None, form)


@pytest.mark.parametrize("unit", [*TEXTS[:-1], b"\0", b"a" * 7 + b"\xc3\xbc", b"\xf0\x9f\x98\x80"])
@pytest.mark.parametrize("lead", range(4) if LONG else [3])
def test_long_text_is_written_across_pieces(unit: bytes, lead: int) -> None:
    value = b"x" * lead + unit * (270_000 // len(unit))  # a piece has 256 KiB
    data = builders.batch([builders.record(0, 0, value, b"", [])])
    batches, records = _decoded(_pure, data)
    for form in some_forms(len(unit)):
        both("format_records", data, batches, records, None, form)


def _decoded(kernel: ModuleType, data: bytes) -> tuple[Columns, Columns]:
    batches, _, _ = kernel.walk(data, 0, len(data), 0, -1, True, 1)
    records, *_ = kernel.decode_run(data, 0, batches, 0, 1 << 30)
    return batches, records
