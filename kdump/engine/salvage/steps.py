"""The commands that a user has to type around a salvage, as `salvage-step` rows.

Each row has one line for a shell, and what it is for. Every word of it is quoted: topics and paths
are what a disk says.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from kdump.broker.settings import Settings
from kdump.findings.rows import Row
from kdump.replay.former_topics import METADATA_LOG, FormerTopic, former_topic
from kdump.replay.topic_settings import topic_settings
from kdump.rows.salvage import SalvageStep
from kdump.storage import names, places
from kdump.storage.names import Retirement
from kdump.storage.properties import java_properties
from kdump.storage.source import read_whole
from kdump.storage.targets import data_directories

if TYPE_CHECKING:
    from kdump.engine.salvage.copies import Copy, CopySource, Item
    from kdump.engine.salvage.options import SalvageOptions
    from kdump.engine.salvage.targets import MissingTopic
    from kdump.findings.shell import Word

_DELAY = "log.segment.delete.delay.ms"
_DELAY_MS = 60_000
_KEPT = ".kdump-kept"
#: Records are sent without the compression they had: so much larger they may be at the broker.
_MAY_GROW = 10
KEEP, CREATE, AGAIN, RESTORE = "keep", "create-topic", "same-command", "restore-settings"


def _step(step: str, command: str, text: str, before_ms: int | None = None) -> Row:
    return SalvageStep(step, command, text, before_ms)


# Directories that a broker deletes soon.


def keep_steps(items: Iterable[Item], options: SalvageOptions) -> Iterator[Row]:
    """Yield, for each data directory, how to keep the -delete directories of a salvage in it."""
    found: dict[str, dict[str, CopySource]] = defaultdict(dict)
    for item in items:
        for copy in item.copies:
            if copy.retirement is Retirement.DELETE and not places.is_uri(copy.directory):
                path = os.path.abspath(copy.directory)
                found[os.path.dirname(path)][path] = copy
    for data_directory, copies in found.items():
        if not os.path.lexists(os.path.join(data_directory, names.LOCK)):
            continue  # no broker ever worked on it
        if left := [path for path in copies if not _is_kept(data_directory, path)]:
            yield _keep_step(data_directory, left, options)


def list_kept_folders(items: Iterable[Item]) -> list[str]:
    """Name the folders that `keep_steps` names, whether or not they are there."""
    folders = {}
    for item in items:
        for copy in item.copies:
            if copy.retirement is Retirement.DELETE and not places.is_uri(copy.directory):
                data_directory = os.path.dirname(os.path.abspath(copy.directory))
                if os.path.lexists(os.path.join(data_directory, names.LOCK)):
                    folders[_name_kept_folder(data_directory)] = True
    return list(folders)


def _name_kept_folder(data_directory: str) -> str:
    """Name a folder of the same file system, beside the data directory where that can be."""
    beside = os.path.realpath(data_directory) + _KEPT
    try:
        is_mounted = os.stat(os.path.dirname(beside)).st_dev != os.stat(data_directory).st_dev
    except OSError:
        return beside
    return os.path.join(data_directory, _KEPT) if is_mounted else beside


def _is_kept(data_directory: str, path: str) -> bool:
    return os.path.isdir(os.path.join(_name_kept_folder(data_directory), os.path.basename(path)))


def _keep_step(data_directory: str, paths: list[str], options: SalvageOptions) -> Row:
    from kdump.findings.shell import format_command, join_commands, path_word
    from kdump.storage import lock

    folder, delay_ms = _name_kept_folder(data_directory), _delay_ms(options)
    command = join_commands(
        (
            format_command(("mkdir", "-p", path_word(folder))),
            format_command(("cp", "-al", *map(path_word, paths), path_word(folder) + "/")),
        )
    )
    what = f"-delete directories in {data_directory}: {len(paths)}"
    if lock.is_held(data_directory) is False:
        return _step(
            KEEP,
            command,
            f"{what}. The next start of the broker deletes them. To keep them, create hard links:",
        )
    deletion_ms = min(_change_ms(path) for path in paths) + delay_ms
    seconds = max(0, deletion_ms - int(time.time() * 1000)) // 1000
    text = (
        f"{what}. The broker deletes them {delay_ms / 1000:g} s after the topic ({_DELAY}), the "
        f"first in about {seconds} s. To keep them, create hard links first, even while the "
        "broker runs:"
    )
    if os.path.dirname(folder) == data_directory:
        text = f"{text[:-1]}, and move {folder} away before the broker starts again:"
    return _step(KEEP, command, text, deletion_ms)


def _change_ms(path: str) -> int:
    try:
        return os.stat(path).st_ctime_ns // 1_000_000
    except OSError:
        return int(time.time() * 1000)


def _delay_ms(options: SalvageOptions) -> int:
    """How long a broker waits, as far as its own settings file tells."""
    if options.server_properties is None:
        return _DELAY_MS
    text = read_whole(options.server_properties, 1 << 20).decode("utf-8", "replace")
    given = dict(java_properties(text)).get(_DELAY, "")
    return int(given) if given.isascii() and given.isdigit() else _DELAY_MS


# Topics that the cluster lacks.


def create_steps(
    missing: Sequence[MissingTopic],
    copies: Sequence[tuple[str, Item, Sequence[Copy]]],
    paths: Sequence[str],
    options: SalvageOptions,
    afterwards: list[str],
) -> Iterator[Row]:
    """Yield the commands that make the topics as they were, and then the same command again.

    `afterwards` gets those that are to be typed when all has arrived.
    """
    from kdump.findings.shell import format_command, topic_word

    for one in missing:
        of_topic = [(item, some) for topic, item, some in copies if topic == one.topic]
        if one.partitions is not None:
            tool = ("kafka-topics.sh", "--bootstrap-server", str(options.produce), "--alter")
            words = (*tool, "--topic", topic_word(one.topic), "--partitions", str(one.needed))
            has = f"Topic {one.topic} has {one.partitions} partitions in the cluster, and "
            yield _step(CREATE, format_command(words), f"{has}{one.needed} are needed:")
        else:
            yield from _create_steps(one, of_topic, paths, options, afterwards)
    yield _step(
        AGAIN,
        format_command(format_repeat(paths, copies, options)),
        "Then run the same command again:",
    )


def _create_steps(
    one: MissingTopic,
    of_topic: list[tuple[Item, Sequence[Copy]]],
    paths: Sequence[str],
    options: SalvageOptions,
    afterwards: list[str],
) -> Iterator[Row]:
    from kdump.findings.shell import format_command, topic_word

    name = str(of_topic[0][0].topic)
    found = [copy for _, some in of_topic for copy in some]
    topic_id = next((copy.topic_id for copy in found if copy.topic_id is not None), None)
    directories = dict.fromkeys(
        places.parent(copy.found.directory) for copy in found if not places.is_uri(copy.path)
    )
    others = [*directories, *paths]
    former = FormerTopic()
    if options.topic_configs:
        # With its id a topic is found in any log that was given: copies that were kept lie apart.
        near = directories if topic_id is None else [*directories, *paths]
        former = former_topic(name, topic_id, near, others)
    settings = topic_settings(options.server_properties, paths, from_disk=options.topic_configs).of(
        found[0].found.directory, None
    )
    now, later = _split(former, settings, of_topic)
    words: list[Word] = ["kafka-topics.sh", "--bootstrap-server", str(options.produce), "--create"]
    words += ["--topic", topic_word(one.topic)]
    words += ["--partitions", str(max(one.needed, former.partitions or 0))]
    if former.replicas is not None:
        words += ["--replication-factor", str(former.replicas)]
    for setting, value in sorted(now.items()):
        words += ["--config", f"{setting}={value}"]
    yield _step(CREATE, format_command(words), _create_text(one, former, later))
    if later:
        afterwards.append(restore_command(str(options.produce), one.topic, later))


def _create_text(one: MissingTopic, former: FormerTopic, later: dict[str, str | None]) -> str:

    text = f"Topic {one.topic} is not in the cluster. "
    if former.source is not None:
        where = "the metadata log" if former.source == METADATA_LOG else "files of ZooKeeper"
        text += f"Create it as it was, according to {where}"
        unknown = [
            word
            for word, known in (
                ("its settings", former.settings),
                ("how many partitions", former.partitions),
                ("how many replicas", former.replicas),
            )
            if known is None
        ]
        text += f" (unknown: {', '.join(unknown)})" if unknown else ""
    else:
        text += (
            "Its settings and replication factor are unknown: neither a metadata log nor "
            f"ZooKeeper files in the paths have them. It had {one.needed} or more partitions. "
            "Create it"
        )
    if former.settings is None:
        text += "; with retention.ms=-1 it keeps all records until you set another value"
    if later:
        text += (
            f"; {', '.join(sorted(later))} would lose records or their times and must be set last "
            "(the command is printed when all records have arrived)"
        )
    return text + ":"


def _split(
    former: FormerTopic, broker: Settings, of_topic: list[tuple[Item, Sequence[Copy]]]
) -> tuple[dict[str, str], dict[str, str | None]]:
    """Split the settings into those to create the topic with, and those for when all is there.

    The second hold the value that each had, None for that of the cluster.
    """
    now = dict(former.settings or {})
    later: dict[str, str | None] = {}
    oldest_ms = min((at for _, some in of_topic for at in _oldest(some)), default=None)
    largest = max((item.size_bytes for item, _ in of_topic), default=0)
    age_ms = None if oldest_ms is None else int(time.time() * 1000) - oldest_ms
    policy = now.get("cleanup.policy", broker.cleanup_policy)
    retention_ms = _int(now.get("retention.ms"), broker.retention_ms)
    if former.settings is None or (
        "delete" in policy and age_ms is not None and 0 <= retention_ms <= age_ms
    ):
        later["retention.ms"] = now.get("retention.ms")
        now["retention.ms"] = "-1"
    retention_bytes = _int(now.get("retention.bytes"), -1)
    if "delete" in policy and 0 <= retention_bytes < _MAY_GROW * largest:
        later["retention.bytes"] = now.pop("retention.bytes")
    for name in ("message.timestamp.before.max.ms", "message.timestamp.difference.max.ms"):
        if name in now and age_ms is not None and _int(now[name], -1) < age_ms:
            later[name] = now.pop(name)
    if now.get("message.timestamp.type") == "LogAppendTime":
        later["message.timestamp.type"] = now.pop("message.timestamp.type")
    if former.settings is None:
        later.pop("retention.ms")  # nothing says what it was
    return now, later


def _int(text: str | None, default: int) -> int:
    try:
        return default if text is None else int(text)
    except ValueError:
        return default


def _oldest(copies: Sequence[Copy]) -> Iterator[int]:
    """Yield the time of the first batch of each log: few are older than the oldest of these."""
    for copy in copies:
        yield from copy.first_times()


def restore_command(brokers: str, topic: str, later: dict[str, str | None]) -> str:
    """Give a topic the settings that would have lost records while they were produced."""
    from kdump.engine.salvage.targets import settings_command

    change: list[str] = []
    given = [f"{name}={value}" for name, value in sorted(later.items()) if value is not None]
    taken = [name for name, value in sorted(later.items()) if value is None]
    if given:
        change += ["--add-config", ",".join(map(_quote_list, given))]
    if taken:
        change += ["--delete-config", ",".join(taken)]
    return settings_command(brokers, topic, *change)


def _quote_list(setting: str) -> str:
    """Spell a setting as the tool takes it: with commas in its value, in brackets."""
    name, _, value = setting.partition("=")
    return f"{name}=[{value}]" if "," in value else setting


def restore_steps(commands: Sequence[str]) -> Iterator[Row]:
    """Yield the commands that were put off until all had arrived."""
    for command in commands:
        text = "After all records have arrived, set the remaining settings of the topic:"
        yield _step(RESTORE, command, text)


def format_repeat(
    paths: Sequence[str],
    copies: Sequence[tuple[str, Item, Sequence[Copy]]],
    options: SalvageOptions,
) -> tuple[str, ...]:
    """Give the words of the same command, with the folders of hard links and the state it has."""
    from kdump.findings.shell import path_word

    words = list(options.command)
    if "--resume" not in words and not any(word.startswith("--resume=") for word in words):
        at = words.index("produce") + 1
        words[at:at] = ["--resume", str(options.resume)]
    kept = list_kept_folders([item for _, item, _ in copies])
    named = {places.real(path) for path in paths}
    more = [path_word(folder) for folder in kept if places.real(folder) not in named]
    if more and not paths and options.server_properties is not None:
        more += map(path_word, data_directories(options.server_properties))
    return (*words, *more)
