"""Paths and links in the documents against the files, and their tables against the project's."""

import re
import tomllib
from pathlib import Path

import pytest
from each import each

ROOT = Path(__file__).parents[2]
GUIDES = ("docs/architecture.md", "CONTRIBUTING.md")
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in (".", "docs", "docs/broker", "docs/playbooks", "sample-data")
    for path in (ROOT / folder).glob("*.md")
)
#: What looks like a path in backticks, and is a part of KDUMP_SHARED.
_ELSEWHERE = {"corpus/", "oracle/", "broker/"}
_PATH = r"[\w.-]+/[\w./-]*|[\w-]+\.(?:py|pyx|md|toml)"


@pytest.mark.parametrize("page", GUIDES)
def test_paths_exist(page: str) -> None:
    """A path counts from the root, or from kdump/ as modules are named."""
    words = re.findall(r"`([^`\n]+)`", (ROOT / page).read_text("utf-8"))
    paths = {word for word in words if re.fullmatch(_PATH, word)}
    assert len(paths) > 10
    for path in paths - (_ELSEWHERE if page == "CONTRIBUTING.md" else set()):
        # A recipe for NAME holds for the command that is there to copy.
        real = path.replace("NAME", "usage")
        assert (ROOT / real).exists() or (ROOT / "kdump" / real).exists(), path


@each("page", PAGES)
def test_links_have_targets(page: str) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", (ROOT / page).read_text("utf-8")):
        if "://" not in target:
            assert (ROOT / page).parent.joinpath(target).exists(), target


def test_documented_environments_are_in_tox() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    rows = re.findall(r"^\| (`.*`) \|", text, re.MULTILINE)[1:]
    named = {name for row in rows for name in re.findall(r"`([\w{},-]+)`", row)}
    tox = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["tox"]
    assert named == set(re.findall(r"^\[testenv:(.*)\]", tox["legacy_tox_ini"], re.MULTILINE))
