"""What a broker refuses of settings that do not go together, or that Kafka checks by code (N1)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from ipaddress import ip_address

from kdump.broker import versions as v
from kdump.broker.setting_types import is_known_setting
from kdump.broker.versions import Version, has
from kdump.storage.checkpoints import java_int
from kdump.tuples import NamedTuple

#: The cause, the broker's sentence, and what to do.
Refusal = tuple[str, str, str]

_ENDPOINT = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")
_SECURE = re.compile(r"\b(?:SSL|SASL_SSL|SASL_PLAINTEXT)://", re.IGNORECASE)
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_FAILED = "requirement failed: "
_MIB = 1 << 20


def check_relations(
    values: Mapping[str, str], broker: Version, between: Iterator[Refusal], *, kraft: bool
) -> Iterator[Refusal]:
    """Yield what is refused, in the order in which a broker looks; each value is sound by itself.

    Messages are a broker's own sentences. `between` is what it refuses of roles and versions, at
    which it looks before it holds listeners against each other.
    """
    ends = _Listeners(values, broker, kraft=kraft)
    if not kraft:
        yield from _settings(_broker_id(values, broker))
    malformed = list(_settings(ends.find_malformed()))
    yield from malformed
    yield from _settings(_numbers(values, broker))
    yield from between
    if not malformed:
        yield from _settings(ends.find_mismatched())


def _settings(messages: Iterator[str]) -> Iterator[Refusal]:
    for message in messages:
        yield "settings", message, "Change the setting that the message names."


def _number(values: Mapping[str, str], name: str, default: int) -> int:
    found = java_int(values.get(name, "").strip())
    return default if found is None else found


def _least(broker: Version) -> str:
    reworded = has(broker, v.RANGES_REWORDED)
    return "greater than or equal to" if reworded else "equal or greater than"


def _broker_id(values: Mapping[str, str], broker: Version) -> Iterator[str]:
    lowest = -1 if values.get("broker.id.generation.enable", "true").lower() == "true" else 0
    number = _number(values, "broker.id", -1)
    highest = _number(values, "reserved.broker.max.id", 1000)
    if not lowest and number < 0:
        yield f"{_FAILED}broker.id must be {_least(broker)} 0"
    elif lowest and not lowest <= number <= highest:
        yield (
            f"{_FAILED}broker.id must be {_least(broker)} -1 and not greater than "
            "reserved.broker.max.id"
        )


def _numbers(values: Mapping[str, str], broker: Version) -> Iterator[str]:
    least = _least(broker)
    if _number(values, "log.roll.ms", 1) < 1:
        yield f"{_FAILED}log.roll.ms must be {least} 1"
    if _number(values, "log.roll.jitter.ms", 0) < 0:
        yield f"{_FAILED}log.roll.jitter.ms must be {least} 0"
    for name in ("log.retention.ms", "log.retention.minutes", "log.retention.hours"):
        if name in values:
            if _number(values, name, 1) == 0:
                yield f"{_FAILED}log.retention.ms must be unlimited (-1) or, {least} 1"
            break
    if "log.dirs" in values and not _parts(values["log.dirs"]):
        more = ": At least one log directory must be defined via log.dirs or log.dir."
        yield f"requirement failed{more if has(broker, v.RECORD_BATCHES) else ''}"
    codec, known = values.get("compression.type", "gzip").strip(), "snappy,lz4,gzip,producer"
    known = f"uncompressed,{'zstd,lz4,snappy,gzip,producer' if has(broker, v.ZSTD) else known}"
    if codec.lower() not in known.split(","):
        yield f"{_FAILED}compression.type : {codec} is not valid. Valid options are {known}"
    threads = _number(values, "log.cleaner.threads", 1)
    if not threads:
        yield "/ by zero"
    buffers = _number(values, "log.cleaner.dedupe.buffer.size", 128 * _MIB)
    cleans = values.get("log.cleaner.enable", "true").lower() == "true"
    if threads and buffers // threads <= _MIB and (cleans or has(broker, v.KRAFT_ONLY)):
        yield f"{_FAILED}log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."
    wait = _number(values, "replica.fetch.wait.max.ms", 500)
    lag = 30_000 if has(broker, v.LAG_OF_HALF_A_MINUTE) else 10_000
    if wait > _number(values, "replica.socket.timeout.ms", 30_000):
        yield (
            f"{_FAILED}replica.socket.timeout.ms should always be at least "
            "replica.fetch.wait.max.ms to prevent unnecessary socket timeouts"
        )
    if wait > _number(values, "replica.lag.time.max.ms", lag):
        than = "less than or equal to" if has(broker, v.LAG_REWORDED) else "at least"
        yield (
            f"{_FAILED}replica.fetch.wait.max.ms should always be {than} "
            "replica.lag.time.max.ms to prevent frequent changes in ISR"
        )
    factor = _number(values, "offsets.topic.replication.factor", 3)
    if not -1 <= _number(values, "offsets.commit.required.acks", -1) <= factor:
        yield (
            f"{_FAILED}offsets.commit.required.acks must be greater or equal -1 and less or equal "
            "to offsets.topic.replication.factor"
        )


def _parts(text: str) -> list[str]:
    return [one for one in (part.strip() for part in text.split(",")) if one]


class _Endpoint(NamedTuple):
    listener: str
    host: str
    port: str


def _find_repeated_port(ends: list[_Endpoint]) -> str | None:
    seen = Counter(end.port for end in ends if end.port != "0")
    return next((port for port, count in seen.items() if count > 1), None)


def _are_of_two_families(hosts: list[str]) -> bool:
    try:
        return sorted(ip_address(host).version for host in hosts) == [4, 6]
    except ValueError:
        return False


class _Listeners:
    """The listeners that settings name; `found` has those of each setting that is there."""

    def __init__(self, values: Mapping[str, str], broker: Version, *, kraft: bool) -> None:
        self._values = values
        self._broker = broker
        self._roles = _parts(values.get("process.roles", "")) if kraft else []
        self._of_controllers = [
            name.upper() for name in _parts(values.get("controller.listener.names", ""))
        ]
        self._checked = has(broker, v.CONTROLLER_LISTENERS_CHECKED)
        self.found: dict[str, list[_Endpoint]] = {}

    def find_malformed(self) -> Iterator[str]:
        """Yield what is refused of each listener as it is read."""
        values, protocols = self._values, {*_PROTOCOLS}
        given = values.get("listener.security.protocol.map")
        if given is not None:
            protocols = set()
            where = "listener.security.protocol.map"
            for one in _parts(given):
                name, colon, protocol = one.rpartition(":")
                if not colon:
                    length = f"begin 0, end -1, length {len(one)}"
                    yield f"Error parsing configuration property '{where}': {length}"
                elif protocol.strip() not in _PROTOCOLS:
                    yield f"Invalid security protocol `{protocol.strip()}` defined in {where}"
                protocols.add(name.strip().upper())
        elif self._checked and self._roles and not _SECURE.search(values.get("listeners", "")):
            # As they are written, where names of listeners are taken in capitals.
            protocols.update(_parts(values.get("controller.listener.names", "")))
        between = values.get("inter.broker.listener.name")
        if between is not None and between.upper() not in protocols:
            yield (
                f"Listener with name {between.upper()} defined in inter.broker.listener.name not "
                "found in listener.security.protocol.map."
            )
        where = "security.inter.broker.protocol"
        if (said := values.get(where)) is not None and said not in _PROTOCOLS:
            yield f"Invalid security protocol `{said}` defined in {where}"
        for setting, text in self._texts():
            yield from self._read(setting, text, protocols)

    def _texts(self) -> Iterator[tuple[str, str]]:
        """Yield the listeners of each setting; before 3.0 they may be a host and a port."""
        values = {
            name: text.strip()
            for name, text in self._values.items()
            if is_known_setting(name, self._broker)
        }
        host, port = values.get("host.name", ""), values.get("port", "9092")
        yield "listeners", self._values.get("listeners", f"PLAINTEXT://{host}:{port}")
        if (text := self._values.get("advertised.listeners")) is not None:
            yield "advertised.listeners", text
        elif "advertised.host.name" in values or "advertised.port" in values:
            host = values.get("advertised.host.name", host)
            port = values.get("advertised.port", port)
            yield "advertised.listeners", f"PLAINTEXT://{host}:{port}"

    def _read(self, setting: str, text: str, protocols: set[str]) -> Iterator[str]:
        ends = []
        shown = f"[{', '.join(_parts(text))}]" if has(self._broker, v.LISTS_CHECKED) else text
        start = f"Error creating broker listeners from '{shown}': "
        for part in _parts(text):
            match = _ENDPOINT.fullmatch(part)
            if match is None:
                yield f"{start}Unable to parse {part} to a broker endpoint"
                return
            name, host, port = match.groups()
            if name.upper() not in protocols:
                yield f"{start}No security protocol defined for listener {name.upper()}"
                return
            ends.append(_Endpoint(name.upper(), host, port))
        self.found[setting] = ends
        failed = start if has(self._broker, v.SETTINGS_REWORDED) else _FAILED
        repeated = []
        if setting == "listeners" and (port := _find_repeated_port(ends)) is not None:
            why = "Each listener must have a different port"
            if has(self._broker, v.PORTS_OF_TWO_FAMILIES):
                if _are_of_two_families([end.host for end in ends if end.port == port]):
                    return
                why = (
                    "If you have two listeners on the same port then one needs to be IPv4 and the "
                    "other IPv6"
                )
                shown += f", port: {port}"
            repeated.append(why)
        if len({end.listener for end in ends}) < len(ends):
            at = 0 if has(self._broker, v.LISTENER_NAMES_FIRST) else len(repeated)
            repeated.insert(at, "Each listener must have a different name")
        for why in repeated:
            yield f"{failed}{why}, listeners: {shown}"

    def find_mismatched(self) -> Iterator[str]:
        """Yield what is refused of all of them together, once nothing is malformed."""
        ends = self.found.get("listeners", [_Endpoint("PLAINTEXT", "", "9092")])
        names = {end.listener for end in ends}
        controllers, roles = self._of_controllers, self._roles
        said = self.found.get("advertised.listeners", ends)
        if not self._checked:
            pass
        elif roles and not has(self._broker, v.CONTROLLERS_ADVERTISED):
            if roles == ["controller"] and "advertised.listeners" in self.found:
                empty = "config must be empty when process.roles=controller"
                yield f"{_FAILED}The advertised.listeners {empty}"
            elif said is not ends and any(end.listener in controllers for end in said):
                yield (
                    f"{_FAILED}The advertised.listeners config must not contain KRaft controller "
                    "listeners from controller.listener.names when process.roles contains the "
                    "broker role because Kafka clients that send requests via advertised listeners "
                    "do not send requests to KRaft controllers -- they only send requests to KRaft "
                    "brokers."
                )
        held = roles if has(self._broker, v.ROLES_CHECKED) else []
        if "controller" in held:
            if self._checked and len(roles) == 1 and not names <= {*controllers}:
                yield (
                    f"{_FAILED}The listeners config must only contain KRaft controller listeners "
                    "from controller.listener.names when process.roles=controller"
                )
            if controllers and names.isdisjoint(controllers):
                yield (
                    f"{_FAILED}controller.listener.names must contain at least one value appearing "
                    "in the 'listeners' configuration when running the KRaft controller role"
                )
            elif not names.issuperset(controllers):
                yield (
                    f"{_FAILED}controller.listener.names must only contain values appearing in the "
                    "'listeners' configuration when running the KRaft controller role"
                )
        elif held and not controllers:
            yield (
                f"{_FAILED}controller.listener.names must contain at least one value when running "
                "KRaft with just the broker role"
            )
        elif held and not names.isdisjoint(controllers):
            yield (
                f"{_FAILED}controller.listener.names must not contain a value appearing in the "
                "'listeners' configuration when running KRaft with just the broker role"
            )
        if roles != ["controller"]:
            yield from self._of_brokers(ends, said)
        elif self._checked:
            return
        if has(self._broker, v.META_ADDRESS_REFUSED) and any(
            end.host == "0.0.0.0" for end in said if end.listener not in controllers
        ):
            yield (
                f"{_FAILED}advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. "
                "Use a routable IP address."
            )

    def _of_brokers(self, ends: list[_Endpoint], said: list[_Endpoint]) -> Iterator[str]:
        """Yield what is refused of the listeners that a broker advertises."""
        names, roles = {end.listener for end in ends}, self._roles
        controllers = self._of_controllers
        valid = [end.listener for end in said if end.listener not in controllers]
        if roles and not valid:
            yield (
                f"{_FAILED}There must be at least one broker advertised listener. Perhaps all "
                "listeners appear in controller.listener.names?"
            )
        values = self._values
        protocol = values.get("security.inter.broker.protocol", "PLAINTEXT")
        wanted = values.get("inter.broker.listener.name", protocol)
        if wanted.upper() not in valid:
            yield (
                f"{_FAILED}inter.broker.listener.name must be a listener name defined in "
                "advertised.listeners. The valid options based on currently configured listeners "
                f"are {','.join(valid)}"
            )
        if not names.issuperset(valid):
            yield (
                f"{_FAILED}advertised.listeners listener names must be equal to or a subset of the "
                f"ones defined in listeners. Found {','.join(valid)}. The valid options based on "
                f"the current configuration are {','.join(end.listener for end in ends)}"
            )
