"""The lists of findings and of broker versions in kdump(1), from the catalogue and the changes.

Run as a program this file writes them into the page; a test compares.
"""

import re
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "man" / "kdump.1"


def _between(name: str) -> re.Pattern[str]:
    begin, end = (re.escape(f'.\\" {name} {word}') for word in ("begin", "end"))
    return re.compile(f"(?<={begin}\n).*?(?={end})", re.DOTALL)


def escaped(text: str) -> str:
    """Write text as roff needs it."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text


def _findings() -> list[str]:
    """Give what is wrong, what it means, what to do next."""
    from kdump.findings.finding import CATALOGUE

    lines = []
    for code, entry in CATALOGUE.items():
        lines += [".TP", f'.BR {escaped(code)} " ({entry.severity.value})"']
        lines += map(escaped, filter(None, (entry.sentence, entry.meaning, entry.remedy)))
    return lines


def _versions() -> list[str]:
    """Give what each release changed, with the proposals and tickets that say so."""
    from kdump.broker import versions

    lines: list[str] = []
    since = None
    for change in vars(versions).values():
        if not isinstance(change, versions.Change):
            continue
        if change.since != since:
            since = change.since
            lines += [".TP", f".B {versions.text_of(since)}"]
        told = [code for code in change.source.split() if "-" in code]
        if change.until is not None:
            told.append(f"until {versions.text_of(change.until)}")
        lines.append(escaped(change.does + (f" ({', '.join(told)})" if told else "")))
    return lines


LISTS = {"findings": _findings, "versions": _versions}


def expected_list(name: str) -> str:
    """Give a list as the code has it."""
    return "".join(f"{line}\n" for line in LISTS[name]())


def written_list(name: str) -> str:
    """Give a list as the page has it."""
    found = _between(name).search(PAGE.read_text("utf-8"))
    return found[0] if found else ""


def write_lists() -> None:
    """Put the lists into the page."""
    text = PAGE.read_text("utf-8")
    for name in LISTS:
        text = _between(name).sub(lambda _, name=name: expected_list(name), text)
    PAGE.write_text(text, "utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    write_lists()
