"""Name the type of the file system that a path is on."""

from __future__ import annotations

import os
import re

from kdump.storage import places

_ESCAPED = re.compile(r"\\([0-7]{3})")


def file_system_of(path: str) -> str | None:
    """Return the type as the kernel names it, such as ext4; None where it cannot be known."""
    if places.is_uri(path):
        return None
    real, best = places.real(path), ("", "")
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                words, _, rest = line.partition(" - ")
                point = _ESCAPED.sub(lambda found: chr(int(found[1], 8)), words.split(" ")[4])
                inside = real == point or real.startswith(os.path.join(point, ""))
                if inside and len(point) >= len(best[0]):
                    best = point, rest.split(" ")[0]
    except OSError:  # another system than Linux
        return None
    return best[1] or None
