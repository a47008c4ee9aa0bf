"""The site of docs/: its navigation, and that it builds without a warning."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import man_html
import pytest
import site_pages

from kdump.cli.symptoms import SYMPTOMS

ROOT = Path(__file__).parents[2]
CONFIG = (ROOT / "mkdocs.yml").read_text("utf-8")
NAVIGATION = re.findall(
    r"^ *- (?:[^:]+: )?([\w./-]+\.md)$", CONFIG.partition("\nnav:")[2], re.MULTILINE
)


def test_navigation_has_every_page_once() -> None:
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/**/*.md")}
    assert len(NAVIGATION) == len(set(NAVIGATION))
    assert set(NAVIGATION) == pages | set(site_pages.COPIED.values()) | set(site_pages.GENERATED)
    symptoms = [f"playbooks/{symptom.page}.md" for symptom in SYMPTOMS]
    assert NAVIGATION[: 2 + len(symptoms)] == ["index.md", "playbooks/README.md", *symptoms]


def test_manual_pages_convert() -> None:
    for path in ROOT.glob("man/*.[157]"):
        page = man_html.markdown_of(path.read_text("utf-8"))
        tags = re.findall(r"<(/?)(?:p|dl|dt|dd|div|pre|table|tr|td|em|strong)>", page)
        assert tags.count("") == tags.count("/") > 0
    page = man_html.markdown_of((ROOT / "man/kdump-salvage.1").read_text("utf-8"))
    assert page.startswith("# kdump-salvage(1)\n")
    assert "<dt><strong>--out</strong><em> DIR</em></dt>\n<dd>\n" in page


@pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("material", "mkdocstrings"))), reason="needs kdump[docs]"
)
def test_site_builds_without_a_warning(tmp_path: Path) -> None:
    site = tmp_path / "site"
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    for path in site.rglob("*.html"):
        text = path.read_text("utf-8")
        assert not re.search(r'<(?:script|img|source)[^>]* src(?:set)?="(?:https?:)?//', text), path
        assert not re.search(r'<link[^>]* href="(?:https?:)?//', text), path
    reference = (site / "reference.html").read_text("utf-8")
    assert 'id="kdump.Data.records"' in reference
