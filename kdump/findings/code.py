"""What can be said of a finding code, beside its words: an entry of the catalogue.

Whoever has to treat some findings otherwise than others asks for an attribute of their entry, and
keeps no list of codes. A test holds that.
"""

from __future__ import annotations

from enum import Enum

from kdump.tuples import NamedTuple


class Severity(Enum):
    """How much a finding matters, in rising order."""

    NOTE = "note"  # legal but unusual, or something that could not be known; nothing to do
    REBUILD = "rebuild"  # an index or checkpoint is wrong, the records are whole
    DAMAGE = "damage"  # records are lost or cannot be read

    @property
    def rank(self) -> int:
        """0 note, 1 rebuild, 2 damage."""
        return _RANKS[self.value]


_RANKS = {"note": 0, "rebuild": 1, "damage": 2}


class Hides(Enum):
    """What a reader does not get of the bytes that a finding names."""

    NOTHING = "nothing"
    RECORDS = "records"  # the batch header is read, its records are not
    BATCHES = "batches"


class Extent(Enum):
    """How much of a log a finding makes unusable, so that what points there follows from it."""

    ITS_BYTES = "its bytes"
    TO_THE_END = "from its position to the end of the file"
    FILE = "all of the file"


class MisplacedScope(Enum):
    """Whether a batch in the wrong place is missing where it should have been, and how far."""

    NO = "no"
    UNTIL_NEXT = "up to the next good offset, if there is one"
    FOR_GOOD = "up to the next good offset, or all that would have followed"


class Show(Enum):
    """How a person looks closer."""

    HEX = "the batch at its position, field by field"
    RAW = "the bytes at its position: no header could be read"
    ENTRIES = "the file, entry by entry"
    NOTHING = "there is nothing to look at, or the remedy comes first"


class Code(NamedTuple):
    """One entry of the catalogue."""

    severity: Severity
    sentence: str
    remedy: str  # what to do next
    meaning: str = ""  # what it means for readers and for the broker
    show: Show = Show.HEX
    reindex: str = ""  # what `kdump reindex --only` is given to rebuild the file
    hides: Hides = Hides.NOTHING
    extent: Extent = Extent.ITS_BYTES
    misplaced: MisplacedScope = MisplacedScope.NO
    offsets_lie: bool = False  # the batch is to be found by its position only
    stops_consumers: bool = False  # who opens the batch fails, though the next one follows it
    passed_over: bool = False  # consumers get past it by themselves
    ends_log: bool = False  # a log may end so that a broker is writing, or was when it stopped
    live: bool = False  # seen only while a broker is at work
    empty: bool = False  # no reader misses a record for these bytes
    blocks_committed: bool = False  # every record is whole; read_committed readers stop there
    forecast: bool = False  # what a start would do: nothing of it has happened
    loudest: bool = False  # to be reported before all others: a start makes it much worse
    gap: str = ""  # a walk's reason for a gap that is called so
    undecoded: str = ""  # a kernel's reason to leave records alone that is called so

    @property
    def leaves_out_records(self) -> bool:
        """Whether a reader lacks records that are, or were, in the log."""
        return self.hides is not Hides.NOTHING and not (self.empty or self.live)
