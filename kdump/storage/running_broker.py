"""Find the settings file of a broker that runs on this host, by its command line."""

from __future__ import annotations

import os

_MAIN = b"kafka.Kafka"


def settings_of_running_broker() -> str | None:
    """Return the path of its server.properties; None where no broker runs, or several do.

    Only processes whose command line and working directory this user may read are seen.
    """
    found: set[str] = set()
    try:
        processes = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:  # another system than Linux
        return None
    for process in processes:
        try:
            with open(f"/proc/{process}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            after = words[words.index(_MAIN) + 1 :] if _MAIN in words else []
            if after and after[0]:
                where = os.readlink(f"/proc/{process}/cwd")
                found.add(os.path.join(where, os.fsdecode(after[0])))
        except OSError:  # it ended, or is another user's
            continue
    return found.pop() if len(found) == 1 else None
