"""Write a proposal for `salvage --topic-map`, to be edited and given back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kdump.output.amounts import number_text, time_text
from kdump.output.escape import visible
from kdump.storage.names import parse_directory

_SEGMENTS_SHOWN = 8


def map_text(groups: Mapping[str, tuple[str, dict[str, Any]]]) -> bytes:
    """Give the text for groups of carved batches, with the partition that each is now."""
    lines = [
        "# Partitions of carved batches, for kdump carve --topic-map.",
        "# Check each line, and complete those that begin with #: GROUP,TOPIC-PARTITION.",
    ]
    for word, (name, one) in sorted(groups.items(), key=lambda each: int(each[0][7:])):
        lines += ["", f"# {word}: {_facts(one)}"]
        proposed = [each for each in one["proposed"] if parse_directory(each) is not None]
        if one["named_by"] is not None:
            lines += [f"# named by {one['named_by']}", f"{word},{name}"]
        elif len(proposed) == 1:
            lines += [f"# proposed by {one['proposed_by']}", f"{word},{proposed[0]}"]
        elif proposed:
            lines += [f"# one of {', '.join(proposed)}, by {one['proposed_by']}", f"# {word},"]
        else:
            lines.append(f"# {word},")
    return "".join(f"{visible(line)}\n" for line in lines).encode("utf-8", "backslashreplace")


def _facts(one: dict[str, Any]) -> str:
    parts = [f"{number_text(one['size_bytes'])} bytes", "/".join(one["codecs"]) or "no codec"]
    if one["first_timestamp_ms"] is not None:
        times = [time_text(one[f"{end}_timestamp_ms"]) for end in ("first", "last")]
        parts.append(f"from {times[0]} to {times[1]}")
    segments = one["segments"]
    if segments:
        shown = ", ".join(str(each) for each in segments[:_SEGMENTS_SHOWN])
        more = len(segments) - _SEGMENTS_SHOWN
        parts.append(f"logs begin at {shown}" + (f" and {more:,} more" if more > 0 else ""))
    if one["keys"]:
        parts.append("keys as " + ", ".join(one["keys"]))
    return "; ".join(parts)
