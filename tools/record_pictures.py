"""Draw terminal output as SVG for the pages, light and dark: record_pictures.py [NAME...].

A page shows docs/pictures/NAME-light.svg and NAME-dark.svg in a `<picture>`. The files depend only
on what the command prints, fetch no font and nothing else, and contain the output as text.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from rich.cells import cell_len
from rich.color import ColorType
from rich.style import Style
from rich.text import Text

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs/pictures"
COLUMNS = 100
#: Pixels of one character and one line at a font size of 14, and the margin on each side.
_CHARACTER, _LINE, _MARGIN = 8.4, 19, 16


class Picture(NamedTuple):
    """A command as it is typed on a terminal, and how much of its output is shown."""

    command: str
    title: str
    lines: int = 40


_HEX = "kdump dump --hex --from-offset 457 --limit 1 sample-data/damaged/one-bit/orders.zstd-0"
_THREE = " ".join(f"sample-data/damaged/4.4.0-three-nodes/n{node}" for node in (1, 2, 3))
PICTURES = {
    "verify": Picture(
        "kdump verify -q sample-data/damaged/4.1.1-stopped/d1",
        "kdump verify lists the damage in a data directory and the command to type next",
        24,
    ),
    "hex": Picture(_HEX, "kdump dump --hex shows a damaged batch byte by byte", 24),
    "predict": Picture(
        "kdump predict --quick sample-data/damaged/4.1.1-killed/d1",
        "kdump predict shows whether the node starts, and what the start does to each partition",
        21,
    ),
    "why": Picture(
        "kdump why --now 2026-12-24 --config retention.ms=86400000 sample-data/clean/4.1.1/d1",
        "kdump why divides a full disk by topic, and by what retention deletes and keeps",
    ),
    "stuck": Picture(
        "kdump verify -q sample-data/damaged/one-bit/orders.zstd-0",
        "kdump verify shows where consumers stop, and the offset from which they are served again",
    ),
    "groups": Picture(
        "kdump groups --history --backwards sample-data/clean/4.4.0/d1 sample-data/clean/4.4.0/d2",
        "kdump groups lists the commits that moved a group back, and who made them",
    ),
    "transactions": Picture(
        "kdump transactions --open sample-data/clean/4.4.0-transactions/d1"
        " sample-data/clean/4.4.0-transactions/d2",
        "kdump transactions lists the open transactions, and which of them hang",
    ),
    "elect": Picture(
        f"kdump elect --topic t10 {_THREE}",
        "kdump elect counts what is lost with each choice of a leader",
        11,
    ),
}


class _Theme(NamedTuple):
    """Colors: background, border, text, faint text, and the eight of a terminal."""

    ground: str
    border: str
    text: str
    faint: str
    ansi: tuple[str, ...]


# Each color has a contrast of 4.5 or more on its ground.
THEMES = {
    "light": _Theme(
        "#ffffff", "#d0d7de", "#1f2328", "#59636e",
        ("#1f2328", "#cf222e", "#116329", "#7d4e00", "#0550ae", "#8250df", "#1b6b75", "#59636e"),
    ),
    "dark": _Theme(
        "#0d1117", "#3d444d", "#e6edf3", "#9198a1",
        ("#9198a1", "#ff7b72", "#3fb950", "#d29922", "#79c0ff", "#d2a8ff", "#56d4dd", "#e6edf3"),
    ),
}  # fmt: skip


def print_screen(picture: Picture) -> list[Text]:
    """Run a command; return its screen: the command line, and the first lines of the output.

    Lines are wrapped as a terminal does, anywhere; those of this machine and this run are left out.
    """
    scripts = Path(sys.executable).parent
    env = {
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": str(COLUMNS),
        "LC_ALL": "C.UTF-8",
        "TERM": "xterm",
        "FORCE_COLOR": "1",
        "KDUMP_FORMAT": "table",
        "KDUMP_PURE": os.environ.get("KDUMP_PURE", ""),
    }
    done = subprocess.run(
        picture.command.split(), cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    output = [Text.from_ansi(line) for line in (done.stdout + done.stderr).splitlines()]
    other = re.compile(rf"{re.escape(str(ROOT))}/|\d s\.$")
    kept = [line for line in output if not other.search(line.plain)]
    while kept and not kept[0].plain.strip():
        del kept[0]
    lines = [row for line in kept for row in _wrap(line)]
    if len(lines) > picture.lines:
        lines = [*lines[: picture.lines], Text("…", "dim")]
    return [*_wrap(Text(f"$ {picture.command}", "bold")), Text(), *lines]


def _wrap(line: Text) -> list[Text]:
    return list(line.divide(range(COLUMNS, line.cell_len, COLUMNS)))


def draw_svg(picture: Picture, lines: list[Text], theme: _Theme) -> str:
    """Return the SVG of a screen. Each line is one `<text>`; a `<tspan>` has one style."""
    width = round(COLUMNS * _CHARACTER) + 2 * _MARGIN
    height = len(lines) * _LINE + 2 * _MARGIN
    body = "\n".join(
        f'<text y="{_MARGIN + row * _LINE + 14}">{"".join(_spans(line, theme))}</text>'
        for row, line in enumerate(lines)
    )
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" \
height="{height}" xml:space="preserve" role="img" aria-labelledby="title desc">
<title id="title">{escape(picture.title)}</title>
<desc id="desc">Terminal output of: {escape(picture.command)}</desc>
<style>text {{ font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", \
monospace; white-space: pre; fill: {theme.text} }}</style>
<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="6" fill="{theme.ground}" \
stroke="{theme.border}"/>
{body}
</svg>
"""


def _spans(line: Text, theme: _Theme) -> Iterator[str]:
    """Yield the pieces of a line, each placed by its column: fonts differ in their widths."""
    styles = [line.style if isinstance(line.style, Style) else Style.parse(line.style)]
    column = 0
    offsets = sorted({0, len(line), *(at for span in line.spans for at in span[:2])})
    for begin, end in pairwise(offsets):
        inside = [span.style for span in line.spans if span.start <= begin < span.end]
        style = Style.combine(
            [*styles, *(one if isinstance(one, Style) else Style.parse(one) for one in inside)]
        )
        # Each piece is placed, so that columns align in any font.
        for piece in re.findall(r"\S+(?: \S+)*| +", line.plain[begin:end]):
            long = cell_len(piece)
            place = f'x="{_MARGIN + column * _CHARACTER:g}" textLength="{long * _CHARACTER:g}"'
            looks = _looks(style, theme)
            yield f"<tspan {place}{looks}>{escape(piece)}</tspan>" if piece.strip() else piece
            column += long


def _looks(style: Style, theme: _Theme) -> str:
    fill = theme.faint if style.dim else ""
    if style.color and style.color.type is ColorType.STANDARD and style.color.number is not None:
        fill = theme.ansi[style.color.number % 8]
    weight = ' font-weight="bold"' if style.bold else ""
    return weight + (f' fill="{fill}"' if fill else "")


def main(names: list[str]) -> None:
    """Draw the pictures named, or all."""
    FOLDER.mkdir(exist_ok=True)
    for name in names or PICTURES:
        lines = print_screen(PICTURES[name])
        for theme, colors in THEMES.items():
            path = FOLDER / f"{name}-{theme}.svg"
            path.write_text(draw_svg(PICTURES[name], lines, colors), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
