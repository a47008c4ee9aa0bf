"""Lay out the cells of a table: which columns have room, how wide each is, and its text.

Widths come from the rows and the terminal: of records from the first rows only, so a later value
may be wider than its column; the column then grows, and only a column that may be cut is cut.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Generic, NamedTuple, TypeVar

from kdump.output.amounts import number_cell
from kdump.output.escape import visible
from kdump.rows.row import Row

#: Below this no character is wide, and none but the soft hyphen has no width.
_NARROW_BELOW = "\u0300"


@cache
def _cell() -> Callable[[str], int]:
    """Return what knows how wide a character is; most text is ASCII and need not ask."""
    from rich.cells import get_character_cell_size

    return get_character_cell_size


def width_of(text: str) -> int:
    """Return how many cells a line of text takes on a terminal."""
    if text.isascii() or max(text) < _NARROW_BELOW:
        return len(text)
    return sum(map(_cell(), text))


def cut(text: str, width: int) -> str:
    """Cut text to at most `width` cells; a cut is marked with an ellipsis."""
    if text.isascii():
        return text if len(text) <= width else text[: width - 1] + "…"
    cell = _cell()
    used = 0
    room = width - 1
    behind = 0  # where to cut, if there is a need to
    for index, character in enumerate(text):
        used += cell(character)
        if used <= room:
            behind = index + 1
        elif used > width:
            return text[:behind] + "…"
    return text


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Pad text with spaces to `width` cells."""
    if text.isascii():
        return text.rjust(width) if right else text.ljust(width)
    spaces = " " * (width - width_of(text))
    return spaces + text if right else text + spaces


def fit_text(text: str, width: int, *, right: bool = False, last: bool = False) -> str:
    """Cut or pad text to `width` cells; spaces at the end of a line are left out."""
    if text.isascii():
        if len(text) > width:
            return text[: width - 1] + "…"
        if right:
            return text.rjust(width)
        return text if last else text.ljust(width)
    text = cut(text, width)
    return text if last and not right else pad(text, width, right=right)


#: A name or a path may be broken after what joins its parts, a time after its date, but no number.
_PIECE = re.compile(
    r".+?(?:(?<=\d-\d\d)(?=T\d\d:)|[/]+|,+(?!\d{3}(?!\d))|[._:;=@-]+(?!\d)|\s+|$)(?![/._:;=@,-])",
    re.DOTALL,
)
_PART = re.compile(r"[^/]*/+|[^/]+")
#: An amount stays next to its unit.
_WORD = re.compile(r"[\d.,]+ (?:bytes|[KMGT]iB|s|min|h|d)(?![^\s.,;:)])\S*\s*|\S+\s*|\s+")


def pieces_of(text: str) -> list[str]:
    """Split text into pieces that stay whole where there is room."""
    return _PIECE.findall(text)


def _fitting_pieces(word: str, width: int) -> Iterator[str]:
    """Break a word that is too wide: a path first between its parts, which are names."""
    if width_of(word.rstrip()) <= width:
        yield word
        return
    for part in _PART.findall(word):
        yield from [part] if width_of(part.rstrip()) <= width else pieces_of(part)


def fold(text: str, width: int) -> list[str]:
    """Break the text of a cell into lines of at most `width` cells.

    Words stay whole; one that is wider is broken between its pieces, and a piece only where it is
    wider itself.
    """
    lines: list[str] = []
    line = ""
    for word in _WORD.findall(text):
        for piece in _fitting_pieces(word, width):
            if width_of((line + piece).rstrip()) <= width:
                line += piece
                continue
            if line:
                lines.append(line.rstrip())
                piece = piece.lstrip()
            while width_of(piece.rstrip()) > width:
                at = len(cut(piece, width + 1)) - 1 or 1
                if at > 1 and not any(map(str.isalnum, piece[at:])):
                    at -= 1  # a dash alone says nothing
                lines.append(piece[:at])
                piece = piece[at:]
            line = piece
    if line.rstrip() or not lines:
        lines.append(line.rstrip())
    return lines


def wrap(text: str, width: int) -> list[str]:
    """Break text into lines; codes, options and paths stay whole, to be found and copied."""
    from textwrap import TextWrapper

    lines = TextWrapper(width, break_on_hyphens=False, break_long_words=False).wrap(text)
    return lines or [""]


def join(parts: Sequence[str], width: int, between: str = " · ") -> list[str]:
    """Join parts, by dots, into lines, and break lines only between parts."""
    lines = list(parts[:1])
    for part in parts[1:]:
        line = f"{lines[-1]}{between}{part}"
        if width_of(line) <= width:
            lines[-1] = line
        else:
            lines.append(part)
    return lines


