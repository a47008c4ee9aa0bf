"""Text as Java has it. The cases were checked against Java 17."""

import pytest

from kdump.output.java_text import camel_case, jackson, java_text

MARK = "\ufffd"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"plain", "plain"),
        ("é鍵🔑".encode(), "é鍵🔑"),
        (b"\xff\xfe", MARK * 2),
        (b"\xed\xa0\x80", MARK),  # a surrogate is one malformed sequence
        (b"\xed\xa0\x80\xed\xb0\x80", MARK * 2),
        (b"\xed\xa0A", MARK + "A"),
        (b"\xed\xa0", MARK),
        (b"\xed\x9f\xbf", "\ud7ff"),
        (b"\xe0\x80\x80", MARK * 3),
        (b"\xe2\x82", MARK),
        (b"\xe2\x82A", MARK + "A"),
        (b"\xf0\x9f\x98", MARK),
        (b"\xf0\x80\x80\x80", MARK * 4),
        (b"\xf4\x90\x80\x80", MARK * 4),
        (b"\xf8\x88\x80\x80\x80", MARK * 5),
        (b"\xc0\xaf", MARK * 2),
        (b"\xc2", MARK),
    ],
)
def test_malformed_sequences(data: bytes, text: str) -> None:
    assert java_text(data) == text


def test_json_has_upper_case_escapes() -> None:
    assert jackson({"a": "\x1b é"}) == '{"a":"\\u001B é"}'


def test_names_become_camel_case() -> None:
    named = {"kraft_version": 1, "voters": [{"voter_directory_id": "x"}], "port": 1}
    assert camel_case(named) == {
        "kRaftVersion": 1,
        "voters": [{"voterDirectoryId": "x"}],
        "port": 1,
    }
