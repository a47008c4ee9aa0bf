"""Suggest a command for a word that is not one."""

from __future__ import annotations

from difflib import get_close_matches

#: Words that people try first -> the commands that answer them.
_MEANT = {
    "info": "ls list topics partitions show what stat status overview",
    "usage": "ls list topics partitions du size sizes count",
    "dump": "cat print read records log logs show head tail view get",
    "verify": "check fsck scan test validate repair",
    "reindex": "repair fix rebuild index indexes",
    "salvage": "repair recover restore rescue undelete merge",
    "compare": "diff replicas",
    "groups": "lag offsets consumers consumer consumer-groups group",
    "transactions": "txn tx transaction hanging",
    "find-offset": "offset seek find lookup search",
    "find-time": "time timestamp find lookup search",
    "why": "space disk retention full explain",
    "report": "postmortem page html case summary evidence hashes pdf",
    "timeline": "history events incident happened order clock skew",
    "elect": "leader leaders election",
    "predict": "start forecast simulate",
    "cluster": "metadata brokers configs acls users zookeeper quorum",
    "carve": "image disk undelete",
    "produce": "replay send import",
    "sql": "select query duckdb database",
    "schema": "rows columns fields",
    "sequences": "gaps producers",
    "duplicates": "repeats dedup",
    "placement": "partitioner keys hash",
}


def no_such_command(word: str, names: dict[str, str]) -> str:
    """Return the message for a word that is not a command; `names` maps commands to their help."""
    asked = word.lower()
    meant = [name for name, words in _MEANT.items() if asked in words.split()]
    meant = meant or get_close_matches(asked, names, n=2)
    if not meant:
        return f"no command {word!r}; kdump --help lists the commands"
    widest = max(map(len, meant))
    lines = (f"  kdump {name.ljust(widest)}  {names[name]}" for name in meant)
    return "\n".join((f"no command {word!r}. Did you mean:", *lines))