#: A kind of row; one that has no class yet is given as its members.
R = TypeVar("R")

_LONG_NAME = 10
#: A longer piece of a cell may be broken.
_LONGEST_PIECE = 24
#: Columns of names, which are broken only where no column can be left out instead; up to a length.
_NAMES, _LONGEST_NAME = ("topic", "partition", "compacted", "group"), 32
#: Rather than a name, the other cells are broken, in columns of at least this width.
_NARROWEST = 12
#: A text in a narrower column is hard to read.
_READABLE = 30
#: Cells that say nothing.
_BLANK = ("", "-", "∅")


def _nothing(row: object) -> str:
    """Write no cell: those of an endless stream are written a row at a time."""
    return ""


class Column(NamedTuple, Generic[R]):
    """One column of a table; `cell` writes what of a row's members stands in it.

    `least` is the width below which a column that may be cut (`cuts`) is of no use; what `folds`
    goes on below instead, in the tables that rich draws. When there is still no room, columns with
    the highest `rank` are left out first; rank 0 always stays. What is the same in all rows of a
    column that may be shared (`shares`) is written once, below them; a column of dashes not at all.
    A cell that `echoes` is not written again where it is that of the row above; one that
    `continues` is not in the further rows of a group, whose first cell is empty. What is `below`
    goes on lines below each row where it would have little room, or would take that of others.
    """

    name: str
    cell: Callable[[R], str] = _nothing
    right: bool = False
    cuts: bool = False
    folds: bool = False
    least: int = 0
    rank: int = 0
    shares: bool = False
    echoes: bool = False
    continues: bool = False
    below: bool = False

    def title(self) -> tuple[str, str]:
        """Return the name on two lines, the upper one empty where one line will do."""
        words = re.split("[_ ]" if self.right else "_", self.name)
        if len(self.name) <= _LONG_NAME or len(words) == 1:
            return "", " ".join(words)
        splits = [(" ".join(words[:at]), " ".join(words[at:])) for at in range(1, len(words))]
        return min(splits, key=lambda lines: max(map(len, lines)))


#: The columns of a table.
Columns = tuple[Column[Any], ...]


def number(
    name: str, member: str | None = None, *, absent: str = "-", rank: int = 0
) -> Column[Any]:
    """Make the column of a number, which may be null."""
    member = member or name
    return amount(name, lambda row: number_cell(member_of(row, member), absent), rank)


def member_of(row: Row | Mapping[str, Any], name: str) -> Any:
    """Return a member of a row."""
    return row[name] if isinstance(row, dict) else getattr(row, name)


def amount(name: str, cell: Callable[[R], str], rank: int = 0) -> Column[R]:
    """Make a column whose cells end where those above and below do."""
    return Column(name, cell, right=True, rank=rank)


def folding_column(name: str, text: Callable[[R], str], least: int, rank: int = 0) -> Column[R]:
    """Make the column of a text of any length, which goes on below."""
    whole = short(name, text, rank)
    return whole._replace(cuts=True, folds=True, least=least)


def short(name: str, text: Callable[[R], str], rank: int = 0) -> Column[R]:
    """Make the column of a short text, which may hold anything."""
    return Column(name, lambda fields: visible(text(fields)), rank=rank)


def partly(member: str, bytes_cell: Callable[[bytes | None], str]) -> Callable[[Any], str]:
    """Make the cell of a key or value, of which a row may have no more than the start."""

    def cell(row: Any) -> str:
        start, size = member_of(row, member), member_of(row, f"{member}_size_bytes")
        is_cut = start is not None and size is not None and size > len(start)
        return bytes_cell(start) + (f"… ({size:,} bytes)" if is_cut else "")

    return cell


