"""The pictures of terminal output in the pages, against what the commands print."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from record_pictures import FOLDER, PICTURES, ROOT, THEMES, Picture, print_screen

_SVG = "{http://www.w3.org/2000/svg}"
_SHOWN = re.compile(
    r'<picture>\s*<source media="\(prefers-color-scheme: dark\)" srcset="(?P<dark>[^"]+)">'
    r'\s*<img alt="(?P<alt>[^"]+)" src="(?P<light>[^"]+)">\s*</picture>'
)


@pytest.mark.parametrize("name", PICTURES)
def test_picture_shows_what_the_command_prints(name: str) -> None:
    expected = [line.plain for line in print_screen(PICTURES[name])]
    for theme in THEMES:
        text = (FOLDER / f"{name}-{theme}.svg").read_text("utf-8")
        image = ElementTree.fromstring(text)
        lines = ["".join(line.itertext()) for line in image.findall(f"{_SVG}text")]
        assert lines == expected, "after a deliberate change: python tools/record_pictures.py"
        assert image.findtext(f"{_SVG}title") == PICTURES[name].title
        assert PICTURES[name].command in str(image.findtext(f"{_SVG}desc"))
        assert image.get("role") == "img"
        assert image.get("aria-labelledby") == "title desc"
        assert not re.search(r"href|url\(|@import|@font-face|<script|<image", text)
        assert text.count("://") == 1  # the name of SVG itself


def test_pages_show_every_picture_in_both_themes() -> None:
    shown: dict[str, Picture] = {}
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        text = page.read_text("utf-8")
        found = list(_SHOWN.finditer(text))
        assert len(found) == text.count("<picture>") == text.count("<img"), page
        for one in found:
            name = Path(one["light"]).name.removesuffix("-light.svg")
            shown[name] = PICTURES[name]
            for theme in THEMES:
                assert (page.parent / one[theme]).resolve() == FOLDER / f"{name}-{theme}.svg"
            assert one["alt"] == PICTURES[name].title
    assert shown.keys() == PICTURES.keys()
    files = {f"{name}-{theme}.svg" for name in PICTURES for theme in THEMES}
    assert {path.name for path in FOLDER.iterdir()} == files
