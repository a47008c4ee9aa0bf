"""The rules in docs/broker/, by their codes."""

import re
from pathlib import Path

PAGES = Path(__file__).parents[2] / "docs/broker"
# Codes of rules begin with one of these letters.
CODE = r"(?:[EFSILRDVOXMKGNW]\d|T[1-9])\d?"
#: Code -> page, and text below the heading.
RULES = {
    code: (page.name, text)
    for page in sorted(PAGES.glob("*.md"))
    for code, text in re.findall(
        rf"^### ({CODE})\. .*\n((?:(?!^#).*\n?)*)", page.read_text("utf-8"), re.MULTILINE
    )
}
