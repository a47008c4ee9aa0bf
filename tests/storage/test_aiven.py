"""Segments that Aiven's plugin stored: those of its own classes, and random ones.

KDUMP_FUZZ=long takes 10,000 random manifests, whole and broken.
"""

import base64
import hashlib
import json
import random
import struct
from pathlib import Path
from typing import Any

import pytest
import zstandard
from corpus import corpus, find_shared
from each import each
from long_runs import LONG, SEED

from kdump.engine.verify.options import VerifyOptions
from kdump.engine.verify.tier import check_tier
from kdump.findings.finding import Finding
from kdump.replay.topic_settings import topic_settings
from kdump.storage.aiven import AivenPartition
from kdump.storage.names import Kind
from kdump.storage.remote_objects import RemoteObjects

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
