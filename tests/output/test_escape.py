"""Nothing hostile reaches a terminal or JSON text as it is."""

import json

from each import each

from kdump.output.escape import escape_json, visible, visible_bytes

HOSTILE = [*range(0x20), *range(0x7F, 0xA0), 0x200E, 0x200F, *range(0x2028, 0x202F)]
HOSTILE += [0x2066, 0x2067, 0x2068, 0x2069]


@each("number", [*HOSTILE, 0x061C, 0xD800, 0xDCFF, 0xDFFF])
def test_hostile_character_is_spelled_out(number: int) -> None:
    shown = visible(f"a{chr(number)}b")
    assert shown.isascii()
    assert shown.isprintable()
    assert shown != f"a{chr(number)}b"


@each("text", ["", "plain", "[bold]markup[/]", "ключ-鍵-🔑", "a\\b"])
def test_harmless_text_is_left_alone(text: str) -> None:
    assert visible(text) == text


def test_non_utf8_bytes_are_escaped() -> None:
    assert visible_bytes(b"\x00\x00\x05order\xff\xe2\x82") == "\\x00\\x00\\x05order\\xff\\xe2\\x82"


def test_file_name_bytes_are_numbered() -> None:
    assert visible(b"a\xffb".decode("utf-8", "surrogateescape")) == "a\\xffb"


@each("number", [*HOSTILE, 0xD800, 0xDCFF])
def test_json_keeps_its_meaning(number: int) -> None:
    text = chr(number)
    escaped = escape_json(json.dumps(text, ensure_ascii=False))
    assert json.loads(escaped) == text
    assert escaped.isascii()
