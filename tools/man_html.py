"""Convert the manual pages from roff to Markdown with HTML, for the site.

Only the macros that man/*.[157] use are known; any other one is an error, so that none is lost.
"""

import html
import re
import shlex
from collections.abc import Iterator

_FONTS = {"B": "strong", "I": "em"}
_ESCAPES = {"\\-": "-", "\\&": "", "\\e": "\\", "\\(bu": "•", "\\,": "", "\\ ": " "}
#: What only shapes the printed page.
_IGNORED = {"PD", "na", "ad"}


def markdown_of(roff: str) -> str:
    """Return a page: a heading per section, and the text as HTML between them."""
    return "\n".join(_Page(roff).parts()) + "\n"


class _Page:
    """Walks the lines of a page once; `open` are the elements to be closed, innermost last."""

    def __init__(self, roff: str) -> None:
        self._lines = iter(re.sub(r'\\".*', "", roff).splitlines())
        self._open: list[str] = []

    def parts(self) -> Iterator[str]:
        for line in self._lines:
            macro, _, rest = line[1:].partition(" ") if line[:1] in (".", "'") else ("", "", line)
            if macro == "TH":
                name, section, *_ = shlex.split(rest)
                yield f"# {name.lower()}({section})\n"
            elif macro in ("SH", "SS"):
                yield from self._close(0)
                title = " ".join(shlex.split(rest))
                level = "##" if macro == "SH" else "###"
                yield f"\n{level} {title.capitalize() if macro == 'SH' else title}\n"
            elif macro == "PP":
                yield from self._close(self._nested())
                yield from self._begin("p")
            elif macro in ("TP", "IP"):
                yield from self._item(macro, rest)
            elif macro == "RS":
                yield from self._begin("div")
            elif macro == "RE":
                yield from self._close(self._nested() - 1)
            elif macro == "nf":
                yield from self._verbatim()
            elif macro == "TS":
                yield from self._table()
            elif macro == "br":
                yield "<br>"
            elif macro not in _IGNORED and (line.strip(". ") or macro):
                if not self._open:
                    yield from self._begin("p")
                yield _inline(line)
        yield from self._close(0)

    def _nested(self) -> int:
        """Return how many elements are open up to the innermost `.RS`."""
        return max((at for at, one in enumerate(self._open, 1) if one == "div"), default=0)

    def _begin(self, name: str) -> Iterator[str]:
        self._open.append(name)
        yield f"<{name}>"

    def _close(self, depth: int) -> Iterator[str]:
        while len(self._open) > max(depth, 0):
            yield f"</{self._open.pop()}>"

    def _item(self, macro: str, rest: str) -> Iterator[str]:
        nested = self._nested()
        yield from self._close(nested + 1 if self._open[nested : nested + 1] == ["dl"] else nested)
        if len(self._open) == nested:
            yield from self._begin("dl")
        term = _inline(next(self._lines)) if macro == "TP" else _text(shlex.split(rest)[0])
        yield f"<dt>{term}</dt>"
        yield from self._begin("dd")

    def _verbatim(self) -> Iterator[str]:
        if self._open[-1:] == ["p"]:
            yield from self._close(len(self._open) - 1)
        lines = []
        while (line := next(self._lines)) != ".fi":
            lines.append("" if line == ".PP" else _inline(line))
        yield "<pre>" + "\n".join(lines).strip("\n") + "</pre>"

    def _table(self) -> Iterator[str]:
        while not next(self._lines).endswith("."):
            pass
        yield "<table>"
        while (line := next(self._lines)) != ".TE":
            yield f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in line.split(chr(9)))}</tr>"
        yield "</table>"


def _inline(line: str) -> str:
    """Return a line of text, or of a macro that sets its words in one or two fonts in turn."""
    found = re.fullmatch(r"\.([BI]|[BIR][BIR]) +(.*)", line)
    if found is None:
        if line.startswith("."):
            raise ValueError(f"unknown macro: {line}")
        return _text(line)
    fonts, words = found[1], _words(found[2])
    if len(fonts) == 1:
        return _in_font(fonts, _text(" ".join(words)))
    return "".join(_in_font(fonts[at % 2], _text(word)) for at, word in enumerate(words))


def _words(rest: str) -> list[str]:
    return [quoted or plain for quoted, plain in re.findall(r'"([^"]*)"|(\S+)', rest)]


def _text(text: str) -> str:
    """Return HTML for text with roff's escapes."""
    parts = re.split(r"(\\f[BIRP])", text)
    font, out = "R", []
    for part in parts:
        if part.startswith("\\f"):
            font = part[2]
            continue
        plain = re.sub(r"\\(?:\(bu|.)", lambda found: _ESCAPES[found[0]], part)
        out.append(_in_font(font, html.escape(plain, quote=False)))
    return "".join(out)


def _in_font(font: str, text: str) -> str:
    name = _FONTS.get(font)
    return f"<{name}>{text}</{name}>" if name and text else text
