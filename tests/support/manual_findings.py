"""The list of findings in kdump(1), written from the catalogue.

Run as a program this file writes it into the page; a test compares.
"""

import re
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "man" / "kdump.1"
_BETWEEN = re.compile(r'(?<=\.\\" findings begin\n).*?(?=\.\\" findings end)', re.DOTALL)


def escaped(text: str) -> str:
    """Write text as roff needs it."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text


def expected_list() -> str:
    """Give the list as the catalogue has it: what is wrong, what it means, what to do next."""
    from kdump.findings.finding import CATALOGUE

    lines = []
    for code, entry in CATALOGUE.items():
        lines += [".TP", f'.BR {escaped(code)} " ({entry.severity.value})"']
        lines += map(escaped, filter(None, (entry.sentence, entry.meaning, entry.remedy)))
    return "".join(f"{line}\n" for line in lines)


def written_list() -> str:
    """Give the list as the page has it."""
    found = _BETWEEN.search(PAGE.read_text("utf-8"))
    return found[0] if found else ""


def write_list() -> None:
    """Put the catalogue's list into the page."""
    text = PAGE.read_text("utf-8")
    PAGE.write_text(_BETWEEN.sub(lambda _: expected_list(), text), "utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    write_list()
