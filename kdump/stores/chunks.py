"""Undo what a plugin does to chunks of remote objects: AES-GCM, then Zstandard."""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Any

from kdump.errors import StoreError, UsageError

#: Bytes that encryption adds: an initialization vector before, a tag behind.
IV_BYTES, TAG_BYTES = 12, 16
_KEY_LIMIT = 1 << 20


class BadChunkError(Exception):
    """A chunk, or a key, that cannot be undone; says why."""


class ChunkKey:
    """A private key, which unwraps the data keys of segments; it is never shown."""

    def __init__(self, path: str) -> None:
        try:
            from cryptography.hazmat.primitives.serialization import load_pem_private_key
        except ImportError:
            raise UsageError(
                "--tier-key needs a package that is not installed: pip install 'kdump[tier]'"
            ) from None
        try:
            with open(path, "rb") as file:
                data = file.read(_KEY_LIMIT)
            self._key: Any = load_pem_private_key(data, None)
        except OSError as error:
            raise StoreError(path, str(error.strerror)) from None
        except (ValueError, TypeError):
            raise StoreError(path, "is not an unencrypted private key in PEM") from None

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a key must stay in its process")

    def data_key(self, wrapped: str) -> bytes:
        """Return the key of a segment, `ID:BASE64` as its manifest has it."""
        numbers: Any = getattr(self._key, "private_numbers", lambda: None)()
        public = getattr(numbers, "public_numbers", None)
        modulus = getattr(public, "n", None)
        if modulus is None:
            raise BadChunkError("the private key is not an RSA key")
        try:
            packed = base64.b64decode(wrapped.rpartition(":")[2], validate=True)
        except binascii.Error:
            raise BadChunkError("its data key is not Base64") from None
        size = (modulus.bit_length() + 7) // 8
        number = pow(int.from_bytes(packed, "big") % modulus, numbers.d, modulus)
        return _unpad(number.to_bytes(size, "big"))


def _unpad(block: bytes) -> bytes:
    """Take OAEP with SHA3-512 off, which no version of the library can do."""
    size = hashlib.sha3_512().digest_size
    seed = _xor(block[1 : 1 + size], _mask(block[1 + size :], size))
    rest = _xor(block[1 + size :], _mask(seed, len(block) - size - 1))
    mark = rest.find(b"\1", size)
    label_is_right = rest[:size] == hashlib.sha3_512(b"").digest()
    if block[0] or not label_is_right or mark < 0 or any(rest[size:mark]):
        raise BadChunkError("its data key was not encrypted with the given key pair")
    return rest[mark + 1 :]


def _mask(seed: bytes, size: int) -> bytes:
    """Make a mask of a given size from a seed (MGF1)."""
    count = -(-size // hashlib.sha3_512().digest_size)
    blocks = (hashlib.sha3_512(seed + at.to_bytes(4, "big")).digest() for at in range(count))
    return b"".join(blocks)[:size]


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(one ^ other for one, other in zip(left, right, strict=True))


def decrypt(key: bytes, aad: bytes, data: bytes) -> bytes:
    """Decrypt one chunk, and check its tag."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        found: bytes = AESGCM(key).decrypt(data[:IV_BYTES], data[IV_BYTES:], aad)
    except (InvalidTag, ValueError):
        raise BadChunkError("a chunk cannot be decrypted: its tag does not match") from None
    return found


def decompress(data: bytes, limit: int) -> bytes:
    """Decompress one frame, up to a size."""
    import zstandard

    try:
        with zstandard.ZstdDecompressor().stream_reader(data) as stream:
            found: bytes = stream.read(limit + 1)
    except zstandard.ZstdError:
        raise BadChunkError("a chunk cannot be decompressed") from None
    if len(found) > limit:
        raise BadChunkError(f"it decompresses to more than {limit:,} bytes")
    return found
