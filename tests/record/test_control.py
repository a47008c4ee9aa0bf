"""control: transaction markers and the other control records, sound and broken (F29)."""

import random
import struct

from each import each

from kdump.record import control

ID = bytes(range(16))
ID_TEXT = "AAECAwQFBgcICQoLDA0ODw"


def key(number: int, version: int = 0) -> bytes:
    return struct.pack(">hh", version, number)


def voters(directory: bool) -> bytes:
    """Write a compact array of two voters."""
    one = b"".join(
        struct.pack(">i", number) + (ID if directory else b"") + b"\x00" for number in (1, 2)
    )
    return b"\x03" + one


def endpoint(name: bytes, host: bytes, port: int) -> bytes:
    sized = bytes([len(name) + 1]) + name + bytes([len(host) + 1]) + host
    return sized + struct.pack(">H", port) + b"\x00"


VOTERS = (
    struct.pack(">h", 0)
    + b"\x02"
    + struct.pack(">i", 3)
    + ID
    + b"\x02"
    + endpoint(b"CONTROLLER", b"host.example", 65535)
    + struct.pack(">hh", 0, 1)
    + b"\x00\x00"
    + b"\x00"
)

SOUND = {
    "abort": (0, struct.pack(">hi", 0, 7), {"type": "ABORT", "coordinator_epoch": 7}),
    "commit": (1, struct.pack(">hi", 0, 7), {"type": "COMMIT", "coordinator_epoch": 7}),
    "leader change": (
        2,
        struct.pack(">hi", 0, 2) + voters(False) + b"\x01\x00",
        {
            "type": "LEADER_CHANGE",
            "value_version": 0,
            "leader_id": 2,
            "voters": [{"voter_id": 1}, {"voter_id": 2}],
            "granting_voters": [],
        },
    ),
    "leader change 1": (
        2,
        struct.pack(">hi", 1, 2) + voters(True) + b"\x01\x00",
        {
            "type": "LEADER_CHANGE",
            "value_version": 1,
            "leader_id": 2,
            "voters": [
                {"voter_id": 1, "directory_id": ID_TEXT},
                {"voter_id": 2, "directory_id": ID_TEXT},
            ],
            "granting_voters": [],
        },
    ),
    "snapshot header": (
        3,
        struct.pack(">hq", 0, 123) + b"\x00",
        {"type": "SNAPSHOT_HEADER", "value_version": 0, "last_contained_log_timestamp": 123},
    ),
    "snapshot footer": (
        4,
        struct.pack(">h", 0) + b"\x00",
        {"type": "SNAPSHOT_FOOTER", "value_version": 0},
    ),
    "kraft version": (
        5,
        struct.pack(">hh", 0, 1) + b"\x00",
        {"type": "KRAFT_VERSION", "value_version": 0, "kraft_version": 1},
    ),
    "kraft voters": (
        6,
        VOTERS,
        {
            "type": "KRAFT_VOTERS",
            "value_version": 0,
            "voters": [
                {
                    "voter_id": 3,
                    "voter_directory_id": ID_TEXT,
                    "endpoints": [{"name": "CONTROLLER", "host": "host.example", "port": 65535}],
                    "kraft_version_feature": {
                        "min_supported_version": 0,
                        "max_supported_version": 1,
                    },
                }
            ],
        },
    ),
}


@each("name", SOUND)
def test_fields_of_each_type(name: str) -> None:
    number, value, expected = SOUND[name]
    told = control.parse(key(number), value)
    assert told.pop("version") == 0
    assert told == expected


@each("name", SOUND)
def test_truncated_value_is_malformed(name: str) -> None:
    number, value, expected = SOUND[name]
    # The tagged fields at the end say nothing, and are not asked for.
    needed = len(value) - (1 if number > 1 else 0)
    for size in range(needed):
        told = control.parse(key(number), value[:size])
        assert told == {"type": expected["type"], "version": 0, "malformed": "value"}, size
    assert control.parse(key(number), None).get("malformed") == "value"


def test_null_list_is_malformed() -> None:
    """As to the broker's own class, which has no null there."""
    value = struct.pack(">hi", 1, 2) + voters(True) + b"\x00\x00"
    assert control.parse(key(2), value).get("malformed") == "value"


def test_later_quorum_record_version_is_read_as_the_newest() -> None:
    value = struct.pack(">hi", 7, 2) + voters(True) + b"\x01\x00" + b"more"
    told = control.parse(key(2), value)
    assert (told["value_version"], told["leader_id"]) == (7, 2)
    tagged = struct.pack(">hh", 0, 1) + b"\x01\x09\x00"
    assert control.parse(key(5), tagged) == {
        "type": "KRAFT_VERSION",
        "version": 0,
        "value_version": 0,
        "kraft_version": 1,
    }


@each("broken", [None, b"", b"\0\0\0", struct.pack(">hh", -1, 1)])
def test_key_without_a_type_is_malformed(broken: bytes | None) -> None:
    assert control.control_type(broken) is None
    told = control.parse(broken, b"")
    assert told == {"type": "UNKNOWN", "version": None, "malformed": "key"}


def test_unknown_type_is_left_alone() -> None:
    assert control.parse(key(77), b"anything") == {"type": "UNKNOWN", "version": 0, "type_id": 77}
    assert control.control_type(key(-1)) == -1


def test_later_marker_version_is_read_as_the_first() -> None:
    told = control.parse(key(1, 5) + b"more", struct.pack(">hi", 3, 9) + b"more")
    assert told == {"type": "COMMIT", "version": 5, "coordinator_epoch": 9}
    assert control.parse(key(1), struct.pack(">hi", -1, 9)).get("malformed") == "value"


def test_random_values_never_raise() -> None:
    rng = random.Random(5)
    for _ in range(3000):
        number, value, _ = rng.choice(list(SOUND.values()))
        broken = bytearray(value)
        for _ in range(rng.randint(1, 4)):
            broken[rng.randrange(len(broken))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
        assert control.parse(key(number), bytes(broken))["type"] == control.TYPE_NAMES[number]
