"""What a page consists of, and how it is written as HTML and as Markdown.

HTML has no script and makes no request, which its content security policy enforces.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from typing import Any

from kdump.output.escape import visible
from kdump.tuples import NamedTuple

_MARKDOWN = {ord(mark): f"\\{mark}" for mark in "\\`*_{}[]<>#|~$"} | {ord("&"): "&amp;"}


class Heading(NamedTuple):
    """The start of a part; `anchor`: it is listed in the contents."""

    text: str
    anchor: str = ""


class Text(NamedTuple):
    """A paragraph; `kind`: damage, note or good, which have a color."""

    text: str
    kind: str = ""


class Commands(NamedTuple):
    """Lines to type, with what they are for."""

    caption: str
    lines: Sequence[str]


class Table(NamedTuple):
    """A table; columns whose name ends in > are numbers. `folded`: shown on demand."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    folded: bool = False


class Plot(NamedTuple):
    """A drawing with the same numbers as a table."""

    svg: str
    table: Table


Block = Heading | Text | Commands | Table | Plot

_STYLE = """
:root{color-scheme:light dark;--page:#fff;--ink:#1b1f24;--dim:#57606a;--line:#d0d7de;--box:#f6f8fa;
--damage:#a40e26;--note:#7a4b00;--good:#116329;--mark:#0a58ca;--fill:#9ec5fe}
@media(prefers-color-scheme:dark){:root{--page:#0d1117;--ink:#e6edf3;--dim:#9da7b3;--line:#30363d;
--box:#161b22;--damage:#ff938a;--note:#e3b341;--good:#56d364;--mark:#79b8ff;--fill:#1f4e8c}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:72rem;padding:1rem 1.25rem 3rem;background:var(--page);
color:var(--ink);font:1rem/1.5 system-ui,sans-serif}
h1{font-size:1.6rem;margin:.5rem 0 .25rem;overflow-wrap:anywhere}
h2{font-size:1.25rem;margin:2.25rem 0 .5rem;padding-top:.5rem;border-top:1px solid var(--line)}
p{margin:.5rem 0;max-width:60rem;overflow-wrap:anywhere}
a{color:var(--mark)}nav a{margin-right:.9rem;display:inline-block}
.dim{color:var(--dim)}.damage{color:var(--damage);font-weight:600}.note{color:var(--note)}
.good{color:var(--good);font-weight:600}
.wide{overflow-x:auto;margin:.75rem 0 1rem}
table{border-collapse:collapse;font-size:.875rem}
caption,figcaption{text-align:left;font-weight:600;padding:.25rem 0;color:var(--ink)}
th,td{text-align:left;vertical-align:top;padding:.25rem .75rem .25rem 0;
border-bottom:1px solid var(--line)}
th{color:var(--dim);font-weight:600;white-space:nowrap}
caption{white-space:nowrap}figcaption{font-size:.875rem}
.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
td.l{overflow-wrap:anywhere;min-width:9rem}td.t{white-space:nowrap}pre{font-family:ui-monospace,monospace;font-size:.8125rem}
pre{background:var(--box);border:1px solid var(--line);padding:.6rem .75rem;margin:.25rem 0 1rem;
white-space:pre-wrap;overflow-wrap:anywhere}
summary{cursor:pointer;color:var(--mark);padding:.25rem 0}
svg{display:block;width:100%;min-width:36rem;max-width:60rem;height:auto;font:12px system-ui,
sans-serif}
svg text{fill:var(--ink)}svg .grid{stroke:var(--line)}svg .fill{fill:var(--fill)}
svg .mark{stroke:var(--mark);fill:none;stroke-width:1.5}svg .bar{fill:var(--mark)}
@page{margin:15mm}
@media print{:root{color-scheme:light;--page:#fff;--ink:#000;--dim:#444;--line:#bbb;--box:#fff;
--damage:#a40e26;--note:#5c3800;--good:#116329;--mark:#0a58ca;--fill:#9ec5fe}
body{max-width:none;padding:0;font-size:9.5pt}nav{display:none}.wide{overflow:visible}
svg{min-width:0}table{font-size:8pt}th,td{overflow-wrap:anywhere;white-space:normal}
details::details-content{content-visibility:visible;display:block}
h2{break-after:avoid}tr,svg,pre{break-inside:avoid}}
""".strip()
_LONG_WORD = 32
_TIME = re.compile(r"(?:≈ ?)?(?:\d{4}-\d\d-\d\dT)?\d\d:\d\d:\d\d[\d.]*Z?")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def html(title: str, lead: str, blocks: Sequence[Block]) -> Iterator[str]:
    """Write a page of HTML, some lines at a time."""
    yield (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_in_html(title)}</title>\n<style>\n{_STYLE}\n</style>\n</head>\n<body>\n"
        f'<header>\n<h1>{_in_html(title)}</h1>\n<p class="dim">{_in_html(lead)}</p>\n</header>\n'
        '<nav aria-label="Contents">\n'
    )
    for block in blocks:
        if isinstance(block, Heading) and block.anchor:
            yield f'<a href="#{block.anchor}">{_in_html(block.text)}</a>\n'
    yield "</nav>\n<main>\n"
    for block in blocks:
        yield from _HTML[type(block)](block)
    yield "</main>\n</body>\n</html>\n"


