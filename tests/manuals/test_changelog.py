"""The changelog and the version, which stand in several places, once each."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

from kdump import __version__

ROOT = Path(__file__).parents[2]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_unreleased_is_first() -> None:
    assert re.findall(r"^## (.*)$", CHANGELOG, re.MULTILINE)[0] == "Unreleased"


def test_sections_are_known_and_not_empty() -> None:
    for title, text in re.findall(r"^### (.*)\n((?:(?!^##).*\n?)*)", CHANGELOG, re.MULTILINE):
        assert title in {"Added", "Changed", "Fixed"}
        assert re.search(r"^- ", text, re.MULTILINE), title


def test_version_is_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["version"] == __version__
    assert metadata.version("kdump") == __version__
