"""The rules in docs/broker/: each code that is cited is defined there, and the other way round."""

import re
from collections.abc import Iterator
from pathlib import Path

from each import each
from rules import CODE, PAGES, RULES

ROOT = Path(__file__).parents[2]
# What looks like a code of a rule and is none.
NO_RULES = {"X86", "I32", "I64"}
EVIDENCE = {"source", "corpus", "oracle", "broker"}


def codes_in(text: str) -> Iterator[tuple[str, str]]:
    """Yield each code with the step that is named with it, if any; of a range every code."""
    yield from re.findall(rf"\b({CODE})(?:(?:\.| step )(\d))?\b", text)
    for letter, first, last in re.findall(r"\b([A-Z])(\d+)(?: to |-)\1(\d+)\b", text):
        yield from ((f"{letter}{number}", "") for number in range(int(first), int(last) + 1))


def cited() -> dict[tuple[str, str], str]:
    """Give each code, with and without a step, that code and tests cite, with a file that does."""
    found: dict[tuple[str, str], str] = {}
    for folder in ("kdump", "tests", "tools"):
        for path in sorted((ROOT / folder).rglob("*.py*")):
            if path.suffix in (".py", ".pyx") and path != Path(__file__):
                for code in codes_in(path.read_text("utf-8")):
                    found.setdefault(code, str(path.relative_to(ROOT)))
    return {code: path for code, path in found.items() if code[0] not in NO_RULES}


CITED = cited()


def test_codes_are_defined_once() -> None:
    pages = "".join(page.read_text("utf-8") for page in PAGES.glob("*.md"))
    titles = re.findall(r"^### (\w+)", pages, re.MULTILINE)
    assert sorted(titles) == sorted(set(titles))
    assert set(titles) == set(RULES)
    assert len(RULES) > 100


def test_each_cited_code_is_defined() -> None:
    assert {code: path for (code, _), path in CITED.items() if code not in RULES} == {}


def test_each_cited_step_exists() -> None:
    for (code, step), path in CITED.items():
        if step:
            assert re.search(rf"^{step}\. ", RULES[code][1], re.MULTILINE), (code, step, path)


def test_each_rule_is_cited_or_is_background() -> None:
    codes = {code for code, _ in CITED}
    for code, (page, text) in RULES.items():
        assert text.rstrip().endswith(" · background") == (code not in codes), (code, page)


@each("code", RULES)
def test_rules_name_releases_and_sources(code: str) -> None:
    last = RULES[code][1].rstrip().splitlines()[-1]
    found = re.fullmatch(r"Since \d[^·]* · ([a-z, ]+)( · background)?", last)
    assert found is not None, last
    assert set(found[1].split(", ")) <= EVIDENCE


def test_rules_cite_defined_rules() -> None:
    for page in PAGES.glob("*.md"):
        named = {code for code, _ in codes_in(page.read_text("utf-8"))}
        assert named <= set(RULES), page.name


def test_list_of_pages_is_complete() -> None:
    listed = set(re.findall(r"\]\(([a-z-]+\.md)\)", (PAGES / "README.md").read_text("utf-8")))
    assert listed == {page.name for page in PAGES.glob("*.md")} - {"README.md"}


def test_repository_cites_nothing_outside_of_it() -> None:
    """What lies outside of the repository is named as the place of corpora and oracle only."""
    for folder in ("kdump", "tests", "tools", "docs", "man"):
        for path in (ROOT / folder).rglob("*.*"):
            if path.suffix in (".py", ".pyx", ".md", ".1", ".5", ".7") and path != Path(__file__):
                text = path.read_text("utf-8")
                assert "observed.md" not in text, path
                assert "broker-semantics" not in text, path
