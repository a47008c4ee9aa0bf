"""Pages of the site beside those in docs/: a hook of MkDocs, named in mkdocs.yml.

The README is the first page; the manual pages, the reference of the library and the kinds of rows
are made when the site is built. Links are written as GitHub resolves them, and changed here.
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from man_html import markdown_of

ROOT = Path(__file__).parents[1]
#: Files of the repository and the pages made of them.
COPIED = {
    "README.md": "index.md",
    **{name: name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")},
    **{f"man/{one.name}": f"man/{one.name}.md" for one in sorted(ROOT.glob("man/*.[157]"))},
}
GENERATED = ("reference.md", "rows.md")
_LINK = re.compile(r"\]\(([^)#\s:]+)(#[^)\s]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages."""
    from mkdocs.structure.files import File

    for source, page in COPIED.items():
        text = (ROOT / source).read_text("utf-8")
        if source.startswith("man/"):
            text = markdown_of(text)
        files.append(File.generated(config, page, content=text))
    license_text = (ROOT / "LICENSE").read_text("utf-8")
    files.append(File.generated(config, "LICENSE.txt", content=license_text))
    files.append(File.generated(config, "reference.md", content="\n".join(_reference())))
    files.append(File.generated(config, "rows.md", content="\n".join(_rows())))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Point links at the pages of the site, wherever they are in the repository."""
    sources = {page: source for source, page in COPIED.items()}
    source = sources.get(page.file.src_uri, f"docs/{page.file.src_uri}")

    def moved(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), found[1]))
        place = COPIED.get(target, target.removeprefix("docs/"))
        if target == "LICENSE":
            place = "LICENSE.txt"
        elif target.rstrip("/") in ("docs/broker", "docs/playbooks"):
            place = f"{place.rstrip('/')}/README.md"
        here = posixpath.dirname(page.file.src_uri)
        return f"]({posixpath.relpath(place, here or '.')}{found[2] or ''})"

    if page.file.src_uri == "index.md":
        markdown = re.sub(r'(src|srcset)="docs/', r'\1="', markdown)
    return _LINK.sub(moved, markdown)


def _reference() -> Iterator[str]:
    import kdump

    yield "# Reference of the library\n"
    yield "What `import kdump` gives. [kdump from Python](library.md) shows how to use it.\n"
    for name in kdump.__all__:
        if not name.startswith("__"):
            yield f"::: kdump.{name}\n"


def _rows() -> Iterator[str]:
    from kdump.findings.schema import fields_of

    yield "# Rows\n"
    yield "The fields of each row kind, as `kdump schema` lists them.\n"
    for kind, fields in fields_of().items():
        yield f"## {kind}\n"
        yield "| field | type | unit | null | meaning |"
        yield "| --- | --- | --- | --- | --- |"
        for one in fields:
            meaning = re.sub(r"([|*_<\[`])", r"\\\1", one.doc)
            kind_of = "string" if one.type == "dictionary" else one.type
            null = "may be" if one.null else ""
            yield f"| `{one.name}` | {kind_of} | {one.unit} | {null} | {meaning} |"
        yield ""
