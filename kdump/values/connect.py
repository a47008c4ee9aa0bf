"""Read the topics in which Kafka Connect keeps connectors, their offsets and states.

`{"type": …, "data": {…}}`: the type is in the key. Keys are text and values JSON, which is shown as
JSON with secrets masked: of configurations, and the key by which workers sign what they ask.
"""

from __future__ import annotations

import json
import re
from typing import Any

from kdump.messages.secrets import MASK, is_sensitive

#: Keys: `connector-NAME` and the like. Of a task the number stands behind the last hyphen.
_KEYS = {
    "connector-": "connector",
    "task-": "task",
    "commit-": "commit",
    "target-state-": "target_state",
    "tasks-fencing-": "tasks_fencing",
    "restart-connector-": "restart",
    "status-connector-": "connector_status",
    "status-task-": "task_status",
    "status-topic-": "topic_status",
    "logger-cluster-": "logger",
}
_SESSION_KEY = "session-key"
_OF_TASKS = ("task", "task_status")
_TOPIC = 2  # in Kafka's ConfigResource: not one of a broker
#: A password in the address of a database.
_IN_ADDRESS = re.compile(r"://[^/\s:@]*:[^/\s@]+@|password=", re.IGNORECASE)
_TEXT = rb'"((?:[^"\\]|\\.)*)"'
_MEMBER = re.compile(_TEXT + rb"\s*:\s*" + _TEXT, re.DOTALL)


def read_key(data: bytes) -> Any:
    """Return what a key names; bytes for one that is not Connect's."""
    try:
        text = data.decode()
        if text[:1] == "[":
            connector, partition = json.loads(text)
            if not isinstance(connector, str):
                return data
            members = {"connector": connector, "source_partition": partition}
            return {"type": "connector_offset", "data": members}
    except (ValueError, TypeError, RecursionError):
        return data
    if text == _SESSION_KEY:
        return {"type": "session_key", "data": {}}
    for start, kind in _KEYS.items():
        if text.startswith(start):
            name = text[len(start) :]
            if kind in _OF_TASKS:
                name, hyphen, number = name.rpartition("-")
                if not hyphen or not number.isdecimal() or len(number) > 9:
                    return data
                return {"type": kind, "data": {"connector": name, "task": int(number)}}
            if kind == "topic_status":
                topic, _, name = name.rpartition(":connector-")
                return {"type": kind, "data": {"topic": topic, "connector": name}}
            return {"type": kind, "data": {"name" if kind == "logger" else "connector": name}}
    return data


def read_value(key: Any, data: bytes) -> Any:
    """Return what a value holds, of whatever kind its key says."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return data
    if not isinstance(key, dict) or not isinstance(found, dict):
        return data
    return {"type": key["type"], "data": found}


def as_json(found: Any, secrets: bool) -> object:
    """Return what was read as JSON, with the secrets in it masked unless they are asked for."""
    if secrets or not isinstance(found, dict):
        return found
    data = mask(found["data"])
    if found["type"] == "session_key" and "key" in data:
        data["key"] = MASK
    return {**found, "data": data}


def mask(value: Any) -> Any:
    """Return JSON with the secrets in it masked."""
    if isinstance(value, dict):
        return {
            name: MASK if inner is not None and _is_secret(name, inner) else mask(inner)
            for name, inner in value.items()
        }
    return [mask(inner) for inner in value] if isinstance(value, list) else value


def _is_secret(name: str, value: object) -> bool:
    if isinstance(value, str) and _IN_ADDRESS.search(value):
        return True
    return not isinstance(value, (dict, list)) and is_sensitive(_TOPIC, name)


def redact(data: bytes) -> bytes | None:
    """Return the bytes of a value with each secret as asterisks; None where there is none."""
    hidden: bytearray | None = None
    is_session = b'"algorithm"' in data
    for match in _MEMBER.finditer(data):
        name, value = (_unquote(match[part]) for part in (1, 2))
        if _is_secret(name, value) or (is_session and name == "key"):
            hidden = hidden or bytearray(data)
            hidden[match.start(2) : match.end(2)] = b"*" * (match.end(2) - match.start(2))
    return None if hidden is None else bytes(hidden)


def _unquote(text: bytes) -> str:
    try:
        return str(json.loads(b'"%s"' % text))
    except ValueError:
        return text.decode("utf-8", "replace")
