"""One partition of the sample with remote storage: its objects in a folder that may be changed."""

import shutil
from pathlib import Path

_SAMPLE = Path(__file__).parents[2] / "sample-data/damaged/4.1.1-tiered"
DATA = str(_SAMPLE / "d1")
#: The folder of its objects; offsets 456 to 515 are here, too.
JOURNAL = "journal-0-HXxE06p3SBGQZwcpaDwHzg"


def metadata_in(folder: Path) -> Path:
    """Copy the partition and the metadata of remote segments; return the metadata's log."""
    for name in ("journal-0", "__remote_log_metadata-0"):
        shutil.copytree(_SAMPLE / "d1" / name, folder / name)
    return folder / "__remote_log_metadata-0" / f"{0:020}.log"


def journal_of(folder: Path) -> Path:
    """Copy the objects; return the remote storage that they lie in."""
    shutil.copytree(_SAMPLE / "remote/kafka-tiered-storage" / JOURNAL, folder / JOURNAL)
    return folder