def cells_of(columns: Sequence[Column[Any]], row: Row | Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cells of a row."""
    return tuple(column.cell(row) for column in columns)


class Layout(NamedTuple):
    """What fits: positions of the columns shown, their widths, and the gap between two.

    `below` is the position of the column that goes below each row, if one does.
    """

    shown: tuple[int, ...]
    widths: list[int]
    gap: str
    blank: frozenset[int] = frozenset()
    below: int | None = None

    def without(self, columns: Sequence[Column[Any]]) -> list[str]:
        """Name the columns that have something to say, and no room."""
        unseen = set(range(len(columns))) - {*self.shown, *self.blank, self.below}
        return [columns[at].name for at in sorted(unseen)]

    def holds(self, columns: Sequence[Column[Any]], rows: Sequence[Sequence[str]]) -> bool:
        """Say whether rows fit in without a column growing."""
        return all(
            width_of(row[index]) <= width
            for index, width in zip(self.shown, self.widths, strict=True)
            if not columns[index].cuts
            for row in rows
        )


def fit(
    columns: Sequence[Column[Any]],
    rows: Sequence[Sequence[str]],
    width: int | None,
    *,
    more: bool = False,
) -> Layout:
    """Lay columns out over `width` cells, None: as many as they need; `more`: rows are to come."""
    natural = [
        max([*map(len, column.title()), *(width_of(row[index]) for row in rows)])
        for index, column in enumerate(columns)
    ]
    if width is None:
        return Layout(tuple(range(len(columns))), natural, "  ")
    layout = _fit(columns, rows, natural, width, more=more)
    note = next((at for at in layout.shown if columns[at].below), None)
    if note is None or more or note in layout.blank:
        return layout
    widths = dict(zip(layout.shown, layout.widths, strict=True))
    words = (word for row in rows for word in row[note].split())
    has_room = widths[note] >= min(natural[note], max(_READABLE, *map(width_of, words)))
    if (
        has_room
        and not layout.without(columns)
        and all(
            widths[at] >= min(natural[at], _LONGEST_NAME)
            for at in layout.shown
            if columns[at].name in _NAMES
        )
    ):
        return layout
    return _fit(columns, rows, natural, width, more=more, below=note)


def _fit(
    columns: Sequence[Column[Any]],
    rows: Sequence[Sequence[str]],
    natural: list[int],
    width: int,
    *,
    more: bool,
    below: int | None = None,
) -> Layout:
    shown = [at for at in range(len(columns)) if at != below]
    by_names = [
        _by_names(column, natural[index]) if column.folds else column
        for index, column in enumerate(columns)
    ]
    by_pieces = [
        _by_pieces(column, (row[index] for row in rows)) for index, column in enumerate(by_names)
    ]
    blank = frozenset(
        index
        for index in range(len(columns))
        if not more and all(row[index] in _BLANK for row in rows)
    )
    shown = [index for index in shown if columns[index].rank == 0 or index not in blank]
    while True:
        for known in (by_pieces, by_names):
            for gap in (2, 1):
                room = width - gap * (len(shown) - 1)
                wanted = [natural[i] for i in shown]
                if more and columns[shown[-1]].cuts:  # nothing stands to the right of the last one
                    wanted[-1] = room
                widths = _share([known[i] for i in shown], wanted, room)
                whole = widths[:-1] == wanted[:-1]  # the last one may well go on below
                if sum(widths) <= room and (whole or more or gap == 1):
                    return Layout(tuple(shown), widths, " " * gap, blank, below)
        # One that says nothing goes first; of a stream the next rows may have more to say.
        last = max(shown, key=lambda i: (i in blank, columns[i].rank, i))
        if columns[last].rank == 0 and last not in blank:
            narrow = [_narrow(by_names[i]) for i in shown]
            widths = _share(narrow, wanted, room)
            if sum(widths) > room:
                widths = _share([columns[i] for i in shown], wanted, room)
            return Layout(tuple(shown), widths, " ", blank, below)
        shown.remove(last)


def _by_names(column: Column[R], widest: int) -> Column[R]:
    """Make a column of names so wide that none has to be broken, if it is not too long."""
    if column.name not in _NAMES:
        return column
    return column._replace(least=max(column.least, min(widest, _LONGEST_NAME)))


def _narrow(column: Column[R]) -> Column[R]:
    """Make a column that is not of names as narrow as it can be read."""
    return column if column.name in _NAMES else column._replace(least=min(column.least, _NARROWEST))


def _by_pieces(column: Column[R], cells: Iterable[str]) -> Column[R]:
    """Make a column that goes on below so wide that no piece of its cells has to be broken."""
    if not column.folds:
        return column
    pieces = (piece.rstrip() for cell in cells for piece in pieces_of(cell))
    longest = max(map(width_of, pieces), default=0)
    return column._replace(least=max(column.least, min(longest, _LONGEST_PIECE)))


def _share(columns: list[Column[Any]], natural: list[int], room: int) -> list[int]:
    """Give fixed columns what they need, and what is left to those that may be cut."""
    widths = list(natural)
    cutting = [i for i, column in enumerate(columns) if column.cuts]
    left = room - sum(widths[i] for i in range(len(columns)) if i not in cutting)
    # The narrowest first: what one column does not need goes to the wider ones.
    for share_of, index in enumerate(sorted(cutting, key=lambda i: natural[i])):
        share = max(left // (len(cutting) - share_of), columns[index].least)
        widths[index] = min(natural[index], share)
        left -= widths[index]
    return widths
