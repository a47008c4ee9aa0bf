"""What a broker refuses of limits, codecs, classes and names that Kafka checks by code (N1).

Each rule is asked of the releases that have its setting; values are sound by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from kdump.broker import versions as v
from kdump.broker.setting_types import is_class, is_known_setting
from kdump.broker.versions import Version, has
from kdump.storage.checkpoints import java_int

_FAILED = "requirement failed: "
_KAFKAS = ("org.apache.kafka.", "kafka.")
#: The lower, its default, the higher, its default.
_NOT_ABOVE = (
    *(
        pair
        for kind in ("consumer", "share", "streams")
        for what, low, own, high in (
            ("session.timeout.ms", 45_000, 45_000, 60_000),
            ("heartbeat.interval.ms", 5_000, 5_000, 15_000),
        )
        for pair in (
            (f"group.{kind}.min.{what}", low, f"group.{kind}.max.{what}", high),
            (f"group.{kind}.min.{what}", low, f"group.{kind}.{what}", own),
            (f"group.{kind}.{what}", own, f"group.{kind}.max.{what}", high),
        )
    ),
    *(
        (f"group.{kind}.assignment.interval.ms", 1_000,
         f"group.{kind}.max.assignment.interval.ms", 15_000)
        for kind in ("consumer", "share", "streams")
    ),
    ("group.streams.min.task.offset.interval.ms", 15_000,
     "group.streams.task.offset.interval.ms", 60_000),
    ("group.streams.num.standby.replicas", 0, "group.streams.max.standby.replicas", 2),
    ("group.streams.num.warmup.replicas", 2, "group.streams.max.warmup.replicas", 20),
    ("group.share.max.size", 200, "group.share.max.share.sessions", 2_000),
)  # fmt: skip
_CODECS = ("offsets.topic.compression.codec", "share.coordinator.state.topic.compression.codec")
_POOLS = ("copier", "expiration")
_ASSIGNORS = ("group.consumer.assignors", "group.share.assignors", "group.streams.assignors")
_OWN_ASSIGNORS = ("uniform", "range", "simple", "sticky")


def check_rules(values: Mapping[str, str], broker: Version, *, kraft: bool) -> Iterator[str]:
    """Yield what is refused."""
    known = {name: text.strip() for name, text in values.items() if is_known_setting(name, broker)}

    def number(name: str, default: int) -> int:
        found = java_int(known.get(name, ""), 1 << 63)
        return default if found is None else found

    for low, lowest, high, highest in _NOT_ABOVE:
        if (low in known or high in known) and number(low, lowest) > number(high, highest):
            yield f"{high} must be greater than or equals to {low}"
    for name in _CODECS:
        if not 0 <= number(name, 0) <= 3 + has(broker, v.ZSTD):
            yield f"{number(name, 0)} is an unknown compression codec"
    if not (number("compression.gzip.level", -1) == -1 or 0 < number(_GZIP, -1) < 10):
        yield (
            f"Invalid value {number(_GZIP, -1)} for configuration {_GZIP}: Value must be between 1 "
            "and 9 or equal to -1"
        )
    for pool in _POOLS:
        name = f"remote.log.manager.{pool}.thread.pool.size"
        threads = number(name, -1)
        if threads < -1 or not threads:
            yield (
                f"Invalid value {threads} for configuration {name}: Value can be -1 or greater "
                "than 0"
            )
    yield from _connections(known, number)
    if known.get("group.coordinator.rebalance.protocols") is not None and "classic" not in _parts(
        known["group.coordinator.rebalance.protocols"].lower()
    ):
        yield "Disabling the 'classic' protocol is not supported."
    if known.get("group.share.assignors") == "":
        yield "group.share.assignors must contain exactly one assignor, but found 0"
    for name, text in known.items():
        if is_class(name, broker) and not text:
            yield f"Invalid value  for configuration {name}: Class  could not be found."
    missing = set(_parts(known.get("cordoned.log.dirs", ""))) - {"*", *_log_dirs(values)}
    if missing:
        yield (
            f"{_FAILED}All entries in cordoned.log.dirs must be present in log.dirs or log.dir. "
            f"Missing entries : {','.join(sorted(missing))}"
        )
    yield from _listeners(known, broker, kraft=kraft)
    own, other = known.get("broker.id"), known.get("node.id")
    both = not kraft and has(broker, v.ONE_NODE_ID) and None not in (own, other)
    if both and java_int(own or "") != java_int(other or ""):
        yield "You must set `node.id` to the same value as `broker.id`."


_GZIP = "compression.gzip.level"


def _log_dirs(values: Mapping[str, str]) -> list[str]:
    return _parts(values.get("log.dirs", values.get("log.dir", "")))


def _connections(known: Mapping[str, str], of: Callable[[str, int], int]) -> Iterator[str]:
    idle, delay = of("connections.max.idle.ms", -1), of(_DELAY, 100)
    if 0 <= idle <= delay:
        yield (
            f"{_FAILED}{_DELAY}={delay} should always be less than connections.max.idle.ms={idle} "
            "to prevent failed authentication response"
        )
    if 0 < of("queued.max.request.bytes", -1) < of("socket.request.max.bytes", 100 << 20):
        yield (
            f"{_FAILED}queued.max.request.bytes must be larger or equal to socket.request.max.bytes"
        )
    each = "max.connections.per.ip.overrides"
    if of("max.connections.per.ip", 1) == 0 and not known.get(each):
        yield (
            f"{_FAILED}max.connections.per.ip can be set to zero only if {each} property is set."
        )
    for entry in _parts(known.get(each, "")):
        _, colon, count = entry.rpartition(":")
        if not colon or java_int(count.strip()) is None:
            length = f"begin 0, end -1, length {len(entry)}"
            yield f"Error parsing configuration property '{each}': {length}"
            return


_DELAY = "connection.failed.authentication.delay.ms"


def _listeners(known: Mapping[str, str], broker: Version, *, kraft: bool) -> Iterator[str]:
    own = [part.partition("://")[0].strip().upper() for part in _parts(known.get("listeners", ""))]
    own = own or ["PLAINTEXT"]
    controllers = [name.upper() for name in _parts(known.get("controller.listener.names", ""))]
    for name in _parts(known.get("early.start.listeners", "")):
        if name.upper() not in (*own, *controllers):
            yield (
                f"early.start.listeners contains listener {name.upper()}, but this is not "
                "contained in listeners or controller.listener.names"
            )
    plane = known.get("control.plane.listener.name")
    between = known.get("inter.broker.listener.name", "PLAINTEXT").upper()
    if plane is not None and (kraft or plane.upper() not in own or plane.upper() == between):
        yield (
            f"Listener with {plane.upper()} defined in control.plane.listener.name not found in "
            "listener.security.protocol.map."
        )
    if controllers and not kraft and has(broker, v.CONTROLLER_LISTENERS_CHECKED):
        yield (
            f"{_FAILED}controller.listener.names must be empty when not running in KRaft mode: "
            f"[{', '.join(controllers)}]"
        )


def list_unknown_classes(values: Mapping[str, str], broker: Version) -> Iterator[str]:
    """Say of which classes it is not known whether the broker has them."""
    for name, text in values.items():
        given = [text.strip()] if is_class(name, broker) or name in _NAMED else []
        if name in _ASSIGNORS and is_known_setting(name, broker):
            given = [one for one in _parts(text) if one.lower() not in _OWN_ASSIGNORS]
        for one in given:
            if one and not one.startswith(_KAFKAS):
                yield f"Whether the broker has the class {one}, which {name} requires."


_NAMED = ("authorizer.class.name", "principal.builder.class")


def _parts(text: str) -> list[str]:
    return [one for one in (part.strip() for part in text.split(",")) if one]
