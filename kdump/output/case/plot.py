"""Draw numbers as SVG: series as envelopes, amounts as bars, spans of time as lines.

A drawing has as many points as it has pixels to show: each column of a series has the least and
the greatest of the values in it. What is drawn is given as rows of a table as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from kdump.output.amounts import second_cell
from kdump.output.case.blocks import Plot, Table
from kdump.output.escape import visible

_WIDTH, _LEFT, _RIGHT, _HEIGHT, _COLUMNS = 720, 90, 15, 150, 120
_BAR, _MOST_BARS = 22, 20
_LABEL = 200

#: From when to when, and the value meanwhile.
Span = tuple[int, int, float]


def series(caption: str, unit: str, spans: Sequence[Span], written: Callable[[float], str]) -> Plot:
    """Draw a value over time, with the envelope of each column."""
    start, end = spans[0][0], max(spans[-1][1], spans[0][0] + _COLUMNS)
    width = -(-(end - start) // _COLUMNS)
    columns: list[list[float]] = [[] for _ in range(_COLUMNS)]
    covered = [0] * _COLUMNS
    for first, last, value in spans:
        for at in range((first - start) // width, (last - start) // width + 1):
            if 0 <= at < _COLUMNS:
                columns[at].append(value)
                left = start + at * width
                covered[at] += min(last, left + width - 1) - max(first, left) + 1
    for at, values in enumerate(columns):
        if covered[at] < width:  # nothing is known of part of it, or nothing was there
            values.append(0.0)
    most = max(max(values) for values in columns) or 1.0
    step = (_WIDTH - _LEFT - _RIGHT) / _COLUMNS
    tops, bottoms, rows = [], [], []
    for at, values in enumerate(columns):
        x, low, high = _LEFT + at * step, min(values), max(values)
        tops.append(f"{x:.1f},{_y(high / most)} {x + step:.1f},{_y(high / most)}")
        bottoms.append(f"{x + step:.1f},{_y(low / most)} {x:.1f},{_y(low / most)}")
        if high:
            from_ms = start + at * width
            cells = second_cell(from_ms), second_cell(from_ms + width - 1)
            rows.append((*cells, written(low), written(high)))
    shape = " ".join(tops) + " " + " ".join(reversed(bottoms))
    drawn = [
        *(_line(_LEFT, _y(part), _WIDTH - _RIGHT, _y(part)) for part in (0, 0.5, 1)),
        *(
            _text(_LEFT - 6, float(_y(part)) + 4, written(most * part), "end")
            for part in (0, 0.5, 1)
        ),
        f'<polygon class="fill" points="{shape}"/>',
        f'<polyline class="mark" points="{" ".join(tops)}"/>',
        _text(_LEFT, _HEIGHT + 30, second_cell(start)),
        _text(_WIDTH - _RIGHT, _HEIGHT + 30, second_cell(end), "end"),
    ]
    columns_of = ("from", "to", f"least {unit}>", f"most {unit}>")
    return Plot(_svg(caption, _HEIGHT + 40, drawn), Table(caption, columns_of, rows))


def bars(caption: str, names: str, unit: str, amounts: Sequence[tuple[str, float, str]]) -> Plot:
    """Draw the largest amounts as bars: a name, the amount, and how it is written."""
    most = max((value for _, value, _ in amounts), default=0) or 1
    room, drawn = _WIDTH - _LABEL - 110, []
    for at, (name, value, text) in enumerate(amounts[:_MOST_BARS]):
        y, size = 4 + at * _BAR, room * max(value, 0) / most
        drawn.append(_text(_LABEL - 8, y + 14, _short(name), "end"))
        drawn.append(f'<rect class="bar" x="{_LABEL}" y="{y + 3}" width="{size:.1f}" height="14"/>')
        drawn.append(_text(_LABEL + size + 6, y + 14, text))
    height = 8 + _BAR * min(len(amounts), _MOST_BARS)
    rows = [(name, text) for name, _, text in amounts]
    return Plot(_svg(caption, height, drawn), Table(caption, (names, f"{unit}>"), rows))


def ranges(caption: str, names: str, spans: Sequence[tuple[str, int, int]], now_ms: int) -> Plot:
    """Draw from when to when each of some things goes, and where now is."""
    shown = spans[:_MOST_BARS]
    start = min(first for _, first, _ in shown)
    end = max(max(last for _, _, last in shown), start + 1)
    if start < now_ms < end + (end - start):
        end = max(end, now_ms)
    scale = (_WIDTH - _LABEL - _RIGHT) / (end - start)
    height = 8 + _BAR * len(shown)
    drawn = []
    for at, (name, first, last) in enumerate(shown):
        y, x = 4 + at * _BAR, _LABEL + (first - start) * scale
        size = max((last - first) * scale, 2)
        drawn.append(_text(_LABEL - 8, y + 14, _short(name), "end"))
        drawn.append(f'<rect class="bar" x="{x:.1f}" y="{y + 5}" width="{size:.1f}" height="10"/>')
    if start <= now_ms <= end:
        x = _LABEL + (now_ms - start) * scale
        drawn.append(f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height}"/>')
        drawn.append(_text(x - 4, height + 14, "now", "end"))
    else:
        drawn.append(_text(_WIDTH - _RIGHT, height + 14, second_cell(end), "end"))
    drawn.append(_text(_LABEL, height + 14, second_cell(start)))
    rows = [(name, second_cell(first), second_cell(last)) for name, first, last in spans]
    return Plot(_svg(caption, height + 20, drawn), Table(caption, (names, "first", "last"), rows))


def _y(part: float) -> str:
    return f"{10 + _HEIGHT * (1 - part):.1f}"


def _line(x1: float, y1: str, x2: float, y2: str) -> str:
    return f'<line class="grid" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>'


def _text(x: float, y: float | str, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{float(y):.1f}" text-anchor="{anchor}">{_plain(text)}</text>'


def _svg(caption: str, height: int, drawn: Sequence[str]) -> str:
    label = _plain(caption)
    return (
        f'<svg role="img" aria-label="{label}" viewBox="0 0 {_WIDTH} {height}">'
        f"{''.join(drawn)}</svg>"
    )


def _plain(text: str) -> str:
    return escape(visible(text), quote=True)


def _short(name: str) -> str:
    return name if len(name) <= 28 else f"{name[:13]}…{name[-14:]}"
