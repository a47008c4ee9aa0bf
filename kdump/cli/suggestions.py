"""Suggest a command for a word that is not one."""

from __future__ import annotations

import re
from collections.abc import Collection
from difflib import get_close_matches

#: Words that people try first -> the commands that answer them.
_MEANT = {
    "info": "ls list topics partitions show what stat stats status overview inspect describe",
    "usage": "ls list topics partitions du size sizes count stats",
    "dump": "cat print read records log logs show head tail view get consume messages grep search",
    "verify": "check fsck scan test validate repair fix doctor",
    "reindex": "repair fix rebuild index indexes",
    "salvage": "repair recover restore rescue undelete merge fix",
    "compare": "diff replicas replica mirror",
    "groups": "lag offsets consumers consumer consumer-groups group",
    "transactions": "txn tx transaction hanging",
    "find-offset": "offset seek find lookup search",
    "find-time": "time timestamp find lookup search",
    "why": "space disk retention full explain delete clean compact compaction df",
    "report": "postmortem page html case summary evidence hashes pdf",
    "timeline": "history events incident happened order clock skew",
    "elect": "leader leaders election replicas replica",
    "predict": "start forecast simulate",
    "cluster": "metadata brokers configs acls users zookeeper quorum",
    "carve": "image disk undelete recover",
    "produce": "replay send import",
    "sql": "select query duckdb database",
    "schema": "rows columns fields",
    "sequences": "gaps producers missing lost",
    "duplicates": "repeats dedup",
    "placement": "partitioner keys hash",
}
#: Options that other programs have -> those that are meant.
_OPTIONS = {
    "json": ("--format jsonl",),
    "csv": ("--format csv",),
    "count": ("--limit", "--tail"),
    "head": ("--limit",),
    "max": ("--limit", "--tail"),
    "max-messages": ("--limit", "--tail"),
    "last": ("--tail",),
    "since": ("--from-time", "--from"),
    "after": ("--from-time", "--from"),
    "start": ("--from-time", "--from-offset", "--from"),
    "until": ("--to-time", "--to"),
    "before": ("--to-time", "--to"),
    "end": ("--to-time", "--to-offset", "--to"),
    "dir": ("PATHS, without an option",),
    "path": ("PATHS, without an option",),
    "log-dir": ("PATHS, without an option",),
    "timezone": ("--utc-offset",),
    "config": ("--server-properties", "--config"),
    "verbose": ("--wide",),
}
_TARGET = re.compile(r"\d+")


def suggest_options(word: str, names: Collection[str]) -> list[str]:
    """Return the options of a command that resemble an unknown one, the likeliest first."""
    asked = word.lstrip("-")
    known = [one for one in _OPTIONS.get(asked, ()) if one.split()[0] in names or one[0] != "-"]
    begun = sorted(name for name in names if name.startswith(f"--{asked}-"))
    ending = sorted(name for name in names if name.endswith(f"-{asked}"))
    close = [] if known else get_close_matches(word, names, n=2)
    return [*dict.fromkeys((*known, *begun, *ending, *close))][:3]


def number_without_command(words: list[str]) -> str:
    """Return the message for paths followed by a number, without a command in front."""
    from kdump.findings.shell import format_command

    *paths, number = words
    find = format_command(("kdump", "find-offset", *paths, number))
    dump = format_command(("kdump", "dump", "--from-offset", number, *paths))
    lines = (f"no command for {number!r}. If it is an offset:", f"  {find}", f"  {dump}")
    return "\n".join(lines)


def no_such_command(word: str, names: dict[str, str]) -> str:
    """Return the message for a word that is not a command; `names` maps commands to their help."""
    asked = word.lower()
    if _TARGET.fullmatch(asked):
        return f"no command {word!r}. To find an offset: kdump find-offset PATH {word}"
    meant = [name for name, words in _MEANT.items() if asked in words.split()]
    meant = meant or get_close_matches(asked, names, n=2)
    if not meant:
        return f"no command or file {word!r}; kdump --help lists the commands"
    widest = max(map(len, meant))
    lines = (f"  kdump {name.ljust(widest)}  {names[name]}" for name in meant)
    return "\n".join((f"no command {word!r}. Did you mean:", *lines))
