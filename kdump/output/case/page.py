"""The sink of a report: a page of HTML or Markdown, written when all has come."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kdump import __version__
from kdump.output.amounts import time_text
from kdump.output.sink import Sink

if TYPE_CHECKING:
    from kdump.output.case.case import Case


class CasePage(Sink):
    """Writes the page of a case that others fill."""

    def __init__(
        self,
        write: Callable[[bytes], object],
        case: Case,
        form: str,
        title: str,
        now_ms: int,
        command: str,
    ) -> None:
        self._write, self._case, self._form = write, case, form
        self._title, self._now_ms, self._command = title, now_ms, command

    def finish(self) -> None:
        """Write the page."""
        from kdump.output.case.blocks import html, markdown
        from kdump.output.case.parts import blocks

        self._case.end()
        made = list(blocks(self._case, self._now_ms, self._command))
        lead = f"Made by kdump {__version__}, as of {time_text(self._now_ms)}."
        pages = html if self._form == "html" else markdown
        for piece in pages(self._title, lead, made):
            self._write(piece.encode("utf-8", "backslashreplace"))
