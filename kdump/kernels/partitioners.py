"""Where clients put a record by its key: the number that is divided by the count of partitions.

| name | whose |
| --- | --- |
| murmur2 | the Java client (its default), Sarama's murmur2, librdkafka's murmur2(_random) |
| crc32 | librdkafka's consistent, Sarama's consistent CRC |
| consistent-random | librdkafka's default consistent_random: an empty key goes anywhere |
| fnv1a | Sarama's hash partitioner, and librdkafka's fnv1a and fnv1a_random |
| fnv1a-reference | Sarama's reference hash partitioner: the sign bit is dropped |
| fnv1a-unsigned | Sarama's hash partitioner with unsigned arithmetic |
| java-hash | the Scala producers since 0.8.2 with keys that are strings |
| java-hash-old | those of 0.8.0 and 0.8.1 (KAFKA-1469): the sign bit is dropped |
| byte-array-hash | the Scala producers' ByteArrayPartitioner since 0.8.2 |
| byte-array-hash-old | that of 0.8.1: the sign bit is dropped |
| kafkajs-legacy | KafkaJS before 2.0, and its LegacyPartitioner since: murmur2 in doubles |

KafkaJS since 2.0, and its JavaCompatiblePartitioner before, is murmur2.

A record without a key goes anywhere, whoever sends it. All numbers are at least 0.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import iter_unpack
from zlib import crc32

Number = Callable[[bytes], int | None]
_MASK, _POSITIVE, _SIGN = 0xFFFFFFFF, 0x7FFFFFFF, 0x80000000
_SEED, _M = 0x9747B28C, 0x5BD1E995
_FNV_BASIS, _FNV_PRIME = 0x811C9DC5, 0x01000193


def murmur2(key: bytes) -> int:
    """Give the hash of 32 bits that the Java client calls murmur2."""
    whole = len(key) & ~3
    number = (_SEED ^ len(key)) & _MASK
    for (four,) in iter_unpack("<I", key[:whole]):
        mixed = four * _M & _MASK
        number = (number * _M & _MASK) ^ ((mixed ^ mixed >> 24) * _M & _MASK)
    if len(key) > whole:
        number = (number ^ int.from_bytes(key[whole:], "little")) * _M & _MASK
    number = (number ^ number >> 13) * _M & _MASK
    return number ^ number >> 15


def fnv1a(key: bytes) -> int:
    """Give the FNV-1a hash of 32 bits."""
    number = _FNV_BASIS
    for byte in key:
        number = (number ^ byte) * _FNV_PRIME & _MASK
    return number


def string_hash(key: bytes) -> int | None:
    """Give what Java's `String.hashCode` is, as 32 bits; None if the key is not text."""
    try:
        units = key.decode().encode("utf-16-be")
    except UnicodeDecodeError:
        return None
    number = 0
    for (unit,) in iter_unpack(">H", units):
        number = number * 31 + unit & _MASK
    return number


def byte_array_hash(key: bytes) -> int:
    """Give what Java's `Arrays.hashCode` is of an array of bytes, as 32 bits."""
    number = 1
    for byte in key:
        number = number * 31 + (byte ^ 0x80) - 0x80 & _MASK
    return number


def murmur2_in_doubles(key: bytes) -> int:
    """Give murmur2 as JavaScript computes it in numbers that are doubles, as 32 bits.

    Products of 32 by 31 bits lose their lowest bits, and what is multiplied has a sign. The last
    bytes are mixed in twice, once filled up with zeros.
    """
    number = _to_signed(_SEED ^ len(key))
    for at in range(0, len(key), 4):
        four = _to_signed(int.from_bytes(key[at : at + 4], "little"))
        mixed = _product(four)
        mixed = _product(_to_signed(mixed ^ (mixed & _MASK) >> 24))
        number = _to_signed(_product(number) ^ mixed)
    if rest := len(key) & 3:
        number = _product(_to_signed(number ^ int.from_bytes(key[-rest:], "little")))
    number = _product(_to_signed(number ^ (number & _MASK) >> 13))
    return (number ^ (number & _MASK) >> 15) & _MASK


def _product(number: int) -> int:
    """Multiply as doubles do; the result is a whole number all the same."""
    return int(float(number) * _M)


def _to_signed(number: int) -> int:
    """Give the lowest 32 bits as a number with a sign."""
    return ((number & _MASK) ^ _SIGN) - _SIGN


def _absolute(number: int) -> int:
    """Give the absolute value of a number of 32 bits with a sign."""
    return (1 << 32) - number if number & _SIGN else number


def _java_hash(key: bytes) -> int | None:
    number = string_hash(key)
    return None if number is None else _scala_absolute(number)


def _scala_absolute(number: int) -> int:
    return 0 if number == _SIGN else _absolute(number)


def _java_hash_old(key: bytes) -> int | None:
    number = string_hash(key)
    return None if number is None else number & _POSITIVE


#: The compiled kernel has them by number, in this order.
PARTITIONERS: dict[str, Number] = {
    "murmur2": lambda key: murmur2(key) & _POSITIVE,
    "consistent-random": lambda key: crc32(key) if key else None,
    "crc32": crc32,
    "fnv1a": lambda key: _absolute(fnv1a(key)),
    "fnv1a-reference": lambda key: fnv1a(key) & _POSITIVE,
    "fnv1a-unsigned": fnv1a,
    "java-hash": _java_hash,
    "java-hash-old": _java_hash_old,
    "byte-array-hash": lambda key: _scala_absolute(byte_array_hash(key)),
    "byte-array-hash-old": lambda key: byte_array_hash(key) & _POSITIVE,
    "kafkajs-legacy": lambda key: murmur2_in_doubles(key) & _POSITIVE,
}
