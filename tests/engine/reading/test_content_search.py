"""Records found by a search over a block are those found by looking at each."""

import random
import re

import builders
import pytest
from each import each

from kdump import kernels
from kdump.engine.reading import filters
from kdump.engine.reading.filters import ContentSearch, Filters
from kdump.kernels.columns import DecodedRecords

PATTERNS = [
    *(rb"abc", rb"a", rb"", rb"x?", rb"ab+c", rb"(?:ab){2}", rb"(a|b)c", rb"[ab]{2}c", rb"a.c"),
    *(rb"^abc", rb"c$", rb"\bab", rb"(?i)ABC", rb"(?i:A)bc", rb"a.*c", rb"(?<=a)bc", rb"(?!a)bc"),
    *(rb"a(?=b)", rb"(?s)a.{0,9}c", rb"[^a]b", rb"a++b", rb"(?>ab|a)c", rb"(ab)?c", rb"a{0}bc"),
    *(rb"(?P<x>a)(?P=x)", rb"\x00\x00", rb"ab|\Aca", rb"^[ab]", rb"[bc]$"),
]


def some_records(rng: random.Random) -> tuple[bytes, DecodedRecords]:
    texts = [None, b"", *(bytes(rng.choices(b"abc\n\0", k=rng.randrange(9))) for _ in range(20))]
    data = builders.batch(
        [
            builders.record(n, 0, rng.choice(texts), rng.choice(texts), [(b"abc", b"abc")])
            for n in range(rng.randrange(12))
        ]
    )
    batches, _, _ = kernels.walk(data, 0, len(data), 0, -1, True, 1)
    records, *_ = kernels.decode_run(data, 0, batches, 0, 99)
    return data, records


@each("pattern", PATTERNS)
def test_matching_rows_are_found(pattern: bytes) -> None:
    rng = random.Random(1)
    compiled = re.compile(pattern)
    search = ContentSearch(compiled)
    for _ in range(100):
        data, records = some_records(rng)
        wanted = [
            row
            for row in range(records.count)
            if any(
                text is not None and compiled.search(text)
                for text in (records.key(data, row), records.payload(data, row))
            )
        ]
        filters = Filters(grep=compiled)
        assert list(filters.select_records(data, records, None) or ()) == wanted
        assert search.rows(data, records, None) == wanted
        filters = Filters(grep=compiled, to_offset=5)
        some = [row for row in wanted if row < 5]
        assert list(filters.select_records(data, records, bytearray(b"\1")) or ()) == some


@pytest.mark.parametrize(
    ("pattern", "looked_at"),
    [(rb"needle", 1), (rb"need+le[0-9]*", 1), (rb"[x-z]{3}", 1), (rb"^needle", 1), (rb".*", 200)],
)
def test_few_records_are_decoded(
    pattern: bytes, looked_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = [b"needle xyz" if n == 77 else b"hay %d" % n for n in range(200)]
    data = builders.batch([builders.record(n, 0, b"k", value) for n, value in enumerate(values)])
    batches, _, _ = kernels.walk(data, 0, len(data), 0, -1, True, 1)
    records, *_ = kernels.decode_run(data, 0, batches, 0, 999)
    seen: list[int] = []
    matches = filters.ContentSearch._matches

    def counting(self: ContentSearch, data: bytes, records: DecodedRecords, row: int) -> bool:
        seen.append(row)
        return matches(self, data, records, row)

    monkeypatch.setattr(filters.ContentSearch, "_matches", counting)
    found = list(Filters(grep=re.compile(pattern)).select_records(data, records, None) or ())
    assert len(seen) == looked_at
    assert found == (list(range(200)) if looked_at == 200 else [77])
