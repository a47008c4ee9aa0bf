"""The partition of a group against Java's own hash."""

from each import each

from kdump.replay.coordinators import java_hash, partition_for


@each(
    ("text", "number"),
    [
        ("", 0),
        ("a", 97),
        ("billing", -109829509),
        ("polygenelubricants", -(1 << 31)),
        ("\u00e9", 233),
        ("\U0001f600", 1772899),
        ("\udc80", 56448),
    ],
)
def test_hash_matches_java(text: str, number: int) -> None:
    assert java_hash(text) == number


def test_partition_is_not_negative() -> None:
    assert partition_for("billing", 50) == 9
    assert partition_for("polygenelubricants", 7) == 0  # it has no positive counterpart