def _in_html(text: str) -> str:
    return escape(visible(text), quote=True)


def _html_heading(block: Heading) -> Iterator[str]:
    yield f'<h2 id="{block.anchor}">{_in_html(block.text)}</h2>\n'


def _html_text(block: Text) -> Iterator[str]:
    kind = f' class="{block.kind}"' if block.kind else ""
    yield f"<p{kind}>{_in_html(block.text)}</p>\n"


def _html_commands(block: Commands) -> Iterator[str]:
    lines = "\n".join(map(_in_html, block.lines))
    yield f"<p>{_in_html(block.caption)}</p>\n<pre>{lines}</pre>\n"


def _html_table(block: Table) -> Iterator[str]:
    caption = _in_html(block.caption)
    if block.folded:
        yield f"<details><summary>{caption}: the numbers</summary>\n"
    yield f'<div class="wide" role="group" aria-label="{caption}" tabindex="0">'
    yield f"<table><caption>{caption}</caption>\n<thead><tr>"
    kinds = [' class="n"' if name.endswith(">") else "" for name in block.columns]
    for name, kind in zip(block.columns, kinds, strict=True):
        yield f'<th scope="col"{kind}>{_in_html(name.removesuffix(">"))}</th>'
    yield "</tr></thead>\n<tbody>\n"
    for row in block.rows:
        cells = map(_html_cell, row, kinds)
        yield f"<tr>{''.join(cells)}</tr>\n"
    yield f"</tbody></table></div>{'</details>' * block.folded}\n"


def _html_cell(text: str, kind: str) -> str:
    if not kind and max(map(len, text.split()), default=0) > _LONG_WORD:
        kind = ' class="l"'
    elif not kind and _TIME.fullmatch(text):
        kind = ' class="t"'
    return f"<td{kind}>{_in_html(text)}</td>"


def _html_plot(block: Plot) -> Iterator[str]:
    caption = _in_html(block.table.caption)
    yield f'<figure class="wide" tabindex="0"><figcaption>{caption}</figcaption>\n'
    yield f"{block.svg}</figure>\n"
    yield from _html_table(block.table._replace(folded=True))


_HTML: dict[type, Callable[[Any], Iterator[str]]] = {
    Heading: _html_heading,
    Text: _html_text,
    Commands: _html_commands,
    Table: _html_table,
    Plot: _html_plot,
}


def markdown(title: str, lead: str, blocks: Iterable[Block]) -> Iterator[str]:
    """Write a page of Markdown; of a drawing it has the numbers."""
    yield f"# {_in_markdown(title)}\n\n{_in_markdown(lead)}\n"
    for block in blocks:
        if isinstance(block, Heading):
            yield f"\n## {_in_markdown(block.text)}\n"
        elif isinstance(block, Text):
            mark = "**" if block.kind == "damage" else ""
            yield f"\n{mark}{_in_markdown(block.text)}{mark}\n"
        elif isinstance(block, Commands):
            lines = "\n".join(f"    {visible(line)}" for line in block.lines)
            yield f"\n{_in_markdown(block.caption)}\n\n{lines}\n"
        else:
            yield from _markdown_table(block.table if isinstance(block, Plot) else block)


def _markdown_table(table: Table) -> Iterator[str]:
    yield f"\n{_in_markdown(table.caption)}:\n\n"
    yield f"| {' | '.join(_in_markdown(name.removesuffix('>')) for name in table.columns)} |\n"
    marks = ("--:" if name.endswith(">") else "---" for name in table.columns)
    yield f"| {' | '.join(marks)} |\n"
    for row in table.rows:
        yield f"| {' | '.join(map(_in_markdown, row))} |\n"


def _in_markdown(text: str) -> str:
    return visible(text).translate(_MARKDOWN)
