"""Segments that Aiven's plugin stored: those of its own classes, and random ones.

KDUMP_FUZZ=long takes 10,000 random manifests, whole and broken.
"""

import base64
import hashlib
import json
import random
import struct
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import zstandard
from corpus import corpus, find_shared
from each import each
from long_runs import LONG, SEED

from kdump.engine.verify.options import VerifyOptions
from kdump.engine.verify.tier import check_tier
from kdump.errors import StoreError
from kdump.findings.finding import Finding
from kdump.replay.topic_settings import topic_settings
from kdump.storage.aiven import AivenPartition, BadManifest, read_manifest
from kdump.storage.names import Kind
from kdump.storage.remote_objects import RemoteObjects
from kdump.stores.chunks import BadChunkError, ChunkKey, decompress

COUNT = 10_000 if LONG else 120
ID, TOPIC_ID = "_Y1Q7t4WT26IaezKIFxOjQ", "nO5caqCwS4mJy1twxMkd4A"
KINDS = {
    "offset": Kind.OFFSET_INDEX,
    "timestamp": Kind.TIME_INDEX,
    "producer_snapshot": Kind.PRODUCER_SNAPSHOT,
    "leader_epoch": Kind.LEADER_EPOCHS,
    "transaction": Kind.TRANSACTION_INDEX,
}
#: What each damaged set is found as, without reading chunks and with all of them.
DAMAGED = {
    "d01": ("remote-missing",) * 2,
    "d02": ("remote-missing",) * 2,
    "d03": ("remote-object-size",) * 2,
    **{f"d{number:02}": ("remote-manifest-invalid",) * 2 for number in range(4, 11)},
    "d11": ("remote-not-checked", "remote-object-differs"),
    "d12": (None, "remote-object-differs"),
}


def key_file() -> str:
    root = find_shared()
    if root is None:
        pytest.skip("no corpora: KDUMP_SHARED names none, and there is no ../shared")
    pytest.importorskip("cryptography")
    return str(root / "corpus/tiered/aiven/test-key-private.pem")


