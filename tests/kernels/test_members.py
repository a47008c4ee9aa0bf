"""What headers say: names of codecs and of timestamp types, sequence numbers."""

from builders import GZIP, LOG_APPEND_TIME
from each import each

from kdump.kernels.members import codec_name, sequence_at, timestamp_type_name


def test_names() -> None:
    assert [codec_name(number) for number in range(8)] == [
        "none", "gzip", "snappy", "lz4", "zstd", "unknown-5", "unknown-6", "unknown-7",
    ]  # fmt: skip
    assert codec_name(0xFFF8 | GZIP) == "gzip"
    assert timestamp_type_name(0) == timestamp_type_name(GZIP) == "CreateTime"
    assert timestamp_type_name(LOG_APPEND_TIME) == "LogAppendTime"


@each(
    ("base", "delta", "last"),
    [(0, 0, 0), (5, 3, 8), (-1, 3, -1), ((1 << 31) - 1, 0, (1 << 31) - 1), ((1 << 31) - 1, 2, 1)],
)
def test_last_sequences_wrap_to_0(base: int, delta: int, last: int) -> None:
    assert sequence_at(base, delta) == last
