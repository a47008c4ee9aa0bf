"""Words that a native reader stumbles over appear in nothing that a user reads."""

import re
from pathlib import Path

from commands import run
from each import each

from kdump.cli import HELP
from kdump.findings.catalogue import CATALOGUE

ROOT = Path(__file__).parents[2]
#: What stands in for precise verbs, old-fashioned words, and negations without "not".
BANNED = re.compile(
    r"\b(?:anew|tells? of|told (?:of|apart)|comes? to\b(?! rest)|goes by|go by"
    r"|(?<!there )(?:is|are) no (?!longer\b|more than\b)[a-z]+|stands? apart|beside"
    r"|(?:hold|holds|held) against|taken for|be had|there are none)\b",
    re.IGNORECASE,
)
PAGES = [
    *(ROOT / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs/playbooks").glob("*.md")),
    *sorted((ROOT / "man").iterdir()),
]
#: Sentence or part of one -> why it stays.
ALLOWED: dict[str, str] = {}


def stumbling(text: str) -> list[str]:
    """Return the banned words of a text, each with what is around it."""
    text = " ".join(re.sub(r"```.*?```", "", text, flags=re.DOTALL).split())
    found = [text[max(0, at.start() - 40) : at.end() + 30] for at in BANNED.finditer(text)]
    return [words for words in found if not any(allowed in words for allowed in ALLOWED)]


@each("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_avoid_banned_words(page: Path) -> None:
    assert stumbling(page.read_text("utf-8")) == []


@each("command", ["", *HELP])
def test_help_avoids_banned_words(command: str) -> None:
    assert stumbling(run(*command.split(), "--help").output) == []


def test_findings_avoid_banned_words() -> None:
    texts = (f"{one.sentence} {one.remedy} {one.meaning}" for one in CATALOGUE.values())
    assert [words for text in texts for words in stumbling(text)] == []


def test_each_exception_is_needed_and_has_a_reason() -> None:
    text = " ".join(" ".join(page.read_text("utf-8").split()) for page in PAGES)
    assert all(reason and allowed in text for allowed, reason in ALLOWED.items())


@each(
    "text",
    ["It is no segment.", "It comes to 5.", "written anew", "held against the log", "beside it"],
)
def test_banned_words_are_found(text: str) -> None:
    assert len(stumbling(text)) == 1
    assert stumbling("There is no segment, and it is no longer read.") == []