def sha256(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def test_segments_of_the_plugin_are_decoded() -> None:
    key, bucket = key_file(), corpus("tiered/aiven/bucket")
    root = find_shared()
    assert root is not None
    lines = (root / "corpus/tiered/aiven/expected.jsonl").read_text().splitlines()
    for one in map(json.loads, lines):
        inner = bucket / one["prefix"] if one["prefix"].endswith("/") else bucket
        objects = RemoteObjects(str(inner), key).of(one["topic"], one["partition"], one["topic_id"])
        files = objects.files(one["segment_id"])
        assert files
        assert sha256(files[Kind.LOG]) == one["log_sha256"]
        for name, said in one["indexes"].items():
            assert sha256(files[KINDS[name]]) == said["sha256"], name
    assert len(lines) == 15


@each("name", sorted(DAMAGED))
def test_damaged_segments_are_found(name: str) -> None:
    key, tier = key_file(), str(corpus("tiered/aiven/damaged") / name)
    for deep, code in zip((False, True), DAMAGED[name], strict=True):
        given = key if deep else None
        settings = topic_settings(None, [], tier=tier, tier_key=given)
        options = VerifyOptions(tier=tier, tier_key=given, deep=deep)
        items = list(check_tier([], options, settings))
        assert [one.code for one in items if isinstance(one, Finding)] == [code] * bool(code)


def sizes_of(chunks: list[bytes]) -> str:
    sizes = [len(one) for one in chunks]
    data = struct.pack(">i", len(sizes))
    if len(sizes) > 1:
        least = min(sizes[:-1])
        width = max((max(sizes[:-1]) - least).bit_length() + 7, 8) // 8
        data += struct.pack(">ib", least, width)
        data += b"".join((size - least).to_bytes(width, "big") for size in sizes[:-1])
    data += struct.pack(">i", sizes[-1]) if sizes else b""
    return base64.b64encode(zstandard.compress(data)).decode()


def stored(rng: random.Random, folder: Path) -> tuple[bytes, dict[str, Any]]:
    """Store a random segment; give its log and its manifest."""
    log = rng.randbytes(rng.randrange(1, 3_000)) + bytes(rng.randrange(0, 2_000))
    size = rng.randrange(1, 2 * len(log))
    if len(log) // size > 300:
        size = len(log) // 10 + 1
    compressed = rng.random() < 0.5
    chunks = [log[at : at + size] for at in range(0, len(log), size)]
    if compressed:
        chunks = [zstandard.compress(one) for one in chunks]
    index = rng.randbytes(40)
    chunk_index: dict[str, Any] = {"originalChunkSize": size, "originalFileSize": len(log)}
    if compressed:
        chunk_index |= {"type": "variable", "transformedChunks": sizes_of(chunks)}
    else:
        chunk_index |= {
            "type": "fixed",
            "transformedChunkSize": size,
            "finalTransformedChunkSize": len(chunks[-1]),
        }
    manifest: dict[str, Any] = {
        "version": "1",
        "chunkIndex": chunk_index,
        "segmentIndexes": {"offset": {"position": 0, "size": 16}, "transaction": None},
        "compression": compressed,
        "encryption": None,
        "remoteLogSegmentMetadata": {
            "remoteLogSegmentId": {
                "topicIdPartition": {
                    "topicId": TOPIC_ID,
                    "topicPartition": {"topic": "orders", "partition": 0},
                },
                "id": ID,
            },
            "startOffset": 7,
            "endOffset": 9,
        },
    }
    stem = f"{7:020}-{ID}"
    (folder / f"{stem}.log").write_bytes(b"".join(chunks))
    (folder / f"{stem}.indexes").write_bytes(index)
    (folder / f"{stem}.rsm-manifest").write_text(json.dumps(manifest))
    return log, manifest


def broken(rng: random.Random, manifest: dict[str, Any]) -> str:
    """Break a manifest: another value at one place, or other bytes."""
    text = json.dumps(manifest)
    if rng.random() < 0.3:
        at = rng.randrange(len(text))
        return text[:at] + rng.choice(("", "\x00", "9", '"', "}", "[" * 5_000)) + text[at + 1 :]
    place: Any = manifest
    while True:
        name = rng.choice(list(place))
        if not isinstance(place[name], dict) or rng.random() < 0.1:
            break
        place = place[name]
    place[name] = rng.choice(
        (None, -1, 0, 2**31 - 1, 2**63, 1.5, "..", "../../x", [], {}, True, "A" * 100)
    )
    return json.dumps(manifest)


def test_random_manifests_are_survived(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    folder = tmp_path / f"orders-{TOPIC_ID}/0"
    folder.mkdir(parents=True)
    paths = {end: str(folder / f"{7:020}-{ID}.{end}") for end in ("log", "indexes", "rsm-manifest")}
    refused = 0
    for _ in range(COUNT):
        log, manifest = stored(rng, folder)
        files = AivenPartition(str(folder), {ID: paths}, None).files(ID)
        assert files
        assert Path(files[Kind.LOG]).read_bytes() == log
        Path(paths["rsm-manifest"]).write_text(broken(rng, manifest))
        partition = AivenPartition(str(folder), {ID: paths}, None)
        files = partition.files(ID)
        if partition.failed:
            refused += 1
            assert not files
            assert len(partition.failed[ID]) < 200
        elif files:
            assert Path(files[Kind.LOG]).read_bytes() == log
    assert refused > COUNT // 3


# Written here --------------------------------------------------------------------------------


@cache
def private_key() -> Any:
    rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")
    return rsa.generate_private_key(65537, 1536)


def write_key(path: Path) -> str:
    from cryptography.hazmat.primitives import serialization as pem

    path.write_bytes(
        private_key().private_bytes(pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.NoEncryption())
    )
    return str(path)


def mask(seed: bytes, size: int) -> bytes:
    parts = (hashlib.sha3_512(seed + struct.pack(">I", n)).digest() for n in range(4))
    return b"".join(parts)[:size]


def xor(left: bytes, right: bytes) -> bytes:
    return (int.from_bytes(left, "big") ^ int.from_bytes(right, "big")).to_bytes(len(left), "big")


def wrap(data_key: bytes, *, first: int = 0) -> str:
    """Encrypt a data key as the plugin does: RSA with OAEP by SHA3-512."""
    numbers, seed = private_key().private_numbers().public_numbers, bytes(range(64))
    plain = hashlib.sha3_512(b"").digest() + b"\1" + data_key
    plain = plain[:64] + bytes(192 - 65 - len(plain)) + plain[64:]
    hidden = xor(plain, mask(seed, len(plain)))
    block = bytes([first]) + xor(seed, mask(hidden, 64)) + hidden
    number = pow(int.from_bytes(block, "big"), numbers.e, numbers.n)
    return "key1:" + base64.b64encode(number.to_bytes(192, "big")).decode()


def encrypt(data: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return bytes(12) + AESGCM(bytes(32)).encrypt(bytes(12), data, b"about")


LOG = bytes(range(250)) * 8
INDEX = bytes(16)


def encrypted(folder: Path, **changed: Any) -> AivenPartition:
    """Store a segment that is compressed and encrypted; `changed` are members of its manifest."""
    key = write_key(folder / "key.pem")
    place = folder / f"orders-{TOPIC_ID}/0"
    place.mkdir(parents=True)
    _, manifest = stored(random.Random(1), place)
    chunks = [encrypt(zstandard.compress(LOG[at : at + 900])) for at in range(0, len(LOG), 900)]
    index = {"type": "variable", "originalChunkSize": 900, "originalFileSize": len(LOG)}
    manifest |= {"compression": True, "chunkIndex": index | {"transformedChunks": sizes_of(chunks)}}
    at = {"position": 0, "size": 28 + len(INDEX)}
    manifest |= {"segmentIndexes": {"offset": at, "timestamp": at | {"size": 0}}}
    about = base64.b64encode(b"about").decode()
    manifest |= {"encryption": {"dataKey": wrap(bytes(32)), "aad": about}} | changed
    paths = {end: str(place / f"{7:020}-{ID}.{end}") for end in ("log", "indexes", "rsm-manifest")}
    Path(paths["log"]).write_bytes(b"".join(chunks))
    Path(paths["indexes"]).write_bytes(encrypt(INDEX))
    Path(paths["rsm-manifest"]).write_text(json.dumps(manifest))
    return AivenPartition(str(place), {ID: paths}, key)


def test_encrypted_segment_is_decoded(tmp_path: Path) -> None:
    files = encrypted(tmp_path).files(ID)
    assert files
    assert Path(files[Kind.LOG]).read_bytes() == LOG
    assert Path(files[Kind.OFFSET_INDEX]).read_bytes() == INDEX
    assert Path(files[Kind.TIME_INDEX]).read_bytes() == b""


@each(
    ("damage", "why"),
    [
        (
            {"dataKey": "key1:" + "A" * 256},
            "its data key was not encrypted with the given key pair",
        ),
        ({"dataKey": "key1:?"}, "its data key is not Base64"),
        ({"aad": ""}, "a chunk cannot be decrypted: its tag does not match"),
    ],
)
def test_segment_of_another_key_is_not_decoded(
    damage: dict[str, str], why: str, tmp_path: Path
) -> None:
    about = base64.b64encode(b"about").decode()
    encryption = {"dataKey": wrap(bytes(32)), "aad": about} | damage
    partition = encrypted(tmp_path, encryption=encryption)
    assert partition.files(ID) == {}
    assert partition.failed[ID].startswith(why)


def test_data_key_must_begin_with_zero(tmp_path: Path) -> None:
    partition = encrypted(tmp_path, encryption={"dataKey": wrap(b"k", first=1), "aad": ""})
    assert not partition.files(ID)
    assert "not encrypted with the given key pair" in partition.failed[ID]


def test_encrypted_segment_needs_a_key(tmp_path: Path) -> None:
    place = encrypted(tmp_path).folder
    options = VerifyOptions(tier=str(tmp_path), deep=True)
    items = list(check_tier([], options, topic_settings(None, [], tier=str(tmp_path))))
    assert [one.code for one in items if isinstance(one, Finding)] == ["remote-not-checked"]
    partition = RemoteObjects(str(tmp_path)).of("orders", 0, TOPIC_ID)
    assert (partition.folder, partition.files(ID)) == (place, {})
    assert partition.failed == {ID: "it is encrypted, and no key was given"}


@each(
    ("text", "why"),
    [
        (None, "No such file or directory"),
        ("secret", "is not an unencrypted private key in PEM"),
    ],
)
def test_unusable_key_file_is_named(text: str | None, why: str, tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    path = tmp_path / "key.pem"
    if text is not None:
        path.write_text(text)
    with pytest.raises(StoreError, match=why):
        ChunkKey(str(path))


def test_key_stays_in_its_process(tmp_path: Path) -> None:
    import pickle

    private_key()
    with pytest.raises(TypeError, match="must stay in its process"):
        pickle.dumps(ChunkKey(write_key(tmp_path / "key.pem")))


def test_key_of_another_algorithm_is_refused(tmp_path: Path) -> None:
    ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    from cryptography.hazmat.primitives import serialization as pem

    key = ed25519.Ed25519PrivateKey.generate()
    (tmp_path / "key.pem").write_bytes(
        key.private_bytes(pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.NoEncryption())
    )
    with pytest.raises(BadChunkError, match="not an RSA key"):
        ChunkKey(str(tmp_path / "key.pem")).data_key("key1:AAAA")


def packed(data: bytes) -> str:
    return base64.b64encode(zstandard.compress(data)).decode()


#: Chunk indexes of a log object of 60 bytes, and why its manifest cannot be true.
FIXED = {"type": "fixed", "originalFileSize": 60, "originalChunkSize": 30}
VARIABLE = FIXED | {"type": "variable"}
UNTRUE: list[tuple[dict[str, Any], str]] = [
    (FIXED | {"originalChunkSize": 0}, "its chunks have no size"),
    (FIXED | {"originalFileSize": 1 << 12, "originalChunkSize": 1},
     "4,096 chunks do not fit in 60 bytes"),
    (FIXED | {"transformedChunkSize": 30, "finalTransformedChunkSize": 29},
     "its chunks have 59 bytes, the .log object 60"),
    (FIXED | {"transformedChunkSize": 99, "finalTransformedChunkSize": 99},
     "its chunks have 198 bytes, the .log object 60"),
    (FIXED | {"type": "round"}, "its chunk index has type 'round'"),
    (VARIABLE | {"transformedChunks": "?"}, "its chunk sizes are not Base64"),
    (VARIABLE | {"transformedChunks": packed(b"\0\0\0\3" + bytes(20))},
     "it has 3 chunk sizes for 2 chunks"),
    (VARIABLE | {"transformedChunks": packed(b"\0\0\0\2" + bytes(8))},
     "its chunk sizes have the wrong length"),
    (VARIABLE | {"transformedChunks": packed(struct.pack(">iibBi", 2, 30, 2, 0, 30))},
     "its chunk sizes have the wrong length"),
    (VARIABLE | {"originalChunkSize": 60, "transformedChunks": packed(b"\0\0\0\1" + bytes(5))},
     "its chunk sizes have the wrong length"),
    (VARIABLE | {"transformedChunks": "AAAA"}, "a chunk cannot be decompressed"),
]  # fmt: skip


@each(("index", "why"), UNTRUE)
def test_manifest_that_cannot_be_true_is_refused(
    index: dict[str, Any], why: str, tmp_path: Path
) -> None:
    _, manifest = stored(random.Random(1), tmp_path)
    path = tmp_path / "manifest"
    path.write_text(json.dumps(manifest | {"chunkIndex": index}))
    with pytest.raises(BadManifest) as raised:
        read_manifest(str(path), 60, 40)
    assert str(raised.value).startswith(why)


def test_chunk_decompresses_to_its_size_at_most() -> None:
    assert decompress(zstandard.compress(bytes(10)), 10) == bytes(10)
    with pytest.raises(BadChunkError, match="it decompresses to more than 10 bytes"):
        decompress(zstandard.compress(bytes(11)), 10)


def test_index_behind_its_object_is_refused(tmp_path: Path) -> None:
    log, _ = stored(random.Random(1), tmp_path)
    path = next(tmp_path.glob("*.rsm-manifest"))
    size = next(tmp_path.glob("*.log")).stat().st_size
    assert read_manifest(str(path), size, 16).size_bytes == len(log)
    assert read_manifest(str(path), size, 16).log_bytes == size
    with pytest.raises(
        BadManifest, match=r"the offset-index ends at 16, the \.indexes object at 15"
    ):
        read_manifest(str(path), size, 15)


def test_huge_manifest_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "manifest"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(BadManifest, match="it has 1,073,741,824 bytes"):
        read_manifest(str(path), 0, 0)


#: What is done to the objects of a sound segment, and what is found with --deep.
OBJECTS: list[tuple[str, int | None, str, str]] = [
    ("rsm-manifest", None, "remote-missing", "The rsm-manifest object of segment"),
    ("indexes", None, "remote-missing", "The indexes object of segment"),
    ("log", None, "remote-missing", "The log object of segment"),
    ("log", 100, "remote-object-size", "The log object has 100 bytes, but "),
    ("log", -1, "remote-object-differs", "a chunk cannot be decrypted"),
]


@each(("end", "size", "code", "words"), OBJECTS)
def test_damage_to_objects_is_found(
    end: str, size: int | None, code: str, words: str, tmp_path: Path
) -> None:
    partition = encrypted(tmp_path)
    path = Path(partition.stored_paths(ID)[end])
    data = path.read_bytes()
    path.write_bytes(data[:size] if size != -1 else data[:-1] + bytes([data[-1] ^ 1]))
    if size is None:
        path.unlink()
    tier, key = str(tmp_path), str(tmp_path / "key.pem")
    options = VerifyOptions(tier=tier, tier_key=key, deep=True)
    settings = topic_settings(None, [], tier=tier, tier_key=key)
    found = [one for one in check_tier([], options, settings) if isinstance(one, Finding)]
    assert [one.code for one in found] == [code]
    assert words in str(found[0].message)
